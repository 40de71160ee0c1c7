"""The largest stable time step of a scene, estimated from stiffness, mass and element size.

The highest frequency of a mesh is at most that of its stiffest element alone, with its share of the nodes' masses
(Irons and Treharne); shares go by volume or area, and the lightest node counts for the whole body. Each family of
elements gives a frequency w and a damping rate d that way, the integrator turns them into a step, and a body with
several families gets the step of their squared rates added. Contact counts as if all nodes touched.
"""

from __future__ import annotations

import cmath
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
            stiffness, damping = _rates(family, body, assembly)
            dt = _step(math.sqrt(max(stiffness, 0.0)), damping, integrator)
            rates.setdefault(body, {})[family] = dt**-2 if dt > 0 else math.inf
    for body, parts in rates.items():
        total = sum(parts.values())
        if total > 0 and total**-0.5 < best.dt:
            best = StableStep(total**-0.5, body, REASONS[max(parts, key=lambda family: parts[family])])
    return best


def _air_rate(row: dict[str, np.ndarray], assembly: Assembly, nodes: slice, lightness: float) -> float:
    """Rate at which the air slows a sheet's nodes at their start velocity [1/s]; the force is quadratic in it."""
    speed = float(assembly.states["node.v"].detach()[:, nodes].norm(dim=-1).max())
    return 2.0 * float((row["drag"] + row["lift"]).max()) * speed * lightness


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
            index, columns = assembly.topology.ranges["rigid", body][0], slice(*assembly.topology.ranges[family, body])
            table, arrays = assembly.numbers("rigid")[:, :, index], assembly.topology.arrays
            weight = np.sqrt((table[:, 1:4] ** 2).sum(1)) / table[:, 0]
            stiffness = assembly.numbers(family)[:, 0, columns].max(1) * float(arrays["rigid.flat"][index])
            depth, size = float((weight / stiffness).max()), 2.0 * float(arrays["rigid.reach"][index])
            if depth > 0.1 * size:
                found.append((body, depth, size))
    return found


def _rates(family: str, body: str, assembly: Assembly) -> tuple[float, float]:
    """Largest squared frequency [1/s^2] and damping rate [1/s] of a body's elements of one family."""
    topology = assembly.topology
    columns = slice(*topology.ranges[family, body])
    table = assembly.numbers(family)[:, :, columns]
    most = dict(zip(ROWS[family], table.max((0, 2)).tolist(), strict=True))
    if family == "touch":
        lightness = _rigid_lightness(assembly, topology.ranges["rigid", body][0])
        return most["ke"] * lightness, max(most["kd"], most["kf"]) * lightness
    nodes = slice(*topology.spans[body])
    inverse = assembly.numbers("node")[:, 0, nodes]
    if family == "contact":
        lightest = float(inverse.max())
        return most["ke"] * lightest, max(most["kd"], most["kf"]) * lightest
    if family == "spring":
        lightness = float((inverse * topology.arrays["node.degree"][nodes]).max())
        return 2.0 * most["stiffness"] * lightness, 2.0 * most["damping"] * lightness
    lightness = float((inverse * topology.arrays["node.measure"][nodes]).max())  # 1 / density
    if family == "bend":
        shape = _fastest_bending(topology) * lightness
        return most["stiffness"] * shape, most["damping"] * shape
    row = {name: table[:, k] for k, name in enumerate(ROWS[family])}
    if family == "tet":
        modulus = 1.5 * row["mu"] + 3.0 * (row["lam"] - 0.625 * row["mu"]).clip(0.0)
    else:
        modulus = (4 / 3) * row["mu"] + 2.0 * (row["lam"] - (4 / 9) * row["mu"]).clip(0.0)
    stretch = topology.arrays[f"{family}.stretch"][columns]
    damping = float((row["damping"] * stretch).max()) * lightness
    if family == "triangle" and most["drag"] + most["lift"] > 0.0:
        damping = max(damping, _air_rate(row, assembly, nodes, lightness))
    return float((modulus * stretch).max()) * lightness, damping


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
    low, high = 0.0, 2.0 * euler
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _midpoint_growth(frequency, damping, middle) <= GROWTH else (low, middle)
    return low


def _midpoint_growth(frequency: float, damping: float, dt: float) -> float:
    """Growth a step of the explicit midpoint rule on a damped oscillator."""
    root = cmath.sqrt(damping**2 / 4 - frequency**2)
    steps = ((-damping / 2 + root) * dt, (-damping / 2 - root) * dt)
    return max(abs(1 + z + z * z / 2) for z in steps) - 1.0
