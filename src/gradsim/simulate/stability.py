"""The largest stable time step of a scene, estimated from stiffness, mass and element size.

The highest frequency of a mesh is at most that of its stiffest element alone, with its share of the nodes' masses
(Irons and Treharne); shares go by volume or area, and the lightest node counts for the whole body. Each family of
elements gives a frequency w and a damping rate d that way, the integrator turns them into a step, and a body with
several families gets the step of their squared rates added. Contact counts as if all nodes touched.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch

from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.simulate.assemble import Assembly, assemble
from gradsim.simulate.topology import Topology

GROWTH = 1e-3  # a step, tolerated of the explicit midpoint rule's fastest oscillation

REASONS = {
    "spring": "spring stiffness",
    "triangle": "membrane stiffness or air",
    "bend": "bending stiffness",
    "tet": "material stiffness",
    "contact": "contact stiffness or friction",
    "touch": "contact stiffness or friction",
}


class StableStep(NamedTuple):
    dt: float  # [s]
    body: str
    reason: str


def stable_dt(scene: Scene, integrator: Integrator = SymplecticEuler()) -> float:
    """Largest stable time step [s], estimated at the rest shape; the smallest over a batch.

    An estimate: large strains stiffen a body, and a mesh may bear a step up to about 1.5 times as large.
    """
    with torch.no_grad():
        return stable_step(assemble(scene), integrator).dt


def stable_step(assembly: Assembly, integrator: Integrator) -> StableStep:
    """The stable step with the body and the family of forces that limit it."""
    best = StableStep(math.inf, "", "nothing")
    rates: dict[str, dict[str, float]] = {}
    for place, needs in assembly.pattern.fact("resisting", (), _resisting, assembly.topology):
        family, body = place
        rate = assembly.pattern.fact((place, integrator), needs, _rate, family, body, assembly, integrator)
        rates.setdefault(body, {})[family] = rate
    for body, parts in rates.items():
        total = sum(parts.values())
        if total > 0 and total**-0.5 < best.dt:
            best = StableStep(total**-0.5, body, REASONS[max(parts, key=lambda family: parts[family])])
    return best


def _resisting(topology: Topology) -> list[tuple[tuple[str, str], tuple[str, ...]]]:
    """Families and bodies whose elements limit the step, and the tables and states that these rates follow from."""
    needs = dict.fromkeys(REASONS, ("node",)) | {"touch": ("rigid",), "triangle": ("node", "node.v")}
    return [((family, body), (family, *needs[family])) for family, body in topology.ranges if family in REASONS]


def _rate(family: str, body: str, assembly: Assembly, integrator: Integrator) -> float:
    """The square of one over a body's stable step with one family of forces alone [1/s^2]."""
    stiffness, damping = _rates(family, body, assembly)
    dt = _step(math.sqrt(max(stiffness, 0.0)), damping, integrator)
    return dt**-2 if dt > 0 else math.inf


def _rates(family: str, body: str, assembly: Assembly) -> tuple[float, float]:
    """Largest squared frequency [1/s^2] and damping rate [1/s] of a body's elements of one family."""
    part = "rigid" if family == "touch" else "node"
    place = ("lightness", family, body)
    lightness = assembly.pattern.fact(place, (part,), _lightness, family, body, assembly)
    rows = _rows(family, body, assembly)
    if family in ("contact", "touch"):
        ke, kd, kf = map(_most, rows[:3])
        return ke * lightness, max(kd, kf) * lightness
    if family in ("spring", "bend"):
        return _most(rows[0]) * lightness, _most(rows[1]) * lightness
    stretch = assembly.pattern.fact(("stretch", family, body), (), _stretch, family, body, assembly)
    mu, lam, damping = rows[0] * stretch, rows[1] * stretch, _most(rows[2] * stretch) * lightness
    if family == "tet":  # lam's part only where it stiffens
        return max(_most(1.5 * mu), _most(3.0 * lam - 0.375 * mu)) * lightness, damping
    air = _most(rows[3] + rows[4])
    if air > 0.0:
        damping = max(damping, 2.0 * air * _speed(body, assembly) * lightness)
    return max(_most((4 / 3) * mu), _most(2.0 * lam + (4 / 9) * mu)) * lightness, damping


