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
from gradsim.scene.time import check_integrator
from gradsim.simulate.compile.compiled_scene import CompiledScene, compile_scene
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.compliance import (
    flat_and_reach,
    largest_entry,
    largest_moment,
    linked_compliance,
    pair_compliances,
    point_compliance,
    rigid_compliances,
)
from gradsim.simulate.forces.contact_law import ROWS as CONTACT
from gradsim.simulate.forces.family import ForceFamily, no_rate
from gradsim.simulate.state.articulated import ARTICULATED_DYNAMICS
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
    check_integrator("integrator", integrator)
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
        return rigid_compliances(self.compiled, self.owner)

    def contact_count(self) -> float:
        """Returns how many points of a rigid body can be in contact with a plane at once."""
        return flat_and_reach(self.compiled, self.owner)[0]

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
            rows, (_, reach) = self.compiled.distinct_columns("rigid", body), flat_and_reach(self.compiled, body)
            return self.largest(self.compiled.array("node")[:, 0, nodes]) + len(nodes) * point_compliance(rows, reach)

        return self._cached(("compliance", family, self.owner), build)

    def touched_compliances(self) -> tuple[float, float]:
        """Returns the acceleration of a node, and of a point of the rigid body, per unit of force on it [1/kg]."""
        topology, family = self.compiled.topology, self.family.name

        def build() -> tuple[float, float]:
            first = topology.ranges[family, self.owner][0]
            body = topology.owner("rigid", int(topology.arrays[f"{family}.bodies"][first]))
            node = topology.owner("node", int(topology.arrays[f"{family}.nodes"][first, 0]))
            rows, (_, reach) = self.compiled.distinct_columns("rigid", body), flat_and_reach(self.compiled, body)
            inverse_masses = self.compiled.array("node")[:, 0, slice(*topology.ranges["node", node])]
            rigid = rows[RIGID.inverse_mass] + largest_moment(rows) * reach**2
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
            return linked_compliance(self.compiled, body, point[:, None])
        rows = self.compiled.distinct_columns("rigid", body)
        center = np.stack([np.ravel(np.asarray(rows[RIGID.center_x + k])) for k in range(3)], -1)
        return point_compliance(rows, float(np.linalg.norm(point - center, axis=-1).max()))

    def pair_compliances(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the relative acceleration of two bodies in contact per unit of force for every law [1/kg], [B, laws].

        The first is that of normal forces, the second that of friction. Of each group, the body of least mass counts.
        """
        return self._cached(("compliance", "pairs"), lambda: pair_compliances(self.compiled))

    def initial_speed(self) -> float:
        """Returns the largest initial speed of the body's nodes [m/s]."""
        nodes = slice(*self.compiled.topology.ranges["node", self.owner])
        return float(self.compiled.state("node.v")[:, nodes].norm(dim=-1).max())

    def topology_constant(self, function: Callable[[Topology], V]) -> V:
        """Returns a function of the topology, computed once."""
        topology = self.compiled.topology
        return topology.constant(function, lambda: function(topology))

    largest = staticmethod(largest_entry)

    def _cached(self, key: Any, build: Callable[[], V]) -> V:
        return self.compiled.batcher.cached(("stability", key), build)


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
    points, reach = flat_and_reach(compiled, body)
    weakest = compiled.batcher.cached(("weakest contact", body), partial(_weakest_contact, compiled, body))
    gx, gy, gz = rows[GRAVITY], rows[GRAVITY + 1], rows[GRAVITY + 2]
    weight = largest_entry((gx * gx + gy * gy + gz * gz) ** 0.5 / rows[RIGID.inverse_mass])
    depth = weight / (weakest * points) if weakest > 0.0 else math.inf  # no contact force
    return depth, 2.0 * reach


def stable_substeps(scene: Scene, fps: float, integrator: Integrator) -> int:
    """Returns the physics steps per frame that stability requires, with a safety factor; at least 8."""
    return max(MIN_SUBSTEPS, math.ceil(SAFETY_FACTOR / (fps * stable_dt(scene, integrator))))
