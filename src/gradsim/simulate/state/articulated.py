"""Articulated bodies: coordinates and rates of their joints.

Kernels know joints about and along the z axis of a frame only. `Alignment` turns the axis of every joint to z, with the
link's mass properties and the frames of the joints that it carries, differentiably.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.articulated_motion import ArticulatedMotion
from gradsim.scene.errors import InvalidInput
from gradsim.scene.joint_tree import JointElement
from gradsim.scene.joints import NO_LIMIT, Free, Universal, is_scalar
from gradsim.scene.link_bodies import piece_links
from gradsim.scene.quantity import PerElement, Signal, is_zero, unwrap
from gradsim.scene.rigid import unit_solid
from gradsim.scene.rotation import axes_of, multiply, rotate
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements, ForceFamily
from gradsim.simulate.state.joint_stability import joint_rates
from gradsim.simulate.state.kernels.articulated import KINDS, ROWS, joint_kernels
from gradsim.simulate.state.kernels.articulated_dynamics import articulated_dynamics
from gradsim.simulate.state.part import StatePart

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.compiled_scene import CompiledScene
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.stability import StabilityView

IDENTITY = np.array([0.0, 0.0, 0.0, 1.0])
PASSIVE = ("stiffness", "rest", "damping", "armature", "friction", "slip")  # rows that are quantities of every joint
LIMITS = ("low", "high", "limit_stiffness", "limit_damping", "limit_width")  # rows of joints with one coordinate
MOTOR = ("force", "target", "gain", "target_rate", "rate_gain")  # rows of these, too
DEFAULTS = {"slip": 1.0, "limit_width": 1.0, "low": -NO_LIMIT, "high": NO_LIMIT}  # 0 for all others


def joint_key(body: Articulated) -> Hashable:
    """Returns a key that is equal for bodies with equal trees of joints."""
    return tuple((element.kind, element.parent) for element in body.elements)


def joint_arrays(body: Articulated, place: Placement) -> Elements:
    elements = body.elements
    first = max((end for (family, _), (_, end) in place.ranges.items() if family == "joint"), default=0)
    kinds = [KINDS.index(element.kind) for element in elements]
    parents = [element.parent + first if element.parent >= 0 else -1 for element in elements]
    return Elements(
        len(elements), {"kinds": np.array(kinds, dtype=np.int32), "parents": np.array(parents, dtype=np.int32)}
    )


def stacked(values: Sequence[Any], shape: tuple[int, ...], batcher: SceneBatcher) -> torch.Tensor:
    """Returns one quantity of every element, [B, E, *shape]."""
    if all(isinstance(value, np.ndarray) and value.ndim == len(shape) for value in values):
        return batcher(PerElement(np.stack(list(values))), len(values), shape)
    return torch.cat([batcher(value, 1, shape) for value in values], 1)


def _axis(element: JointElement, link: Link) -> Any:
    joint: Any = link.joint
    if isinstance(joint, Free) and element.kind == "prismatic":
        return np.eye(3)[element.part]
    if isinstance(joint, Universal) and element.part == 1:
        return joint.second_axis
    return joint.axis if is_scalar(joint) or isinstance(joint, Universal) else np.eye(3)[2]


def alignments(body: Articulated, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the rotations that turn the z axis to the axes of the joints, [B, E, 4]."""

    def build() -> torch.Tensor:
        axis = stacked([_axis(element, body.links[element.link]) for element in body.elements], (3,), batcher)
        axis = axis / axis.norm(dim=-1, keepdim=True)
        down = axis[..., 2:] < 0.0  # the rotation to an axis near -z is that to its opposite, after half a turn about x
        x, y, z = torch.where(down, -axis, axis).unbind(-1)
        zero = torch.zeros_like(x)
        upward = torch.stack([-y, x, zero, 1.0 + z], -1)
        downward = torch.stack([1.0 + z, zero, -x, y], -1)
        q = torch.where(down, downward, upward)
        return q / q.norm(dim=-1, keepdim=True)

    return batcher.cached(("alignments", body.name), build)


