"""From the nouns of a scene to the flat, batched tensors of a rollout, differentiably."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.scene.bodies import Body, Soft, Springs
from gradsim.scene.errors import MixedDevices, MixedDtypes, WrongShape
from gradsim.scene.quantity import Each, Signal, batch_shape, is_each, plain
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State
from gradsim.simulate.kernels import bending, contact, external, integrate, springs, tetrahedra, triangles
from gradsim.simulate.topology import Topology, topology_of

ROWS: dict[str, tuple[str, ...]] = {
    "node": integrate.PARAMETERS,
    "external": external.PARAMETERS,
    "spring": springs.PARAMETERS,
    "triangle": triangles.PARAMETERS,
    "bend": bending.PARAMETERS,
    "hinge": bending.HINGE,
    "tet": tetrahedra.PARAMETERS,
    "contact": contact.PARAMETERS,
    "plane": contact.PLANE,
}

CONTACT_DEPTH = 0.005  # of the body's size: where delta is not given


@dataclass(frozen=True)
class Assembly:
    """A scene as tensors. Worlds of the batch are flattened into the first dimension, B."""

    topology: Topology
    batch: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    x: torch.Tensor  # [m], [B, N, 3]
    v: torch.Tensor  # [m/s], [B, N, 3]
    tables: dict[str, torch.Tensor]  # family -> [B, rows, elements]
    signals: tuple[torch.Tensor, ...]  # one a driver, [B, samples, elements]

    @property
    def world_count(self) -> int:
        return int(np.prod(self.batch, dtype=int))


def assemble(scene: Scene, *, dtype: torch.dtype | None = None, start: State | None = None) -> Assembly:
    """Flatten a scene; see `Assembly`."""
    batch, dtype, device = _common(scene, dtype, start)
    topology = topology_of(scene)
    flatten = _Flattener(batch, dtype, device)
    if start is None:
        x = flatten.join([_positions(body, topology, flatten) for body in scene.bodies], 1)
        v = flatten.join([flatten(body.velocity, _nodes(topology, body), (3,)) for body in scene.bodies], 1)
    else:
        if start.vertices.shape[-2] != topology.node_count:
            shape = tuple(start.vertices.shape)
            raise WrongShape("start.vertices", f"shape {shape}", f"the scene has {topology.node_count} nodes")
        x = flatten(Each(start.vertices), topology.node_count, (3,))
        v = flatten(Each(start.velocities), topology.node_count, (3,))
    if topology.pinned.any():
        v = v * topology.tensor("node.free", dtype, device)[:, None]
    tables = {"node": _node_table(scene, topology, flatten)}
    for family in topology.elements:
        tables[family] = _family_table(family, scene, topology, flatten)
    return Assembly(topology, batch, dtype, device, x, v, tables, _signals(scene, topology, flatten))


def _common(
    scene: Scene, dtype: torch.dtype | None, start: State | None
) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    """Batch shape, dtype and device all tensors of a scene agree on."""
    given = [(path, value, spec.shape) for path, value, spec in scene.quantities()]
    if start is not None:
        given += [("start.vertices", Each(start.vertices), (3,)), ("start.velocities", Each(start.velocities), (3,))]
    batch: tuple[int, ...] = ()
    lead: tuple[str, torch.Tensor] | None = None
    for path, value, shape in given:
        array = plain(value)
        own = batch_shape(value, shape)
        if own:
            try:
                batch = tuple(torch.broadcast_shapes(batch, own))
            except RuntimeError:
                raise WrongShape(
                    path, f"batch {own}", f"does not broadcast with the batch {batch} of the quantities before it"
                ) from None
        if not isinstance(array, torch.Tensor):
            continue
        if lead is None:
            lead = (path, array)
        if array.dtype != lead[1].dtype:
            raise MixedDtypes(path, array.dtype, f"{lead[0]} is {lead[1].dtype}; all tensors must share one dtype")
        if array.device != lead[1].device:
            raise MixedDevices(path, array.device, f"{lead[0]} is on {lead[1].device}; all tensors must share a device")
    if 0 in batch:
        raise WrongShape("batch", batch, "a batch needs at least one world")
    if lead is not None and dtype is not None and lead[1].dtype != dtype:
        raise MixedDtypes(lead[0], lead[1].dtype, f"dtype={dtype} was asked for; convert the tensor or leave dtype out")
    dtype = dtype or (lead[1].dtype if lead is not None else torch.float64)
    if dtype not in (torch.float32, torch.float64):
        raise MixedDtypes("dtype", dtype, "must be torch.float32 or torch.float64")
    return batch, dtype, lead[1].device if lead is not None else torch.device("cpu")


class _Flattener:
    """Turns quantities into tensors [B, count, *shape], signals into [B, samples, count, *shape]."""

    def __init__(self, batch: tuple[int, ...], dtype: torch.dtype, device: torch.device):
        self.batch, self.dtype, self.device = batch, dtype, device
        self.worlds = int(np.prod(batch, dtype=int))

    def __call__(self, value: Any, count: int, shape: tuple[int, ...] = ()) -> torch.Tensor:
        array = plain(value)
        if isinstance(array, torch.Tensor):
            tensor = array
        else:
            tensor = torch.tensor(array, dtype=self.dtype, device=self.device)
        if not is_each(value):
            tensor = tensor.unsqueeze(tensor.ndim - len(shape))
        time = tensor.shape[tensor.ndim - len(shape) - 2 : tensor.ndim - len(shape) - 1]
        inner = (*(time if isinstance(value, Signal) else ()), count, *shape)
        return tensor.expand(*self.batch, *inner).reshape(self.worlds, *inner)

    def join(self, pieces: list[torch.Tensor], dim: int) -> torch.Tensor:
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def _nodes(topology: Topology, body: Body) -> int:
    first, end = topology.spans[body.name]
    return end - first


def _positions(body: Body, topology: Topology, flatten: _Flattener) -> torch.Tensor:
    """Start positions of a body's nodes, [B, N, 3]."""
    points: Any
    if isinstance(body, Springs):
        points, rotation = body.points, None
    else:
        points, rotation = body.vertices, body.rotation
        if points is None:
            first, end = topology.spans[body.name]
            points = topology.tensor("node.rest", flatten.dtype, flatten.device)[first:end]
    x = flatten(Each(points), plain(points).shape[-2], (3,))
    if rotation is not None:
        q = flatten(rotation, 1, (4,))
        q = q / q.norm(dim=-1, keepdim=True)
        axis = q[..., :3].expand_as(x)
        turn = torch.linalg.cross(axis, x)
        x = x + 2.0 * (q[..., 3:] * turn + torch.linalg.cross(axis, turn))
    return x + flatten(body.position, 1, (3,))


