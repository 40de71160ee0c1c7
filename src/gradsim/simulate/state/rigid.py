"""Rigid bodies: position, rotation, velocity and angular momentum about the centre of mass."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradsim.scene.ball import Ball
from gradsim.scene.link_bodies import LinkBody
from gradsim.scene.quantity import is_per_element, is_zero
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import RigidMotion
from gradsim.simulate.forces.family import Elements
from gradsim.simulate.state.articulated import piece_mass
from gradsim.simulate.state.kernels.rigid import FORMS, ROWS, rigid_kernels
from gradsim.simulate.state.part import StatePart

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.compiled_scene import CompiledScene
    from gradsim.simulate.compile.topology import Placement, Topology


def rigid_key(body: Rigid) -> Hashable:
    """Returns a key that is equal for bodies with equal contact points in mesh coordinates and numbers of pushes."""
    return body.mesh.key, body.face_samples, len(body.pushes), rigid_form(body)


def rigid_form(body: Rigid) -> int:
    if isinstance(body, Ball):
        return FORMS.ball
    return FORMS.sized_mesh if body.is_scaled else FORMS.mesh


def rigid_elements(body: Rigid, place: Placement) -> Elements:
    points = body.contact_points
    is_ball = isinstance(body, Ball)
    reach = 1.0 if is_ball else np.linalg.norm(points - points.mean(0), axis=1).max()
    numbers = {
        "sizes": len(points),
        "flat": 1 if is_ball else flat_count(body),
        "reach": reach,
        "forms": np.int32(rigid_form(body)),
    }
    return Elements(1, {"points": points, **{name: np.array([number]) for name, number in numbers.items()}})


def flat_count(body: Rigid) -> int:
    """Returns the largest number of points that can touch a plane at once: those within a twentieth of the size."""
    points = body.contact_points
    corners = body.mesh.vertices[body.mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = np.unique(np.round(normals / np.linalg.norm(normals, axis=1, keepdims=True), 6), axis=0)
    down = np.concatenate([normals[:: max(1, len(normals) // 200)], -np.eye(3), np.eye(3)])
    heights = points @ down.T
    near = heights > heights.max(0) - 0.05 * np.ptp(points, axis=0).max()
    return int(near.sum(0).max())


def rigid_columns(body: Rigid, scene: Scene, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns inverse mass, gravity, centre of mass, inverse inertia and scale, [B, rows, 1]."""
    if isinstance(body, LinkBody):
        return _link_columns(body, batcher)
    if body.inertia is None and not body.is_scaled and not is_per_element(body.mass):
        return _solid_columns(body, scene, batcher)
    mass, center, inertia = batcher.mass_properties(body)
    scale = batcher.scale(body)
    factors = np.ones(3) if scale is None else scale
    return _columns(mass.reciprocal()[..., None], scene.gravity, center, torch.linalg.inv(inertia), factors, batcher)