def _inverse(q: torch.Tensor) -> torch.Tensor:
    return torch.cat([-q[..., :3], q[..., 3:]], -1)


def _frames(body: Articulated, batcher: SceneBatcher) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns offset [m], [B, E, 3], and rotation [B, E, 4] of the joints' frames in aligned axes of their parents."""
    elements = body.elements
    links = [body.links[element.link] if element.part == 0 else None for element in elements]
    offset = stacked([np.zeros(3) if link is None else link.position for link in links], (3,), batcher)
    rotations = [IDENTITY if link is None or link.rotation is None else link.rotation for link in links]
    rotation = stacked(rotations, (4,), batcher)
    rotation = rotation / rotation.norm(dim=-1, keepdim=True)
    align = alignments(body, batcher)
    parents = [element.parent for element in elements]
    base = batcher.unit_quaternion(("base", body.name), body.rotation)
    # The axes of the base, of which the joints without parent are given, come after those of all elements.
    before = torch.cat([_inverse(align), base], 1)[:, parents]
    offset = rotate(before, offset)
    if not is_zero(body.position):
        root = torch.tensor([parent < 0 for parent in parents], device=offset.device)[:, None]
        offset = offset + torch.where(root, batcher(body.position, 1, (3,)), 0.0)
    return offset, multiply(multiply(before, rotation), align)


def link_mass(link: Link, batcher: SceneBatcher) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns mass [B, 1], centre [B, 1, 3] and inertia about it [B, 1, 3, 3] in the axes of the link."""
    if link.mass is None and link.density is None:
        return batcher(np.zeros(()), 1), batcher(np.zeros(3), 1, (3,)), batcher(np.zeros((3, 3)), 1, (3, 3))
    unit = None if link.mesh is None else unit_solid(link.mesh, batcher.dtype, batcher.device)
    if link.density is not None and unit is not None:
        density = batcher(link.density, 1)
        mass = density * unit.mass
    else:
        mass = batcher(link.mass, 1)
        density = mass if unit is None else mass / unit.mass
    if link.center is not None:
        center = batcher(link.center, 1, (3,))
    else:
        center = (
            torch.zeros_like(mass)[..., None].expand(-1, -1, 3) if unit is None else unit.center.expand(*mass.shape, 3)
        )
    if link.inertia is not None:
        return mass, center, batcher(link.inertia, 1, (3, 3))
    if unit is None:
        return mass, center, torch.zeros_like(mass)[..., None, None].expand(-1, -1, 3, 3)
    return mass, center, density[..., None, None] * unit.inertia


def piece_mass(body: Articulated, link: str, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the mass of the rigid piece that a link is part of, [B, 1]; that of the body if it has none."""
    links = [own for own in piece_links(body, link) if own.mass is not None or own.density is not None]
    return torch.stack([link_mass(own, batcher)[0] for own in links or body.links.values()]).sum(0)


def _mass_rows(body: Articulated, batcher: SceneBatcher) -> torch.Tensor:
    """Returns mass, first moment and inertia about the origin of each link in aligned axes, [B, E, 10]."""
    zeros = (np.zeros(()), np.zeros(3), np.zeros((3, 3)))
    empty = tuple(batcher(value, 1, value.shape) for value in zeros)
    links = [(body.links[element.link], element.carries) for element in body.elements]
    masses = [link_mass(link, batcher) if carries else empty for link, carries in links]
    mass, center, inertia = (torch.cat(list(parts), 1) for parts in zip(*masses, strict=True))
    identity = torch.eye(3, dtype=mass.dtype, device=mass.device)
    square = (center * center).sum(-1)[..., None, None] * identity - center[..., :, None] * center[..., None, :]
    about_origin = inertia + mass[..., None, None] * square
    align = alignments(body, batcher)
    axes = axes_of(align)
    turned = (axes @ about_origin @ axes.mT).flatten(-2)[..., [0, 4, 8, 5, 6, 1]]
    return torch.cat([mass[..., None], rotate(align, mass[..., None] * center, back=True), turned], -1)