def _rows(family: str, body: str, assembly: Assembly) -> Any:
    """The rows of a body's elements of a family that differ: arrays [B, elements], or numbers, which take less time."""
    return assembly.pattern.fact(("rows", family, body), (family,), _find_rows, family, body, assembly)


def _find_rows(family: str, body: str, assembly: Assembly) -> Any:
    first, count = assembly.topology.ranges[family, body][0], assembly.pattern.distinct[family, body]
    table = assembly.numbers(family)
    return table[0, :, first].tolist() if len(table) * count == 1 else table[:, :, first : first + count].swapaxes(0, 1)


def _stretch(family: str, body: str, assembly: Assembly) -> Any:
    """How fast a body's elements vibrate [1/m^2], [elements]; the fastest, if there is no other difference."""
    stretch = assembly.topology.arrays[f"{family}.stretch"][slice(*assembly.topology.ranges[family, body])]
    return _most(stretch) if assembly.pattern.distinct[family, body] == 1 else stretch


def _most(values: Any) -> float:
    return float(values.max() if isinstance(values, np.ndarray) else values)


def _lightness(family: str, body: str, assembly: Assembly) -> float:
    """How much a body yields, at most, to what its elements of one family do."""
    topology = assembly.topology
    if family == "touch":
        return _rigid_lightness(body, assembly)
    nodes = slice(*topology.spans[body])
    inverse = assembly.numbers("node")[:, 0, nodes]
    if family == "contact":
        return _most(inverse)
    if family == "spring":
        return 2.0 * _most(inverse * topology.arrays["node.degree"][nodes])
    lightness = _most(inverse * topology.arrays["node.measure"][nodes])  # 1 / density
    return lightness * _fastest_bending(topology) if family == "bend" else lightness


def _speed(body: str, assembly: Assembly) -> float:
    """Largest start velocity of a body's nodes [m/s]; the air's force is quadratic in it."""
    nodes = slice(*assembly.topology.spans[body])
    return float(assembly.states["node.v"].detach()[:, nodes].norm(dim=-1).max())


def _rigid_lightness(body: str, assembly: Assembly) -> float:
    """How much a body's contact points together yield to a unit of stiffness [1/kg].

    As many points count as lie in its largest flat, each moving the body and turning it with its longest lever.
    """
    rows = _rows("rigid", body, assembly)
    points, reach = _size(body, assembly)
    return _most(rows[0] + (rows[7] + rows[8] + rows[9]) * reach**2) * points


def _size(body: str, assembly: Assembly) -> tuple[float, float]:
    """How many of a rigid body's points make its largest flat, and its reach [m]."""
    index, arrays = assembly.topology.ranges["rigid", body][0], assembly.topology.arrays
    return arrays["rigid.flat"].item(index), arrays["rigid.reach"].item(index)


def sinking(assembly: Assembly) -> list[tuple[str, float, float]]:
    """Rigid bodies that sink deeper than a tenth of their size when they rest: name, depth [m], size [m]."""
    found = []
    for family, body in assembly.topology.ranges:
        if family == "touch":
            depth, size = assembly.pattern.fact(("depth", body), ("touch", "rigid"), _depth, body, assembly)
            if depth > 0.1 * size:
                found.append((body, depth, size))
    return found


def _depth(body: str, assembly: Assembly) -> tuple[float, float]:
    """How deep a rigid body sinks when it rests [m], and its size [m]."""
    rows = _rows("rigid", body, assembly)
    points, reach = _size(body, assembly)
    stiffness = _rows("touch", body, assembly)[0]
    if isinstance(stiffness, np.ndarray):
        stiffness = stiffness.max(1, keepdims=True)
    weight = (rows[1] ** 2 + rows[2] ** 2 + rows[3] ** 2) ** 0.5 / rows[0]
    return _most(weight / np.multiply(stiffness, points)), 2.0 * reach  # endless where nothing pushes back


