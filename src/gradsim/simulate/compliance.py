"""Accelerations of points of rigid bodies and links per unit of force on them, which limit the time step of contact."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradsim.simulate.compile.compiled_scene import CompiledScene
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.forces.colliders import KINDS as COLLIDER_KINDS
from gradsim.simulate.forces.colliders import ROWS as COLLIDER
from gradsim.simulate.state.joint_stability import JointJacobians, link_compliance, quaternion_matrix
from gradsim.simulate.state.kernels.rigid import FORMS
from gradsim.simulate.state.kernels.rigid import ROWS as RIGID


def largest_entry(values: Any) -> float:
    """Returns the largest entry of an array, or a number itself."""
    return float(values.max() if isinstance(values, np.ndarray) else values)


def point_compliance(rows: Any, reach: float) -> float:
    """Returns the largest acceleration of a rigid body's point per unit of force on it [1/kg]."""
    moments = rows[RIGID.inverse_inertia_xx] + rows[RIGID.inverse_inertia_yy] + rows[RIGID.inverse_inertia_zz]
    return largest_entry(rows[RIGID.inverse_mass] + moments * reach**2)


def largest_moment(rows: Any) -> Any:
    """Returns a bound on the largest eigenvalue of a rigid body's inverse inertia [1/(kg m^2)]."""
    xx, yy, zz, yz, zx, xy = (rows[RIGID.inverse_inertia_xx + k] for k in range(6))
    sums = xx + abs(xy) + abs(zx), yy + abs(xy) + abs(yz), zz + abs(zx) + abs(yz)
    return functools.reduce(np.maximum, sums)


def rigid_compliances(compiled: CompiledScene, body: str) -> tuple[float, float]:
    if ("link", body) in compiled.topology.ranges:
        compliance = _surface_compliance(compiled, body) * _contact_geometry(compiled.topology, body)[1]
        return compliance, compliance
    if _contact_geometry(compiled.topology, body)[0] == FORMS.ball:
        return _ball_compliance(compiled, body)
    points, reach = flat_and_reach(compiled, body)
    compliance = point_compliance(compiled.distinct_columns("rigid", body), reach) * points
    return compliance, compliance


def _ball_compliance(compiled: CompiledScene, body: str) -> tuple[float, float]:
    """Returns the acceleration of a ball's contact point per unit of normal force and of friction on it [1/kg].

    A normal force turns the ball only if the centre of mass is not that of the sphere.
    """
    rows = compiled.distinct_columns("rigid", body)
    offset = np.sqrt(sum(np.square(rows[RIGID.center_x + k]) for k in range(3)))
    moment = functools.reduce(np.maximum, (rows[RIGID.inverse_inertia_xx + k] for k in range(3)))
    arms = offset, offset + rows[RIGID.scale_x]
    normal, slip = (largest_entry(rows[RIGID.inverse_mass] + moment * arm**2) for arm in arms)
    return normal, slip


def pair_compliances(compiled: CompiledScene) -> tuple[np.ndarray, np.ndarray]:
    arrays = compiled.topology.arrays
    rigid, collider = compiled.array("rigid"), compiled.array("collider")
    shapes = arrays["collider.shapes"]
    scaled = collider[:, :3].max(1, keepdims=True) * arrays["collider.reach"][shapes]
    extent = np.where(arrays["collider.kinds"][shapes] == COLLIDER_KINDS.grid, scaled, collider[:, :3])
    arms = np.abs(collider[:, COLLIDER.offset_x :]) + extent  # along the axes of the body, [B, 3, bodies]
    groups = arrays["pair.groups"]
    numbers = arrays["pair.numbers"].reshape(groups.max() + 1, -1)
    found = []
    for reach in (arms, arms + collider[:, COLLIDER.radius, None]):
        own = _reached_compliance(rigid, reach).T
        for link in compiled.topology.owners.get("link", ()):
            own[compiled.topology.ranges["rigid", link][0]] = _surface_compliance(compiled, link)
        largest = np.zeros((len(numbers), own.shape[1]))
        np.maximum.at(largest, groups, own)
        laws = np.zeros((numbers.max() + 1, own.shape[1]))
        np.maximum.at(laws, numbers[numbers >= 0], (largest[:, None] + largest)[numbers >= 0])
        found.append(laws.T)
    return found[0], found[1]


