"""From the engine's states at the frames to the motions of bodies, differentiably."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradsim.scene.bodies import NodeBody
from gradsim.scene.pendula import AnyPendulum, DoublePendulum, Pendulum, skeleton
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Body, Scene
from gradsim.scene.smoke import Smoke, SmokeMotion
from gradsim.scene.trajectory import BodyMotion, Motions, PendulumMotion, RigidMotion
from gradsim.simulate.assemble import Assembly
from gradsim.simulate.flatten import Flattener

States = dict[str, torch.Tensor]  # [..., T, count, width]


def motions_of(scene: Scene, assembly: Assembly, states: States) -> Motions:
    """The motion of every body, by name."""
    return Motions({body.name: _maker(body, assembly, states) for body in scene.bodies})


def _maker(body: Body, assembly: Assembly, states: States) -> Callable[[], Any]:
    """What makes a body's motion, from nothing that may change until then."""
    if isinstance(body, Rigid):
        return lambda: _rigid_motion(body, assembly, states)
    if isinstance(body, Smoke):
        return lambda: _smoke_motion(body, states)
    if isinstance(body, (Pendulum, DoublePendulum)):
        motion = _pendulum_motion(body, assembly, states)
        return lambda: motion
    return lambda: _node_motion(body, assembly, states)


def _node_motion(body: NodeBody, assembly: Assembly, states: States) -> BodyMotion:
    first, end = assembly.topology.spans[body.name]
    return BodyMotion(*(states[f"node.{name}"][..., first:end, :] for name in "xv"))


def _smoke_motion(body: Smoke, states: States) -> SmokeMotion:
    flow = torch.stack([states[f"{body.name}.velocity_{axis}"] for axis in "xy"], -1)
    return SmokeMotion(states[f"{body.name}.density"], flow)


def _rigid_motion(body: Rigid, assembly: Assembly, states: States) -> RigidMotion:
    index = assembly.topology.ranges["rigid", body.name][0]
    p, q, v, momentum = (states[f"rigid.{name}"].select(-2, index) for name in ("p", "q", "v", "l"))
    column = assembly.tables["rigid"].select(2, index).view(*assembly.batch, 1, -1)
    points = assembly.pattern.fact(("points", body.name), (), _points, body, assembly)
    return RigidMotion(p, q, v, momentum, column, points)


def _points(body: Rigid, assembly: Assembly) -> torch.Tensor:
    with torch.inference_mode(False):  # a gradient may be asked for later
        return torch.tensor(body.mesh.vertices, dtype=assembly.dtype, device=assembly.device)


def _pendulum_motion(body: AnyPendulum, assembly: Assembly, states: States) -> PendulumMotion:
    index = assembly.topology.ranges["pendulum", body.name][0]
    links = len(body.links())
    angle, rate = (states[f"pendulum.{name}"][..., index, :links] for name in ("angle", "rate"))  # [..., T, links]
    flatten = Flattener(assembly.pattern)
    lengths = [flatten(link["length"], 1).view(*assembly.batch, 1) for link in body.links()]
    start = flatten(body.pivot, 1, (3,)).view(*assembly.batch, 1, 1, 3)
    speed = torch.zeros_like(start)
    seen = skeleton(body)
    vertices, velocities, bobs = [], [], []
    for k, length in enumerate(lengths):
        a, w = angle[..., k, None, None], rate[..., k, None, None]
        zero = torch.zeros_like(a)
        down = torch.cat([torch.sin(a), -torch.cos(a), zero], -1)  # along the rod
        side = torch.cat([torch.cos(a), torch.sin(a), zero], -1)  # where the bob goes
        rod = length[..., None, None]
        mine = seen.link == k
        offsets = torch.tensor(seen.offsets[mine], dtype=assembly.dtype, device=assembly.device)
        along = torch.tensor(seen.along[mine], dtype=assembly.dtype, device=assembly.device)[:, None]
        reach = along * rod - offsets[:, 1:2]
        depth = torch.nn.functional.pad(offsets[:, 2:], (2, 0))
        vertices.append(start + down * reach + side * offsets[:, :1] + depth)
        velocities.append(speed + w * (side * reach - down * offsets[:, :1]))
        start, speed = start + down * rod, speed + side * (w * rod)
        bobs.append(start)
    joined = (torch.cat(vertices, -2), torch.cat(velocities, -2))
    return PendulumMotion(*joined, angle[..., None], rate[..., None], torch.cat(bobs, -2))