@functools.lru_cache(maxsize=32)
def _fastest_bending(topology: Topology) -> float:
    """Largest eigenvalue [1/m^4] of bending at the rest shape for unit rigidity and mass per area, by power iteration.

    A bound by single elements would be several times too high: a node takes part in a dozen of them.
    """
    arrays = topology.arrays
    nodes, coupling = arrays["bend.nodes"], arrays["bend.coupling"]
    K = coupling[:, [[0, 5, 4], [5, 1, 3], [4, 3, 2]]]
    gradients = _edge_gradients(arrays["node.rest"][nodes])
    gradients[nodes[:, 3:] == nodes[:, :3]] = 0.0
    measure = np.maximum(arrays["node.measure"], 1e-300)[:, None]
    u = np.random.default_rng(0).standard_normal((topology.node_count, 3))
    size = 0.0
    for _ in range(60):
        angles = np.einsum("eink,enk->ei", gradients, u[nodes])
        torques = np.einsum("eij,ej->ei", K, angles)
        forces = np.zeros_like(u)
        np.add.at(forces, nodes.ravel(), np.einsum("eink,ei->enk", gradients, torques).reshape(-1, 3))
        u = forces / measure
        size = float(np.linalg.norm(u))
        u /= max(size, 1e-300)
    return 1.05 * size  # the iteration comes from below


def _edge_gradients(x: np.ndarray) -> np.ndarray:
    """Gradients of the three edge angles of patches [E, 6, 3] in their nodes, [E, 3, 6, 3]."""
    result = np.zeros((len(x), 3, 6, 3))
    for i, (a, k, l, b) in enumerate(((0, 1, 2, 3), (1, 2, 0, 4), (2, 0, 1, 5))):
        edge, da, db = x[:, l] - x[:, k], x[:, a] - x[:, k], x[:, b] - x[:, k]
        n0, n1 = np.cross(edge, da), np.cross(db, edge)
        length2 = (edge * edge).sum(1, keepdims=True)
        ga = -n0 * np.sqrt(length2) / (n0 * n0).sum(1, keepdims=True)
        gb = -n1 * np.sqrt(length2) / np.maximum((n1 * n1).sum(1, keepdims=True), 1e-300)
        ta, tb = (da * edge).sum(1, keepdims=True) / length2, (db * edge).sum(1, keepdims=True) / length2
        result[:, i, a], result[:, i, b] = ga, gb
        result[:, i, k], result[:, i, l] = -(ga * (1 - ta) + gb * (1 - tb)), -(ga * ta + gb * tb)
    return result


def _step(frequency: float, damping: float, integrator: Integrator) -> float:
    """Largest stable step of a damped oscillator [s]."""
    if frequency == 0.0 and damping == 0.0:
        return math.inf
    euler = 4.0 / (damping + math.sqrt(damping**2 + 4.0 * frequency**2))
    if not isinstance(integrator, Midpoint):
        return euler
    return _midpoint_step(frequency, damping, 2.0 * euler)


def _midpoint_step(frequency: float, damping: float, most: float) -> float:
    """Largest step up to `most` in which the explicit midpoint rule lets a damped oscillator grow by `GROWTH` [s].

    A step multiplies a motion of rate s by 1 + z + z^2 / 2, z = s dt.
    """
    half, square = 0.5 * damping, 0.25 * damping**2 - frequency**2
    if square >= 0.0:  # no oscillation: the faster of two decays counts
        return min(most, (1.0 + math.sqrt(1.0 + 2.0 * GROWTH)) / (half + math.sqrt(square)))
    low, high, limit = 0.0, most, (1.0 + GROWTH) ** 2
    for _ in range(40):
        dt = 0.5 * (low + high)
        pull, turn = half * dt, (frequency * dt) ** 2
        grown = 1.0 - 2.0 * pull + 2.0 * pull * pull - pull * turn + 0.25 * turn * turn  # |1 + z + z^2 / 2|^2
        low, high = (dt, high) if grown <= limit else (low, dt)
    return low
