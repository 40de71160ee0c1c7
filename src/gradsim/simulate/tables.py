"""The tables of a scene: parameters of all elements of a family, over all worlds, differentiably."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from gradsim.scene.bodies import NodeBody, Soft, Springs
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import PerElement, Signal, is_per_element, unwrap
from gradsim.scene.rigid import Push, Rigid, unit_solid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere
from gradsim.simulate.flatten import Flattener
from gradsim.simulate.kernels import bending, external, integrate, law, pendulum, rigid, springs, tetrahedra, triangles
from gradsim.simulate.kernels import shapes as shape_kernels
from gradsim.simulate.starts import link_values
from gradsim.simulate.topology import Driver, Topology

ROWS: dict[str, tuple[str, ...]] = {
    "node": integrate.PARAMETERS,
    "rigid": rigid.PARAMETERS,
    "pendulum": pendulum.PARAMETERS,
    "external": external.PARAMETERS,
    "spring": springs.PARAMETERS,
    "triangle": triangles.PARAMETERS,
    "bend": bending.PARAMETERS,
    "hinge": bending.HINGE,
    "tet": tetrahedra.PARAMETERS,
    "contact": law.PARAMETERS,
    "touch": law.PARAMETERS,
    "push": rigid.PUSH,
    "shape": shape_kernels.PARAMETERS,
}

CONTACT_DEPTH = 0.005  # of the body's size: where delta is not given
FOREVER = 1e30  # [s]


def family_table(family: str, scene: Scene, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """Parameters of all elements of a family, [B, rows, elements]; rows that a signal drives hold zero."""
    if family == "shape":
        return flatten.join([_shape_column(shape, flatten) for shape in scene.obstacles.values()], 2)
    build = {"node": _node_table, "rigid": _rigid_table, "pendulum": _pendulum_table, "push": _push_table}
    pieces = []
    for body in scene.bodies:
        if (family, body.name) in topology.ranges:
            first, end = topology.ranges[family, body.name]
            if family in build:
                pieces.append(build[family](body, scene, topology, flatten))
            elif family in ("contact", "touch"):
                pieces.append(_law_table(body, end - first, scene, flatten))
            else:
                pieces.append(_rows((family, body.name), row_values(family, body), end - first, flatten))
    return flatten.join(pieces, 2)


def _rows(place: Hashable, values: Iterable[Any], count: int, flatten: Flattener) -> torch.Tensor:
    """One row a quantity, [B, rows, count]; `place` names the scene's elements that these are the quantities of."""
    given = [None if isinstance(value, Signal) else value for value in values]
    tensors = {row: value for row, value in enumerate(given) if isinstance(unwrap(value), torch.Tensor)}

    def rest() -> torch.Tensor:
        """The rows that are plain numbers, with zeros for the others."""
        numbers = [np.zeros(()) if value is None or row in tensors else value for row, value in enumerate(given)]
        return flatten.remember(
            ("rows", count), numbers, lambda: torch.stack([flatten(value, count) for value in numbers], 1)
        )

    table = flatten.once(place, rest)
    for row, value in tensors.items():
        table = torch.where(_mask(row, len(given), flatten.device), flatten.across(value, count), table)
    return table


@functools.cache
def _mask(row: int, count: int, device: torch.device) -> torch.Tensor:
    """One of `count` rows, [count, 1]."""
    with torch.inference_mode(False):  # a gradient may be asked for later
        return torch.arange(count, device=device)[:, None] == row


def row_values(family: str, body: Any) -> tuple[Any, ...]:
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
    return tuple(_component(body.force, axis) for axis in range(3))


def _node_table(body: Any, scene: Scene, topology: Topology, flatten: Flattener) -> torch.Tensor:
    first, end = topology.spans[body.name]
    density = None if isinstance(body, Springs) else body.density
    free, measure = (
        topology.tensor(f"node.{name}", flatten.dtype, flatten.device)[first:end] for name in ("free", "measure")
    )

    def gravity() -> torch.Tensor:
        rows = flatten(scene.gravity, end - first, (3,)).transpose(1, 2)
        return torch.cat([torch.zeros_like(rows[:, :1]), rows], 1)

    def inverse() -> torch.Tensor:
        row = free if density is None else free / measure
        return torch.nn.functional.pad(row[None], (0, 0, 0, 3))

    def build() -> torch.Tensor:
        if is_per_element(density) or is_per_element(body.mass):
            row = free / _masses(body, topology, flatten)
            return torch.cat([row[:, None], flatten(scene.gravity, end - first, (3,)).transpose(1, 2)], 1)
        fixed = flatten.once(("gravity", body.name), gravity)
        shares = flatten.once(("free", body.name), inverse)
        return torch.addcdiv(fixed, shares, flatten.across(body.mass if density is None else density, 1))

    return flatten.remember(("node", topology, body.name), (density, body.mass, scene.gravity), build)