def _node_table(scene: Scene, topology: Topology, flatten: _Flattener) -> torch.Tensor:
    masses = flatten.join([_masses(body, topology, flatten) for body in scene.bodies], 1)
    inverse = 1.0 / masses
    if topology.pinned.any():
        inverse = inverse * topology.tensor("node.free", flatten.dtype, flatten.device)
    gravity = flatten(scene.gravity, topology.node_count, (3,))
    return torch.cat([inverse[:, None], gravity.transpose(1, 2)], 1)


def _masses(body: Body, topology: Topology, flatten: _Flattener) -> torch.Tensor:
    """Masses of a body's nodes [kg], [B, N]."""
    first, end = topology.spans[body.name]
    if isinstance(body, Springs) or body.density is None:
        return flatten(body.mass, end - first)
    if not is_each(body.density):
        measure = topology.tensor("node.measure", flatten.dtype, flatten.device)[first:end]
        return flatten(body.density, 1) * measure
    solid = isinstance(body, Soft)
    nodes = body.mesh.tets if isinstance(body, Soft) else body.mesh.faces
    measures = topology.tensor("tet.volume" if solid else "triangle.area", flatten.dtype, flatten.device)
    start, stop = topology.ranges["tet" if solid else "triangle", body.name]
    mass = flatten(body.density, len(nodes)) * measures[start:stop] / nodes.shape[1]
    corners = torch.as_tensor(nodes.astype(np.int64).ravel(), device=flatten.device)
    empty = torch.zeros(flatten.worlds, end - first, dtype=flatten.dtype, device=flatten.device)
    return empty.index_add(1, corners, mass.repeat_interleave(nodes.shape[1], 1))


