"""The largest stable time step of a scene, estimated from stiffness, mass and element size.

The highest frequency of a mesh is at most that of its stiffest element alone, with its share of the nodes' masses
(Irons and Treharne); shares go by volume or area, and the lightest node counts for the whole body. Each family of
elements gives a frequency w and a damping rate d that way, the integrator turns them into a step, and a body with
several families gets the step of their squared rates added. Contact counts as if all nodes touched.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import torch

from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.simulate.assemble import ROWS, Assembly, assemble
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



def _forms(family: str, *forms: dict[str, float]) -> np.ndarray:
    """Linear forms of a family's parameters, [forms, rows]."""
    return np.array([[form.get(row, 0.0) for row in ROWS[family]] for form in forms])


CONTACT = ({"ke": 1.0}, {"kd": 1.0}, {"kf": 1.0})
ELASTIC = ({"stiffness": 1.0}, {"damping": 1.0})

# What the rates of a family follow from. A solid's modulus is mu's part alone or, where that is more, lam's with it.
FORMS = {
    "spring": _forms("spring", *ELASTIC),
    "triangle": _forms(
        "triangle", {"mu": 4 / 3}, {"mu": 4 / 9, "lam": 2.0}, {"damping": 1.0}, {"drag": 1.0, "lift": 1.0}
    ),
    "bend": _forms("bend", *ELASTIC),
    "tet": _forms("tet", {"mu": 1.5}, {"mu": -0.375, "lam": 3.0}, {"damping": 1.0}),
    "contact": _forms("contact", *CONTACT),
    "touch": _forms("touch", *CONTACT),
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
    for family, body in assembly.topology.ranges:
        if family in REASONS:
            needs = (family, "rigid" if family == "touch" else "node", *(("node.v",) if family == "triangle" else ()))
            place = ("rate", family, body, integrator)
            rates.setdefault(body, {})[family] = assembly.pattern.fact(
                place, needs, _rate, family, body, assembly, integrator
            )
    for body, parts in rates.items():
        total = sum(parts.values())
        if total > 0 and total**-0.5 < best.dt:
            best = StableStep(total**-0.5, body, REASONS[max(parts, key=lambda family: parts[family])])
    return best


def _rate(family: str, body: str, assembly: Assembly, integrator: Integrator) -> float:
    """The square of one over a body's stable step with one family of forces alone [1/s^2]."""
    stiffness, damping = _rates(family, body, assembly)
    dt = _step(math.sqrt(max(stiffness, 0.0)), damping, integrator)
    return dt**-2 if dt > 0 else math.inf


def _rates(family: str, body: str, assembly: Assembly) -> tuple[float, float]:
    """Largest squared frequency [1/s^2] and damping rate [1/s] of a body's elements of one family."""
    fact = assembly.pattern.fact
    most = fact(("most", family, body), (family,), _most, family, body, assembly)
    part = "rigid" if family == "touch" else "node"
    lightness = fact(("lightness", family, body), (part,), _lightness, family, body, assembly)
    if family in ("contact", "touch"):
        ke, kd, kf = most
        return ke * lightness, max(kd, kf) * lightness
    if family in ("tet", "triangle"):
        damping = most[2] * lightness
        if family == "triangle" and most[3] > 0.0:
            damping = max(damping, 2.0 * most[3] * _speed(body, assembly) * lightness)
        return max(most[:2]) * lightness, damping
    stiffness, damping = most
    return stiffness * lightness, damping * lightness


def _most(family: str, body: str, assembly: Assembly) -> list[float]:
    """The largest values that a family's forms take on in a body's elements, of solids with their shapes' share."""
    columns = slice(*assembly.topology.ranges[family, body])
    values = FORMS[family] @ assembly.numbers(family)[:, :, columns]
    if family in ("tet", "triangle"):
        values[:, :3] *= assembly.topology.arrays[f"{family}.stretch"][columns]
    most: list[float] = values.max((0, 2)).tolist()
    return most


def _lightness(family: str, body: str, assembly: Assembly) -> float:
    """How much a body yields to a unit of what its family's forms measure, at most."""
    topology = assembly.topology
    if family == "touch":
        return _rigid_lightness(assembly, topology.ranges["rigid", body][0])
    nodes = slice(*topology.spans[body])
    inverse = assembly.numbers("node")[:, 0, nodes]
    if family == "contact":
        return float(inverse.max())
    if family == "spring":
        return 2.0 * float((inverse * topology.arrays["node.degree"][nodes]).max())
    lightness = float((inverse * topology.arrays["node.measure"][nodes]).max())  # 1 / density
    return lightness * _fastest_bending(topology) if family == "bend" else lightness


def _speed(body: str, assembly: Assembly) -> float:
    """Largest start velocity of a body's nodes [m/s]; the air's force is quadratic in it."""
    nodes = slice(*assembly.topology.spans[body])
    return float(assembly.states["node.v"].detach()[:, nodes].norm(dim=-1).max())


def _rigid_lightness(assembly: Assembly, index: int) -> float:
    """How much a body's contact points together yield to a unit of stiffness [1/kg].

    As many points count as lie in its largest flat, each moving the body and turning it with its longest lever.
    """
    table, arrays = assembly.numbers("rigid")[:, :, index], assembly.topology.arrays
    turning = table[:, 7:10].sum(1) * float(arrays["rigid.reach"][index]) ** 2
    return float((table[:, 0] + turning).max()) * float(arrays["rigid.flat"][index])


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
    topology, arrays = assembly.topology, assembly.topology.arrays
    index, columns = topology.ranges["rigid", body][0], slice(*topology.ranges["touch", body])
    table = assembly.numbers("rigid")[:, :, index]
    weight = np.sqrt((table[:, 1:4] ** 2).sum(1)) / table[:, 0]
    stiffness = assembly.numbers("touch")[:, 0, columns].max(1) * float(arrays["rigid.flat"][index])
    return float((weight / stiffness).max()), 2.0 * float(arrays["rigid.reach"][index])


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