def _masses(body: NodeBody, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """Masses of a body's nodes, where each or each element has its own [kg], [B, N]."""
    first, end = topology.spans[body.name]
    if isinstance(body, Springs) or body.density is None:
        return flatten(body.mass, end - first)
    solid = isinstance(body, Soft)
    nodes = body.mesh.tets if isinstance(body, Soft) else body.mesh.faces
    measures = topology.tensor("tet.volume" if solid else "triangle.area", flatten.dtype, flatten.device)
    start, stop = topology.ranges["tet" if solid else "triangle", body.name]
    mass = flatten(body.density, len(nodes)) * measures[start:stop] / nodes.shape[1]
    corners = torch.as_tensor(nodes.astype(np.int64).ravel(), device=flatten.device)
    empty = torch.zeros(flatten.worlds, end - first, dtype=flatten.dtype, device=flatten.device)
    return empty.index_add(1, corners, mass.repeat_interleave(nodes.shape[1], 1))


def _rigid_table(body: Any, scene: Scene, topology: Topology, flatten: Flattener) -> torch.Tensor:
    def build() -> torch.Tensor:
        if body.inertia is None and not is_per_element(body.mass):
            return _solid_column(body, scene, flatten)
        mass, center, inertia = flatten.mass_properties(body)
        return _rigid_column(mass.reciprocal()[..., None], scene.gravity, center, torch.linalg.inv(inertia), flatten)

    given = (body.density, body.mass, body.inertia, body.center, scene.gravity)
    return flatten.remember(("rigid", body.mesh.key), given, build)


def _solid_column(body: Rigid, scene: Scene, flatten: Flattener) -> torch.Tensor:
    """Of a body that is filled evenly: what all of its shape share, over its density or mass."""

    def place() -> torch.Tensor:
        _, center, _ = unit_solid(body.mesh, flatten.dtype, flatten.device)
        own = center.cpu().numpy() if body.center is None else body.center
        return _rigid_column(np.zeros(1), scene.gravity, own, np.zeros((3, 3)), flatten)

    def share() -> torch.Tensor:
        volume, _, inertia = (a.cpu().numpy() for a in unit_solid(body.mesh, flatten.dtype, flatten.device))
        inverse = np.linalg.inv(inertia)
        own = (1.0 / volume, inverse) if body.mass is None else (np.ones(()), volume * inverse)
        return _rigid_column(own[0][None], np.zeros(3), np.zeros(3), own[1], flatten)

    fixed, shares = flatten.once(("place", body.name), place), flatten.once(("share", body.name), share)
    return torch.addcdiv(fixed, shares, flatten.across(body.density if body.mass is None else body.mass, 1))


def _rigid_column(lightness: Any, gravity: Any, center: Any, inverse: Any, flatten: Flattener) -> torch.Tensor:
    """One over a mass [..., 1], gravity, the centre and the inverse inertia, [B, rows, 1]."""
    six = inverse.reshape(*inverse.shape[:-2], 9)[..., [0, 4, 8, 5, 6, 1]]  # xx, yy, zz, yz, zx, xy
    values = ((lightness, 1), (gravity, 3), (center, 3), (six, 6))
    return torch.cat([flatten(value, 1, (width,)) for value, width in values], -1).transpose(1, 2)


def _pendulum_table(body: Any, scene: Scene, topology: Topology, flatten: Flattener) -> torch.Tensor:
    pairs = [link_values(body, name, flatten) for name in ("length", "mass", "damping")]
    return torch.cat([*pairs, flatten(scene.gravity, 1, (3,))[..., :2]], -1).transpose(1, 2)


def _push_table(body: Any, scene: Scene, topology: Topology, flatten: Flattener) -> torch.Tensor:
    center = flatten.mass_properties(body).center
    return torch.cat([_push_column(push, center, flatten) for push in body.pushes], 2)


def _push_column(push: Push, center: torch.Tensor, flatten: Flattener) -> torch.Tensor:
    """A push as a force over an interval, [B, rows, 1]; an impulse in no time is marked by an end before its start."""
    point = flatten(center if push.point is None else push.point, 1, (3,))
    if push.force is not None:
        force, end = flatten(push.force, 1, (3,)), FOREVER if push.end is None else push.end
    else:
        force, end = flatten(push.impulse, 1, (3,)), push.start if push.end is None else push.end
        if end > push.start:
            force = force / (end - push.start)
        else:
            end = push.start - 1.0
    times = flatten(np.array([push.start, end]) - flatten.begin, 1, (2,))
    return torch.cat([force, point, times], -1).transpose(1, 2)


def _law_table(body: Any, pair_count: int, scene: Scene, flatten: Flattener) -> torch.Tensor:
    """Contact parameters of a body's pairs with the shapes, [B, rows, pairs]; shapes vary fastest."""
    laws = [contact_law(body, name, shape) for name, shape in scene.obstacles.items()]
    depth: Any = None if all(law_.delta is not None for law_ in laws) else np.asarray(CONTACT_DEPTH * body_size(body))
    if depth is not None and isinstance(body, Springs) and isinstance(body.points, torch.Tensor):
        depth = torch.tensor(depth, dtype=flatten.dtype, device=flatten.device)  # it varies with them
    rows = [(law_.ke, law_.kd, law_.kf, law_.mu, depth if law_.delta is None else law_.delta) for law_ in laws]

    def build() -> torch.Tensor:
        columns = flatten.join([_rows(("law", body.name, k), row, 1, flatten) for k, row in enumerate(rows)], 2)
        return columns.repeat(1, 1, pair_count // len(laws))

    return flatten.remember(("law", pair_count), itertools.chain(*rows), build)


def contact_law(body: Any, name: str, shape: StaticShape) -> Contact:
    """The body's own contact parameters for a shape, or else the shape's."""
    own = body.contact.get(name) if isinstance(body.contact, Mapping) else body.contact
    return own if own is not None else shape


def _shape_column(shape: StaticShape, flatten: Flattener) -> torch.Tensor:
    """A shape's geometry, [B, rows, 1]; see kernels/shapes.py."""
    if isinstance(shape, Ground):

        def build() -> torch.Tensor:
            normal = flatten(shape.normal, 1, (3,))
            normal = normal / normal.norm(dim=-1, keepdim=True)
            rest = flatten(np.zeros(7), 1, (7,))
            return torch.cat([normal, flatten(shape.offset, 1)[..., None], rest], -1).transpose(1, 2)

        return flatten.remember("plane", (shape.normal, shape.offset), build)
    column = np.zeros(len(ROWS["shape"]))
    if isinstance(shape, StaticSphere):
        column[:3], column[3] = shape.position, shape.radius
    elif isinstance(shape, StaticCapsule):
        column[:3], column[3], column[4:7] = shape.start, shape.radius, shape.end
    elif isinstance(shape, StaticBox):
        column[:3], column[4:7], column[7:] = shape.position, shape.size / 2, shape.rotation
    return flatten(column, 1, (len(column),)).transpose(1, 2)


def _component(value: Any, axis: int) -> Any:
    if isinstance(value, (PerElement, Signal)):
        return type(value)(_component(value.values, axis))
    return value[..., axis]


def _spring_lengths(body: Springs) -> PerElement:
    points: Any = body.points
    if isinstance(points, np.ndarray):
        return PerElement(np.linalg.norm(points[..., body.edges[:, 1], :] - points[..., body.edges[:, 0], :], axis=-1))
    ends = torch.as_tensor(body.edges.astype(np.int64), device=points.device)
    return PerElement((points[..., ends[:, 1], :] - points[..., ends[:, 0], :]).norm(dim=-1))


def body_size(body: Any) -> float:
    """Largest extent of a body's rest shape [m]."""
    if not isinstance(body, Springs):
        return _mesh_size(body.mesh)
    points: Any = unwrap(body.points)
    if isinstance(points, torch.Tensor):
        points = points.detach().cpu().numpy()
    return _extent(points.reshape(-1, *points.shape[-2:])[0])


@functools.lru_cache(maxsize=64)
def _mesh_size(mesh: TriMesh | TetMesh) -> float:
    return _extent(mesh.vertices)


def _extent(points: np.ndarray) -> float:
    return float(np.ptp(points, axis=0).max())


def driver_samples(driver: Driver, scene: Scene, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """A driver's samples, [B, samples, elements]."""
    row = ROWS[driver.family].index(driver.row)
    return flatten(row_values(driver.family, scene[driver.body])[row], driver.count)
