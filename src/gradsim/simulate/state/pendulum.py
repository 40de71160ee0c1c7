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
    """Returns lengths, masses, damping and gravity, [B, rows, 1]."""
    pairs = [link_values(body, name, batcher) for name in ("length", "mass", "damping")]
    return torch.cat([*pairs, batcher(scene.gravity, 1, (3,))[..., :2]], -1).transpose(1, 2)


def initial_angles(body: AnyPendulum, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    return link_values(body, "angle", batcher)


def initial_rates(body: AnyPendulum, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    return link_values(body, "rate", batcher)


def pendulum_motion(
    body: AnyPendulum, compiled: CompiledScene, states: dict[str, torch.Tensor]
) -> Callable[[], PendulumMotion]:
    """Returns a function for the motion of a pendulum."""
    motion = _motion(body, compiled, states)  # computed now because the scene's arrays may change in place
    return lambda: motion


def _motion(body: AnyPendulum, compiled: CompiledScene, states: dict[str, torch.Tensor]) -> PendulumMotion:
    index = compiled.topology.ranges["pendulum", body.name][0]
    links, batcher = len(body.links()), compiled.batcher
    angle, rate = (states[name][..., index, :links] for name in PENDULA.state_names)  # [..., T, links]
    lengths = [batcher(link["length"], 1).view(*compiled.batch, 1) for link in body.links()]
    start = batcher(body.pivot, 1, (3,)).view(*compiled.batch, 1, 1, 3)
    speed = torch.zeros_like(start)
    shape = skeleton(body)
    vertices, velocities, bobs = [], [], []
    for k, length in enumerate(lengths):
        a, w = angle[..., k, None, None], rate[..., k, None, None]
        zero = torch.zeros_like(a)
        down = torch.cat([torch.sin(a), -torch.cos(a), zero], -1)  # along the rod
        side = torch.cat([torch.cos(a), torch.sin(a), zero], -1)  # direction of the bob's velocity
        rod, own = length[..., None, None], shape.link == k
        offsets, along = batcher.tensor(shape.offsets[own]), batcher.tensor(shape.along[own])[:, None]
        reach = along * rod - offsets[:, 1:2]
        depth = torch.nn.functional.pad(offsets[:, 2:], (2, 0))
        vertices.append(start + down * reach + side * offsets[:, :1] + depth)
        velocities.append(speed + w * (side * reach - down * offsets[:, :1]))
        start, speed = start + down * rod, speed + side * (w * rod)
        bobs.append(start)
    joined = (torch.cat(vertices, -2), torch.cat(velocities, -2))
    return PendulumMotion(*joined, angle[..., None], rate[..., None], torch.cat(bobs, -2))


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