def _reached_compliance(rigid: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """Returns a bound on the acceleration of points within these arms per unit of force on one [1/kg], [B, bodies]."""
    xx, yy, zz, yz, xz, xy = (rigid[:, RIGID.inverse_inertia_xx + k] for k in range(6))
    xy, xz, yz = np.abs(xy), np.abs(xz), np.abs(yz)
    moments = np.stack([xx + xy + xz, yy + xy + yz, zz + xz + yz], 1)  # rows of the matrix bound its quadratic form
    squares = arms**2
    across = squares.sum(1, keepdims=True) - squares
    return np.asarray(rigid[:, RIGID.inverse_mass] + (moments * across).sum(1))


def _surface_compliance(compiled: CompiledScene, body: str) -> float:
    """Returns the largest acceleration of a link's surface per unit of force on it [1/kg], at the initial state."""

    def build() -> float:
        index = compiled.topology.ranges["rigid", body][0]
        return linked_compliance(compiled, body, _link_corners(compiled, body, index))

    return compiled.cached(("surface compliance", body), build)


def linked_compliance(compiled: CompiledScene, body: str, points: np.ndarray) -> float:
    """Returns the same for points of a link in its axes [m], [B, P, 3]."""
    topology, arrays = compiled.topology, compiled.topology.arrays
    link = topology.ranges["link", body][0]
    element = int(arrays["link.joints"][link])
    owner = topology.owner("joint", element)
    first = topology.ranges["joint", owner][0]
    jacobians = compiled.cached(("jacobians", owner), lambda: _jacobians(compiled, owner))
    turn = quaternion_matrix(np.asarray(compiled.array("link")[:, :, link], dtype=np.float64))
    return link_compliance(jacobians, element - first, points @ turn)


def _jacobians(compiled: CompiledScene, body: str) -> JointJacobians:
    first, end = compiled.topology.ranges["joint", body]
    kinds, parents = (compiled.topology.arrays[f"joint.{name}"][first:end] for name in ("kinds", "parents"))
    return JointJacobians(
        np.asarray(compiled.array("joint")[:, :, first:end], dtype=np.float64),
        compiled.state("joint.q")[:, first:end].cpu().numpy().astype(np.float64),
        kinds,
        np.where(parents >= 0, parents - first, -1),
    )


def _link_corners(compiled: CompiledScene, body: str, index: int) -> np.ndarray:
    """Returns the corners of a box around the surface of a link [m], [1, 8, 3]."""
    arrays = compiled.topology.arrays
    begin = int(arrays["rigid.sizes"][:index].sum())
    points = arrays["rigid.points"][begin : begin + int(arrays["rigid.sizes"][index])]
    low, high = points.min(0), points.max(0)
    if arrays["rigid.forms"][index] == FORMS.ball:
        high = np.full(3, float(np.max(compiled.distinct_columns("rigid", body)[RIGID.scale_x])))
        low = -high
    return np.stack(np.meshgrid(*np.stack([low, high], 1), indexing="ij"), -1).reshape(1, -1, 3)


def _contact_geometry(topology: Topology, body: str) -> tuple[int, int, float]:
    """Returns the form of a rigid body, how many points can touch a plane, and the largest distance of one [m]."""

    def build() -> tuple[int, int, float]:
        index, arrays = topology.ranges["rigid", body][0], topology.arrays
        form, flat, reach = (arrays[f"rigid.{name}"].item(index) for name in ("forms", "flat", "reach"))
        return form, flat, reach

    return topology.constant(("contact geometry", body), build)


def flat_and_reach(compiled: CompiledScene, body: str) -> tuple[float, float]:
    """Returns how many points of a rigid body can touch a plane at once, and the largest distance of one [m]."""
    form, flat, reach = _contact_geometry(compiled.topology, body)
    if form != FORMS.mesh:
        reach *= float(np.max(compiled.distinct_columns("rigid", body)[RIGID.scale_x : RIGID.scale_z + 1]))
    return flat, reach
