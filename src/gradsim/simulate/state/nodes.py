"""Nodes: positions and velocities of soft bodies, cloth and springs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradsim.scene.bodies import Soft, Springs, node_count
from gradsim.scene.body import NodeBody
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import PerElement, is_per_element
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import BodyMotion
from gradsim.simulate.forces.family import Elements
from gradsim.simulate.state.kernels.nodes import ROWS, node_kernels
from gradsim.simulate.state.part import StatePart

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.compiled_scene import CompiledScene
    from gradsim.simulate.compile.topology import Placement, Topology


def node_key(body: Any) -> Hashable:
    """Returns a key that is equal for bodies with equal nodes and elements."""
    if isinstance(body, Springs):
        shape = hashlib.sha1(body.edges.tobytes()).hexdigest() + f":{node_count(body)}"
    else:
        shape = body.mesh.key
    return shape, np.asarray(body.pinned).tobytes(), getattr(body, "motion", None) is None


def node_elements(body: Any, place: Placement) -> Elements:
    count = node_count(body)
    free, degree = np.ones(count), np.zeros(count)
    free[np.asarray(body.pinned)] = 0.0
    if isinstance(body, Springs):
        degree = np.bincount(body.edges.ravel(), minlength=count).astype(float)
        measure, rest = np.zeros(count), np.zeros((count, 3))
    else:
        measure, rest = node_measures(body.mesh), body.mesh.vertices
    moving = free if getattr(body, "motion", None) is None else np.ones(count)  # nodes that may have a velocity
    return Elements(count, {"measure": measure, "rest": rest, "free": free, "moving": moving, "degree": degree})


def node_measures(mesh: TetMesh | TriMesh) -> np.ndarray:
    """Returns the volume [m^3] or area [m^2] of each node: an equal share of each of its elements, [N]."""
    nodes, measures = (mesh.tets, mesh.volumes) if isinstance(mesh, TetMesh) else (mesh.faces, mesh.areas)
    corners = nodes.shape[1]
    return np.bincount(nodes.ravel(), np.repeat(measures / corners, corners), len(mesh.vertices))


def node_columns(body: Any, scene: Scene, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the inverse masses of a body's nodes and gravity, [B, rows, N]."""
    first, end = topology.ranges["node", body.name]
    density, total = (None, None) if isinstance(body, Springs) else (body.density, body.total_mass)
    free, measure = (
        topology.tensor(f"node.{name}", batcher.dtype, batcher.device)[first:end] for name in ("free", "measure")
    )

    def gravity() -> torch.Tensor:
        rows = batcher(scene.gravity, end - first, (3,)).transpose(1, 2)
        return torch.cat([torch.zeros_like(rows[:, :1]), rows], 1)

    def inverse() -> torch.Tensor:
        row = free if body.mass is not None else free / measure
        if total is not None:
            row = row * measure.sum()
        return torch.nn.functional.pad(row[None], (0, 0, 0, 3))

    if is_per_element(density) or is_per_element(body.mass):
        row = free / _node_masses(body, topology, batcher)
        return torch.cat([row[:, None], batcher(scene.gravity, end - first, (3,)).transpose(1, 2)], 1)
    fixed = batcher.cached(("gravity", body.name), gravity)
    shares = batcher.cached(("inverse mass", body.name), inverse)
    given = next(value for value in (density, total, body.mass) if value is not None)
    return torch.addcdiv(fixed, shares, batcher.broadcastable(given, 1))


def _node_masses(body: Any, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the masses of a body's nodes [kg], [B, N], if nodes or elements have individual masses or densities."""
    first, end = topology.ranges["node", body.name]
    if isinstance(body, Springs) or body.density is None:
        return batcher(body.mass, end - first)
    nodes = body.mesh.tets if isinstance(body, Soft) else body.mesh.faces
    measures = body.mesh.volumes if isinstance(body, Soft) else body.mesh.areas
    own = torch.tensor(measures, dtype=batcher.dtype, device=batcher.device)
    mass = batcher(body.density, len(nodes)) * own / nodes.shape[1]
    corners = torch.as_tensor(nodes.astype(np.int64).ravel(), device=batcher.device)
    empty = torch.zeros(batcher.world_count, end - first, dtype=batcher.dtype, device=batcher.device)
    return empty.index_add(1, corners, mass.repeat_interleave(nodes.shape[1], 1))


def initial_positions(body: Any, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the initial positions of a body's nodes [m], [B, N, 3]."""
    points, rotation = (body.points, None) if isinstance(body, Springs) else (body.vertices, body.rotation)
    first, end = topology.ranges["node", body.name]

    def rest() -> torch.Tensor:
        if points is None:
            own = topology.tensor("node.rest", batcher.dtype, batcher.device)[first:end]
            x = own.expand(batcher.world_count, -1, -1)
        else:
            x = batcher(PerElement(points), end - first, (3,))
        return x if rotation is None else rotate(batcher.unit_quaternion(("rotation", body.name), rotation), x)

    return batcher.cached(("rest", body.name), rest) + batcher(body.position, 1, (3,))


def initial_velocities(body: Any, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the initial velocities of a body's nodes [m/s], [B, N, 3]."""
    first, end = topology.ranges["node", body.name]
    return batcher(body.velocity, end - first, (3,))


def node_motion(body: Any, compiled: CompiledScene, states: dict[str, torch.Tensor]) -> Callable[[], BodyMotion]:
    """Returns a function for the motion of a body."""
    first, end = compiled.topology.ranges["node", body.name]
    return lambda: BodyMotion(*(states[name][..., first:end, :] for name in NODES.state_names))


NODES = StatePart(
    name="node",
    rows=ROWS,
    owners=(NodeBody,),
    elements=node_elements,
    columns=node_columns,
    key=node_key,
    states={"x": 3, "v": 3},
    forces={"f": 3},
    initial={"x": initial_positions, "v": initial_velocities},
    motion=node_motion,
    kernels=node_kernels,
    stage_sums=(3, 3),
    fixed={"v": "moving"},
    start_fields={"x": "vertices", "v": "velocities"},
)
