"""Pendula: angles and angular rates of one or two links."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from gradsim.scene.pendula import AnyPendulum, DoublePendulum, Pendulum, skeleton
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import PendulumMotion
from gradsim.simulate.forces.family import Elements
from gradsim.simulate.state.kernels.pendulum import ROWS, pendulum_kernels
from gradsim.simulate.state.part import StatePart

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.compiled_scene import CompiledScene
    from gradsim.simulate.compile.topology import Topology


def link_values(body: AnyPendulum, name: str, batcher: SceneBatcher) -> torch.Tensor:
    """Returns a quantity of both links, [B, 1, 2]; a missing second link has ones."""
    links = [batcher(link[name], 1) for link in body.links()]
    return torch.stack([links[0], links[1] if len(links) == 2 else torch.ones_like(links[0])], -1)


def pendulum_columns(body: AnyPendulum, scene: Scene, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    """Returns the rows of the kernels, [B, rows, 1]."""
    pairs = [link_values(body, name, batcher) for name in ("length", "mass", "rod_mass", "damping", "drag")]
    return torch.cat([*pairs, batcher(scene.gravity, 1, (3,))[..., :2]], -1).transpose(1, 2)


def initial_angles(body: AnyPendulum, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    return link_values(body, "angle", batcher)


def initial_rates(body: AnyPendulum, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    return link_values(body, "rate", batcher)


def pendulum_motion(
    body: AnyPendulum, compiled: CompiledScene, states: dict[str, torch.Tensor]
) -> Callable[[], PendulumMotion]:
    """Returns a function for the motion of a pendulum."""
    index = compiled.topology.ranges["pendulum", body.name][0]
    links, batcher = body.links(), compiled.batcher
    angle, rate = (states[name][..., index, : len(links)] for name in PENDULA.state_names)  # [..., T, links]
    # stack and clone copy, because the scene's arrays may change in place
    lengths = torch.stack([batcher(link["length"], 1).view(*compiled.batch, 1) for link in links], -1)
    pivot = batcher(body.pivot, 1, (3,)).view(*compiled.batch, 1, 3).clone()
    motion = PendulumMotion(angle, rate, lengths, pivot, skeleton(body))
    return lambda: motion


PENDULA = StatePart(
    name="pendulum",
    rows=ROWS,
    owners=(Pendulum, DoublePendulum),
    elements=lambda body, place: Elements(1, {"links": np.array([len(body.links())], dtype=np.int32)}),
    columns=pendulum_columns,
    key=lambda body: (body.bob, body.rod),
    states={"angle": 2, "rate": 2},
    forces={},
    initial={"angle": initial_angles, "rate": initial_rates},
    motion=pendulum_motion,
    kernels=pendulum_kernels,
    whole_steps=True,
)