def _family_table(family: str, scene: Scene, topology: Topology, flatten: _Flattener) -> torch.Tensor:
    """Parameters of all elements of a family, [B, rows, elements]; rows that a signal drives hold zero."""
    if family == "plane":
        assert scene.ground is not None
        normal = flatten(scene.ground.normal, 1, (3,))
        normal = normal / normal.norm(dim=-1, keepdim=True)
        return torch.cat([normal.transpose(1, 2), flatten(scene.ground.offset, 1)[:, None]], 1)
    pieces = []
    for body in scene.bodies:
        if (family, body.name) in topology.ranges:
            first, end = topology.ranges[family, body.name]
            rows = [_row(value, end - first, flatten) for value in _row_values(family, body, scene)]
            pieces.append(torch.stack(rows, 1))
    return flatten.join(pieces, 2)


def _row(value: Any, count: int, flatten: _Flattener) -> torch.Tensor:
    return flatten(np.zeros(()) if isinstance(value, Signal) else value, count)


def _row_values(family: str, body: Any, scene: Scene) -> tuple[Any, ...]:
    """The quantities of a body that fill a family's rows, in the order of `ROWS`."""
    if family == "spring":
        rest = body.rest_length if body.rest_length is not None else _spring_lengths(body)
        return body.stiffness, body.damping, rest
    if family == "triangle":
        sheet = body.material
        return sheet.mu, sheet.lam, sheet.damping, body.drag, body.lift, body.actuation
    if family == "bend":
        return body.bending.stiffness, body.bending.damping
    if family == "hinge":
        return (body.folding,)
    if family == "tet":
        return body.material.mu, body.material.lam, body.material.damping, body.actuation
    if family == "external":
        return tuple(_component(body.force, axis) for axis in range(3))
    law = body.contact or scene.ground
    assert law is not None, "contact pairs exist only with a ground"
    delta = law.delta if law.delta is not None else np.asarray(CONTACT_DEPTH * body_size(body))
    return law.ke, law.kd, law.kf, law.mu, delta


def _component(value: Any, axis: int) -> Any:
    if isinstance(value, (Each, Signal)):
        return type(value)(_component(value.values, axis))
    return value[..., axis]


def _spring_lengths(body: Springs) -> Each:
    points: Any = body.points
    if isinstance(points, np.ndarray):
        return Each(np.linalg.norm(points[..., body.edges[:, 1], :] - points[..., body.edges[:, 0], :], axis=-1))
    ends = torch.as_tensor(body.edges.astype(np.int64), device=points.device)
    return Each((points[..., ends[:, 1], :] - points[..., ends[:, 0], :]).norm(dim=-1))


def body_size(body: Body) -> float:
    """Largest extent of a body's rest shape [m]."""
    points: Any = plain(body.points) if isinstance(body, Springs) else body.mesh.vertices
    if isinstance(points, torch.Tensor):
        points = points.detach().cpu().numpy()
    points = points.reshape(-1, *points.shape[-2:])[0]
    return float(np.ptp(points, axis=0).max())


def _signals(scene: Scene, topology: Topology, flatten: _Flattener) -> tuple[torch.Tensor, ...]:
    signals = []
    for driver in topology.drivers:
        row = ROWS[driver.family].index(driver.row)
        value = _row_values(driver.family, scene[driver.body], scene)[row]
        signals.append(flatten(value, driver.count))
    return tuple(signals)
