"""The largest stable time step of a scene, estimated from stiffness, mass and element size.

The highest frequency of a mesh is at most that of its stiffest single element with its share of the nodal masses (Irons
and Treharne). Shares are proportional to volume or area, and the node of least mass stands for the whole body. Each
force family so bounds a frequency and a damping rate (`ForceFamily.stable_rate`), and the integrator turns these into a
step dt. The step of a body with several families is (sum of their dt^-2)^-1/2.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.scene import Scene
from gradsim.simulate.compile.compiled_scene import CompiledScene, compile_scene
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.forces.colliders import KINDS as COLLIDER_KINDS
from gradsim.simulate.forces.colliders import ROWS as COLLIDER
from gradsim.simulate.forces.contact_law import ROWS as CONTACT
from gradsim.simulate.forces.family import ForceFamily, no_rate
from gradsim.simulate.state.articulated import ARTICULATED_DYNAMICS
from gradsim.simulate.state.joint_stability import JointJacobians, link_compliance, quaternion_matrix
from gradsim.simulate.state.kernels.rigid import FORMS
from gradsim.simulate.state.kernels.rigid import ROWS as RIGID

V = TypeVar("V")

GRAVITY = RIGID.gravity_x  # first of three rows
MIN_SUBSTEPS, SAFETY_FACTOR = 8, 1.5  # of `stable_substeps`
SINKING = 0.1  # of a body's size: a warning is given if the depth at rest is larger


class StableStep(NamedTuple):
    """A stable time step and what limits it."""

    dt: float  # [s]
    body: str
    reason: str


UNLIMITED = StableStep(math.inf, "", "nothing")


def stable_dt(scene: Scene, integrator: Integrator = Midpoint()) -> float:
    """Returns the largest stable time step [s], estimated at the rest shape; the smallest over a batch.

    This is an estimate: large strains stiffen a body, and some meshes are stable up to about 1.5 times this step.
    Infinite for `ImplicitMidpoint()`; `compare_integrators` states when its steps cost less than the explicit ones.

    Example:
        `gs.stable_dt(scene, gs.SymplecticEuler())`
    """
    with torch.no_grad():
        return stable_step(compile_scene(scene), integrator).dt


def stable_step(compiled: CompiledScene, integrator: Integrator) -> StableStep:
    """Returns the stable step with the body and the force that limit it."""
    limiting, batcher = _limiting(compiled.topology), compiled.batcher

    def owner_step(owner: str) -> StableStep:
        families = limiting[owner]

        def rate(name: str) -> float:
            return _squared_rate(compiled, families[name], owner, integrator)

        rates = batcher.cached_each(("stable rates", owner, integrator), families, rate)
        total, largest = sum(rates.values()), max(rates, key=rates.__getitem__)
        return StableStep(total**-0.5, owner, families[largest].reason) if total > 0 else UNLIMITED

    steps = batcher.cached_each(("stable steps", integrator), limiting, owner_step)
    return min(steps.values(), key=operator.attrgetter("dt"), default=UNLIMITED)


def _limiting(topology: Topology) -> dict[str, dict[str, ForceFamily]]:
    """Returns the force families that limit the step, for each owner of their elements and by name."""

    def build() -> dict[str, dict[str, ForceFamily]]:
        names = {force.name: force for force in topology.forces if force.stable_rate is not no_rate}
        names[ARTICULATED_DYNAMICS.name] = ARTICULATED_DYNAMICS
        found: dict[str, dict[str, ForceFamily]] = {}
        for family, owner in topology.ranges:
            if family in names:
                found.setdefault(owner, {})[family] = names[family]
        return found

    return topology.constant("limiting forces", build)


def _squared_rate(compiled: CompiledScene, family: ForceFamily, owner: str, integrator: Integrator) -> float:
    """Returns dt^-2 for the stable step dt of one owner under one force family [1/s^2]."""
    view = StabilityView(compiled, family, owner)
    squared_frequency, damping = view.family.stable_rate(view)
    dt = integrator.stable_dt(math.sqrt(max(squared_frequency, 0.0)), damping)
    return dt**-2 if dt > 0 else math.inf


class StabilityView:
    """Parameters, constants and masses of one owner's elements, from which `ForceFamily.stable_rate` is computed."""

    def __init__(self, compiled: CompiledScene, family: ForceFamily, owner: str):
        self.compiled, self.family, self.owner = compiled, family, owner

    def row(self, name: str) -> Any:
        """Returns a row of the owner's parameters, [B, elements], or a number if all are equal."""
        return self._columns[getattr(self.family.rows, name)]

    def largest_in_rows(self, *names: str) -> tuple[float, ...]:
        """Returns the largest entry of each of some rows of the owner's parameters."""
        return self._cached(
            ("largest", self.family.name, self.owner, names),
            lambda: tuple(self.largest(self.row(name)) for name in names),
        )

    @functools.cached_property
    def _columns(self) -> Any:
        return self.compiled.distinct_columns(self.family.name, self.owner)

    def array(self, name: str) -> Any:
        """Returns a constant of the elements, [elements], or its largest value if their parameters are equal."""
        family, topology = self.family.name, self.compiled.topology

        def build() -> Any:
            values = topology.arrays[f"{family}.{name}"][slice(*topology.ranges[family, self.owner])]
            return self.largest(values) if self.compiled.signature.periods[family, self.owner] == 1 else values

        return self._cached(("array", name, family, self.owner), build)

    def node_compliance(self, weight: str) -> float:
        """Returns the largest inverse mass of the body's nodes [1/kg], weighted by "one", "measure" or "degree"."""
        topology = self.compiled.topology

        def build() -> float:
            nodes = slice(*topology.ranges["node", self.owner])
            inverse = self.compiled.array("node")[:, 0, nodes]
            return self.largest(inverse if weight == "one" else inverse * topology.arrays[f"node.{weight}"][nodes])

        return self._cached(("compliance", weight, self.owner), build)

    def rigid_compliances(self) -> tuple[float, float]:
        """Returns the acceleration of a rigid body's contact points per unit of force on all of them [1/kg].

        The first is that of normal forces, the second that of friction, which turns a ball.
        """
        return _rigid_compliances(self.compiled, self.owner)

    def contact_count(self) -> float:
        """Returns how many points of a rigid body can be in contact with a plane at once."""
        return _flat_and_reach(self.compiled, self.owner)[0]

    def inverse_mass(self) -> float:
        """Returns the largest inverse mass of a rigid body [1/kg]."""
        return self.largest(self.compiled.distinct_columns("rigid", self.owner)[RIGID.inverse_mass])

    def rigid_speed(self) -> float:
        """Returns the largest initial speed of a rigid body [m/s]."""
        index = self.compiled.topology.ranges["rigid", self.owner][0]
        return float(self.compiled.state("rigid.v")[:, index].norm(dim=-1).max())

    def tether_compliance(self) -> float:
        """Returns the relative acceleration of nodes and rigid body per unit of force in every tether [1/kg]."""
        topology, family = self.compiled.topology, self.family.name

        def build() -> float:
            own = slice(*topology.ranges[family, self.owner])
            nodes, bodies = (topology.arrays[f"{family}.{name}"][own] for name in ("nodes", "bodies"))
            body = topology.owner("rigid", int(bodies[0]))
            rows, (_, reach) = self.compiled.distinct_columns("rigid", body), _flat_and_reach(self.compiled, body)
            return self.largest(self.compiled.array("node")[:, 0, nodes]) + len(nodes) * _point_compliance(rows, reach)

        return self._cached(("compliance", family, self.owner), build)

    def touched_compliances(self) -> tuple[float, float]:
        """Returns the acceleration of a node, and of a point of the rigid body, per unit of force on it [1/kg]."""
        topology, family = self.compiled.topology, self.family.name

        def build() -> tuple[float, float]:
            first = topology.ranges[family, self.owner][0]
            body = topology.owner("rigid", int(topology.arrays[f"{family}.bodies"][first]))
            node = topology.owner("node", int(topology.arrays[f"{family}.nodes"][first, 0]))
            rows, (_, reach) = self.compiled.distinct_columns("rigid", body), _flat_and_reach(self.compiled, body)
            inverse_masses = self.compiled.array("node")[:, 0, slice(*topology.ranges["node", node])]
            rigid = rows[RIGID.inverse_mass] + _largest_moment(rows) * reach**2
            return self.largest(inverse_masses), self.largest(rigid)

        return self._cached(("touched", family, self.owner), build)

    def connection_compliance(self) -> float:
        """Returns the relative acceleration of both points of a connection per unit of force in it [1/kg]."""
        topology, family = self.compiled.topology, self.family.name

        def build() -> float:
            element = topology.ranges[family, self.owner][0]
            arrays = {
                name: int(topology.arrays[f"{family}.{name}"][element]) for name in ("firsts", "seconds", "worlds")
            }
            names = ("firsts", "seconds") if arrays["worlds"] >= 0 else ("firsts",)
            return sum(self._connected(topology.owner("rigid", arrays[name]), name[:-1]) for name in names)

        return self._cached(("compliance", family, self.owner), build)

    def _connected(self, body: str, field: str) -> float:
        point = np.stack([np.ravel(np.asarray(self.row(f"{field}_{axis}"))) for axis in "xyz"], -1)  # [B, 3]
        if ("link", body) in self.compiled.topology.ranges:
            return _link_compliance(self.compiled, body, point[:, None])
        rows = self.compiled.distinct_columns("rigid", body)
        center = np.stack([np.ravel(np.asarray(rows[RIGID.center_x + k])) for k in range(3)], -1)
        return _point_compliance(rows, float(np.linalg.norm(point - center, axis=-1).max()))

    def pair_compliances(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the relative acceleration of two bodies in contact per unit of force for every law [1/kg], [B, laws].

        The first is that of normal forces, the second that of friction. Of each group, the body of least mass counts.
        """
        return self._cached(("compliance", "pairs"), lambda: _pair_compliances(self.compiled))

    def initial_speed(self) -> float:
        """Returns the largest initial speed of the body's nodes [m/s]."""
        nodes = slice(*self.compiled.topology.ranges["node", self.owner])
        return float(self.compiled.state("node.v")[:, nodes].norm(dim=-1).max())

    def topology_constant(self, function: Callable[[Topology], V]) -> V:
        """Returns a function of the topology, computed once."""
        topology = self.compiled.topology
        return topology.constant(function, lambda: function(topology))

    @staticmethod
    def largest(values: Any) -> float:
        """Returns the largest entry of an array, or a number itself."""
        return float(values.max() if isinstance(values, np.ndarray) else values)

    def _cached(self, key: Any, build: Callable[[], V]) -> V:
        return self.compiled.batcher.cached(("stability", key), build)


def _point_compliance(rows: Any, reach: float) -> float:
    """Returns the largest acceleration of a rigid body's point per unit of force on it [1/kg]."""
    moments = rows[RIGID.inverse_inertia_xx] + rows[RIGID.inverse_inertia_yy] + rows[RIGID.inverse_inertia_zz]
    return StabilityView.largest(rows[RIGID.inverse_mass] + moments * reach**2)


def _largest_moment(rows: Any) -> Any:
    """Returns a bound on the largest eigenvalue of a rigid body's inverse inertia [1/(kg m^2)]."""
    xx, yy, zz, yz, zx, xy = (rows[RIGID.inverse_inertia_xx + k] for k in range(6))
    sums = xx + abs(xy) + abs(zx), yy + abs(xy) + abs(yz), zz + abs(zx) + abs(yz)
    return functools.reduce(np.maximum, sums)


def _rigid_compliances(compiled: CompiledScene, body: str) -> tuple[float, float]:
    if ("link", body) in compiled.topology.ranges:
        compliance = _surface_compliance(compiled, body) * _contact_geometry(compiled.topology, body)[1]
        return compliance, compliance
    if _contact_geometry(compiled.topology, body)[0] == FORMS.ball:
        return _ball_compliance(compiled, body)
    points, reach = _flat_and_reach(compiled, body)
    compliance = _point_compliance(compiled.distinct_columns("rigid", body), reach) * points
    return compliance, compliance


def _ball_compliance(compiled: CompiledScene, body: str) -> tuple[float, float]:
    """Returns the acceleration of a ball's contact point per unit of normal force and of friction on it [1/kg].

    A normal force turns the ball only if the centre of mass is not that of the sphere.
    """
    rows = compiled.distinct_columns("rigid", body)
    offset = np.sqrt(sum(np.square(rows[RIGID.center_x + k]) for k in range(3)))
    moment = functools.reduce(np.maximum, (rows[RIGID.inverse_inertia_xx + k] for k in range(3)))
    arms = offset, offset + rows[RIGID.scale_x]
    normal, slip = (StabilityView.largest(rows[RIGID.inverse_mass] + moment * arm**2) for arm in arms)
    return normal, slip


def _pair_compliances(compiled: CompiledScene) -> tuple[np.ndarray, np.ndarray]:
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
        return _link_compliance(compiled, body, _link_corners(compiled, body, index))

    return compiled.cached(("surface compliance", body), build)


def _link_compliance(compiled: CompiledScene, body: str, points: np.ndarray) -> float:
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


def _flat_and_reach(compiled: CompiledScene, body: str) -> tuple[float, float]:
    """Returns how many points of a rigid body can touch a plane at once, and the largest distance of one [m]."""
    form, flat, reach = _contact_geometry(compiled.topology, body)
    if form != FORMS.mesh:
        reach *= float(np.max(compiled.distinct_columns("rigid", body)[RIGID.scale_x : RIGID.scale_z + 1]))
    return flat, reach


def sinking(compiled: CompiledScene) -> list[tuple[str, float, float]]:
    """Returns the rigid bodies that at rest sink in by more than a tenth of their size: name, depth [m], size [m]."""
    resting = _resting(compiled.topology)
    if not resting:
        return []
    depths = compiled.batcher.cached_each("rest depths", resting, partial(_rest_depth, compiled))
    return [(body, depth, size) for body, (depth, size) in depths.items() if depth > SINKING * size]


def _resting(topology: Topology) -> tuple[str, ...]:
    """Returns the rigid bodies that may rest on static shapes: forces do not move those with a prescribed motion."""

    def build() -> tuple[str, ...]:
        touching = [body for family, body in topology.ranges if family == "rigid_contact"]
        return tuple(body for body in touching if ("rigid_motion", body) not in topology.ranges)

    return topology.constant("resting bodies", build)


def _weakest_contact(compiled: CompiledScene, body: str) -> float:
    """Returns the largest stiffness of a rigid body's contacts in the world where that is smallest [N/m]."""
    stiffness = compiled.distinct_columns("rigid_contact", body)[CONTACT.ke]
    return float(stiffness.max(1).min() if isinstance(stiffness, np.ndarray) else stiffness)


def _rest_depth(compiled: CompiledScene, body: str) -> tuple[float, float]:
    """Returns the depth to which a rigid body sinks in at rest [m], and its size [m]."""
    rows = compiled.distinct_columns("rigid", body)
    points, reach = _flat_and_reach(compiled, body)
    weakest = compiled.batcher.cached(("weakest contact", body), partial(_weakest_contact, compiled, body))
    gx, gy, gz = rows[GRAVITY], rows[GRAVITY + 1], rows[GRAVITY + 2]
    weight = StabilityView.largest((gx * gx + gy * gy + gz * gz) ** 0.5 / rows[RIGID.inverse_mass])
    depth = weight / (weakest * points) if weakest > 0.0 else math.inf  # no contact force
    return depth, 2.0 * reach


def stable_substeps(scene: Scene, fps: float, integrator: Integrator) -> int:
    """Returns the physics steps per frame that stability requires, with a safety factor; at least 8."""
    return max(MIN_SUBSTEPS, math.ceil(SAFETY_FACTOR / (fps * stable_dt(scene, integrator))))
