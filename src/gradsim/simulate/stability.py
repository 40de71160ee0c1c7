"""The largest stable time step of a scene, estimated from stiffness, mass and element size.

The highest frequency of a mesh is at most that of its stiffest element alone, with its share of the nodes' masses
(Irons and Treharne). Each family of elements gives a frequency w and a damping rate d that way, the integrator turns
them into a step, and a body with several families gets the step of their squared rates added. Contact counts as if all
nodes touched.
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
    "contact": "contact stiffness",
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
    best = StableStep(math.inf, next(iter(assembly.topology.spans)), "nothing")
    rates: dict[str, dict[str, float]] = {}
    with torch.no_grad():
        inverse = assembly.tables["node"][:, 0].detach()
        for (family, body), (first, end) in assembly.topology.ranges.items():
            if family in REASONS:
                values = assembly.tables[family].detach()[:, :, first:end]
                stiffness, damping = _rates(family, values, inverse, assembly.topology, first, end)
                if family == "triangle":
                    damping = max(damping, _air_rate(values, assembly, *assembly.topology.spans[body]))
                dt = _step(math.sqrt(max(stiffness, 0.0)), damping, integrator)
                rates.setdefault(body, {})[family] = dt**-2 if dt > 0 else math.inf
    for body, parts in rates.items():
        total = sum(parts.values())
        if total > 0 and total**-0.5 < best.dt:
            best = StableStep(total**-0.5, body, REASONS[max(parts, key=lambda family: parts[family])])
    return best


def _air_rate(values: torch.Tensor, assembly: Assembly, first: int, end: int) -> float:
    """Rate at which the air slows a sheet's nodes at their start velocity [1/s]; the force is quadratic in it."""
    measure = torch.as_tensor(assembly.topology.arrays["node.measure"][first:end], dtype=values.dtype)
    light = (assembly.tables["node"][:, 0, first:end].detach() * measure.to(values.device)).max()
    speed = assembly.v.detach()[:, first:end].norm(dim=-1).max()
    row = {name: values[:, k] for k, name in enumerate(ROWS["triangle"])}
    return float(2.0 * (row["drag"] + row["lift"]).max() * speed * light)


def _rates(
    family: str, values: torch.Tensor, inverse: torch.Tensor, topology: Topology, first: int, end: int
) -> tuple[float, float]:
    """Largest squared frequency [1/s^2] and damping rate [1/s] of a family's elements first..end."""
    row = {name: values[:, k] for k, name in enumerate(ROWS[family])}
    shape = torch.as_tensor(element_shapes(topology)[family][first:end], dtype=values.dtype, device=values.device)
    nodes = topology.arrays[f"{family}.nodes"][first:end]
    if family == "contact":
        w = inverse[:, nodes[:, 0]]
        return float((row["ke"] * w).max()), float((torch.maximum(row["kd"], row["kf"]) * w).max())
    index = torch.as_tensor(nodes.astype(np.int64), device=values.device)
    w = (inverse[:, index] * shape).sum(-1) if family == "spring" else (inverse[:, index] * shape).amax(-1)
    if family == "tet":
        shear, bulk = 0.75 * row["mu"], row["lam"] - 0.625 * row["mu"]
        modulus = 2 * shear + 3 * bulk.clamp(min=0)
    elif family == "triangle":
        shear, bulk = row["mu"] * (2 / 3), row["lam"] - row["mu"] * (4 / 9)
        modulus = 2 * shear + 2 * bulk.clamp(min=0)
    else:
        modulus = row["stiffness"]
    return float((modulus * w).max()), float((row["damping"] * w).max())


@functools.lru_cache(maxsize=32)
def element_shapes(topology: Topology) -> dict[str, np.ndarray]:
    """What turns a modulus and a node's inverse mass into a squared frequency, [elements, nodes] by family."""
    arrays, shapes = topology.arrays, {}
    for family, measure in (("tet", "volume"), ("triangle", "area")):
        if family in topology.elements:
            gradients = arrays[f"{family}.rest"]  # rows: gradients of the shape functions but the first's
            gradients = np.concatenate([-gradients.sum(1, keepdims=True), gradients], axis=1)
            stretch = np.linalg.eigvalsh(np.swapaxes(gradients, 1, 2) @ gradients)[:, -1]
            nodes = arrays[f"{family}.nodes"]
            share = arrays[f"{family}.{measure}"][:, None] / nodes.shape[1] / arrays["node.measure"][nodes]
            shapes[family] = (arrays[f"{family}.{measure}"] * stretch)[:, None] / share
    if "spring" in topology.elements:
        nodes = arrays["spring.nodes"]
        shapes["spring"] = np.bincount(nodes.ravel())[nodes].astype(float)
    if "bend" in topology.elements:
        shapes["bend"] = arrays["node.measure"][arrays["bend.nodes"]] * _fastest_bending(topology)
    if "contact" in topology.elements:
        shapes["contact"] = np.ones((topology.elements["contact"], 1))
    return shapes


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