def joint_value(element: JointElement, link: Link, row: str) -> Any:
    """Returns the quantity of one joint for a row of the table; None if it has none."""
    joint: Any = link.joint
    if is_scalar(joint):
        return getattr(joint, joint.effort if row == "force" else row)
    if row not in PASSIVE or isinstance(joint, Free):
        return None
    value: Any = getattr(joint, row, None)
    return value[..., element.part] if isinstance(joint, Universal) and row != "slip" else value


def _row_values(body: Articulated, row: str) -> list[Any]:
    """Returns a row of the table, with zeros for signals."""
    values = []
    for element in body.elements:
        value = joint_value(element, body.links[element.link], row)
        unset = value is None or isinstance(value, Signal)
        values.append(np.array(DEFAULTS.get(row, 0.0)) if unset else value)
    return values


def joint_columns(body: Articulated, scene: Scene, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns all parameters of the joints, [B, rows, E]."""
    elements = body.elements
    count = len(elements)
    offset, rotation = _frames(body, batcher)
    gravity = batcher(scene.gravity, 1, (3,)).expand(-1, count, -1)
    numbers = torch.stack([stacked(_row_values(body, row), (), batcher) for row in (*PASSIVE, *LIMITS, *MOTOR)], -1)
    balls = stacked([np.array(float(element.kind == "ball")) for element in elements], (), batcher)
    rows = [offset, rotation, _mass_rows(body, batcher), gravity, numbers, balls[..., None]]
    return torch.cat([part.expand(batcher.world_count, -1, -1) for part in rows], -1).transpose(1, 2)


def motor_signal(row: str) -> Callable[[Articulated], Any]:
    """Returns a function for one row of a body's motors: a signal of all joints, or zero if none is a signal."""

    def value(body: Articulated) -> Any:
        elements = body.elements
        values = [joint_value(element, body.links[element.link], row) for element in elements]
        samples = [unwrap(value).shape[-1] for value in values if isinstance(value, Signal)]
        if not samples:
            return np.zeros(())
        return Signal(PerElement(_joined_samples(values, samples[0], DEFAULTS.get(row, 0.0))))

    return value


def _joined_samples(values: Sequence[Any], samples: int, default: float) -> Any:
    """Returns samples of signals and repeated constants as one array [..., samples, E]."""
    arrays = [np.array(default) if value is None else unwrap(value) for value in values]
    lead = next((array for array in arrays if isinstance(array, torch.Tensor)), None)
    columns = []
    for value, array in zip(values, arrays, strict=True):
        column = torch.as_tensor(array) if lead is None else torch.as_tensor(array).to(lead)
        columns.append(column if isinstance(value, Signal) else column[..., None].expand(*column.shape, samples))
    joined = torch.stack(torch.broadcast_tensors(*columns), -1)
    return joined if lead is not None else joined.numpy()


def initial_coordinates(body: Articulated, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns angles and displacements as (value, 0, 0, 0), balls as unit quaternions, [B, E, 4]."""
    parts = []
    for element in body.elements:
        joint: Any = body.links[element.link].joint
        if element.kind == "ball":
            parts.append(batcher.unit_quaternion(("joint", body.name, element.link), joint.rotation))
        else:
            parts.append(torch.nn.functional.pad(batcher(_coordinate(joint, element), 1)[..., None], (0, 3)))
    return torch.cat(parts, 1)


def _coordinate(joint: Any, element: JointElement) -> Any:
    if isinstance(joint, (Free, Universal)):
        values: Any = joint.displacement if isinstance(joint, Free) else joint.angles
        return values[..., element.part]
    return getattr(joint, joint.coordinate) if is_scalar(joint) else np.zeros(())


def initial_speeds(body: Articulated, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the rates (value, 0, 0) of the joints, and angular velocities of balls, [B, E, 3]."""
    parts = []
    for element in body.elements:
        joint: Any = body.links[element.link].joint
        if element.kind == "ball":
            parts.append(batcher(joint.angular_velocity, 1, (3,)))
            continue
        rate: Any = np.zeros(())
        if isinstance(joint, (Free, Universal)):
            rates: Any = joint.velocity if isinstance(joint, Free) else joint.rates
            rate = rates[..., element.part]
        elif is_scalar(joint):
            rate = joint.rate
        parts.append(torch.nn.functional.pad(batcher(rate, 1)[..., None], (0, 2)))
    return torch.cat(parts, 1)


def joint_motion(
    body: Articulated, compiled: CompiledScene, states: dict[str, torch.Tensor]
) -> Callable[[], ArticulatedMotion]:
    """Returns a function for the motion of a body."""

    def motion() -> ArticulatedMotion:
        first, end = compiled.topology.ranges["joint", body.name]
        q, v = (states[name][..., first:end, :] for name in JOINTS.state_names)
        batcher, count = compiled.batcher, end - first
        table = compiled.parameters["joint"][:, : ROWS.frame_w + 1, first:end].transpose(1, 2)
        frames = table.reshape(*compiled.batch, 1, count, 7)
        align = alignments(body, batcher).expand(batcher.world_count, -1, -1).reshape(*compiled.batch, 1, count, 4)
        meshes = {name: _vertices(body, name, batcher) for name in body.mesh_links}
        return ArticulatedMotion(
            q, v, frames[..., :3], frames[..., 3:], align, body.elements, body.scalar_joints, meshes
        )

    return motion


def _vertices(body: Articulated, link: str, batcher: SceneBatcher) -> torch.Tensor:
    mesh: Any = body.links[link].mesh
    return batcher.cached(("vertices", body.name, link), lambda: batcher.tensor(mesh.vertices))


JOINTS = StatePart(
    name="joint",
    rows=ROWS,
    owners=(Articulated,),
    elements=joint_arrays,
    columns=joint_columns,
    parameters={row: motor_signal(row) for row in ("force", "target", "target_rate")},
    signals=("force", "target", "target_rate"),
    key=joint_key,
    states={"q": 4, "v": 3},
    forces={"a": 3},
    initial={"q": initial_coordinates, "v": initial_speeds},
    motion=joint_motion,
    kernels=joint_kernels,
    stage_sums=(4, 3),
)


def stable_rate(view: StabilityView) -> tuple[float, float]:
    """Returns the largest squared frequency [1/s^2] and damping rate [1/s] of a body's joints at the initial state."""
    compiled, topology = view.compiled, view.compiled.topology
    first, end = topology.ranges["joint", view.owner]
    parents = topology.arrays["joint.parents"][first:end]
    table = np.asarray(compiled.array("joint")[:, :, first:end], dtype=np.float64)
    q = compiled.state("joint.q")[:, first:end].cpu().numpy().astype(np.float64)
    kinds = topology.arrays["joint.kinds"][first:end]
    try:
        return joint_rates(table, q, kinds, np.where(parents >= 0, parents - first, -1))
    except np.linalg.LinAlgError:
        remedy = (
            "nothing that one of the joints moves has inertia: give an inertia, a centre off the axis, or an armature"
        )
        raise InvalidInput(f"{view.owner}.links", "links without inertia", remedy) from None


# Accelerations of the joints as a force on them, for estimates of the stable step. Steps have it built in.
ARTICULATED_DYNAMICS = ForceFamily(
    name="joint",
    rows=ROWS,
    owners=(Articulated,),
    elements=joint_arrays,
    acts_on=("joint",),
    kernels=articulated_dynamics,
    stable_rate=stable_rate,
    reason="springs, limits, friction and motors of the joints",
)