def _link_columns(body: LinkBody, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the columns of a link: with a unit inertia, its angular momentum is the angular velocity."""
    owner: Any = body.owner
    inverse = piece_mass(owner, body.link, batcher).reciprocal()[..., None]
    scale = batcher.scale(body)
    fixed = np.concatenate([np.zeros(6), [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    factors = batcher.per_element(np.ones(3) if scale is None else scale, 1, (3,))
    rows = [inverse, batcher.per_element(fixed, 1, (12,)), factors]
    return torch.cat([row.expand(batcher.world_count, -1, -1) for row in rows], -1).transpose(1, 2)


def _solid_columns(body: Rigid, scene: Scene, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the columns of a body of uniform density; all that depends only on its shape is computed once."""

    def fixed() -> torch.Tensor:
        _, center, _ = body.unit_solid(batcher.dtype, batcher.device)
        batcher.record(body.center)
        own = center.cpu().numpy() if body.center is None else body.center
        return _columns(np.zeros(1), scene.gravity, own, np.zeros((3, 3)), np.ones(3), batcher)

    def per_mass() -> torch.Tensor:
        volume, _, inertia = (a.cpu().numpy() for a in body.unit_solid(batcher.dtype, batcher.device))
        inverse = np.linalg.inv(inertia)
        own = (1.0 / volume, inverse) if body.mass is None else (np.ones(()), volume * inverse)
        return _columns(own[0][None], np.zeros(3), np.zeros(3), own[1], np.zeros(3), batcher)

    terms = batcher.cached(("rigid fixed", body.name), fixed), batcher.cached(("rigid per mass", body.name), per_mass)
    return torch.addcdiv(*terms, batcher.broadcastable(body.density if body.mass is None else body.mass, 1))


def _columns(
    inverse_mass: Any, gravity: Any, center: Any, inverse_inertia: Any, scale: Any, batcher: SceneBatcher
) -> torch.Tensor:
    six = inverse_inertia.reshape(*inverse_inertia.shape[:-2], 9)[..., [0, 4, 8, 5, 6, 1]]  # xx, yy, zz, yz, zx, xy
    batcher.record(gravity)
    values = ((inverse_mass, 1), (gravity, 3), (center, 3), (six, 6), (scale, 3))
    return torch.cat([batcher.per_element(value, 1, (width,)) for value, width in values], -1).transpose(1, 2)


def _rotation(body: Rigid, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the initial rotation as a unit quaternion, [B, 1, 4]."""
    return batcher.unit_quaternion(("rotation", body.name), body.rotation)


def initial_center(body: Rigid, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the initial position of the centre of mass [m], [B, 1, 3]."""

    def offset() -> torch.Tensor:
        return rotate(_rotation(body, batcher), center_of_mass(body, batcher))

    return batcher(body.position, 1, (3,)) + batcher.cached(("center", body.name), offset)


def center_of_mass(body: Rigid, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the centre of mass in body coordinates [m], [B, 1, 3]."""
    if body.center is not None:
        return batcher(body.center, 1, (3,))
    if is_per_element(body.mass):
        return batcher.per_element(batcher.mass_properties(body).center, 1, (3,))

    def scaled() -> torch.Tensor:  # independent of a uniform density
        center, scale = body.unit_solid(batcher.dtype, batcher.device).center, batcher.scale(body)
        return batcher.per_element(center if scale is None else center * scale, 1, (3,))

    return batcher.cached(("center of mass", body.name), scaled)


def initial_rotation(body: Rigid, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    return _rotation(body, batcher)


def initial_velocity(body: Rigid, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the initial velocity of the centre of mass [m/s], [B, 1, 3]."""
    velocity = batcher(body.velocity, 1, (3,))
    if body.velocity_point is None:
        return velocity
    arm = rotate(_rotation(body, batcher), center_of_mass(body, batcher) - batcher(body.velocity_point, 1, (3,)))
    return velocity + torch.linalg.cross(batcher(body.angular_velocity, 1, (3,)), arm)


def initial_angular_momentum(body: Rigid, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the initial angular momentum about the centre of mass [kg m^2/s], [B, 1, 3]."""
    if is_zero(body.angular_velocity):
        return batcher(np.zeros(3), 1, (3,))
    q, spin = _rotation(body, batcher), batcher(body.angular_velocity, 1, (3,))
    inertia = batcher.per_element(batcher.mass_properties(body).inertia, 1, (3, 3))
    return rotate(q, (inertia @ rotate(q, spin, back=True)[..., None])[..., 0])


def rigid_motion(body: Rigid, compiled: CompiledScene, states: dict[str, torch.Tensor]) -> Callable[[], RigidMotion]:
    """Returns a function for the motion of a body."""

    def motion() -> RigidMotion:
        index = compiled.topology.ranges["rigid", body.name][0]
        p, q, v, momentum = (states[name].select(-2, index) for name in RIGID_BODIES.state_names)
        column = compiled.parameters["rigid"].select(2, index).view(*compiled.batch, 1, -1)
        column = column[..., : ROWS.scale_x] if not body.is_scaled else column
        points = compiled.batcher.cached(("vertices", body.name), lambda: compiled.batcher.tensor(body.mesh.vertices))
        return RigidMotion(p, q, v, momentum, column, points)

    return motion


RIGID_BODIES = StatePart(
    name="rigid",
    rows=ROWS,
    owners=(Rigid,),
    elements=rigid_elements,
    columns=rigid_columns,
    key=rigid_key,
    states={"p": 3, "q": 4, "v": 3, "l": 3},
    forces={"f": 3, "t": 3},
    initial={
        "p": initial_center,
        "q": initial_rotation,
        "v": initial_velocity,
        "l": initial_angular_momentum,
    },
    motion=rigid_motion,
    kernels=rigid_kernels,
    stage_sums=(3, 4, 3, 3),
)
