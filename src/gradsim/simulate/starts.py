"""Where a rollout starts: the scene's own states, or those of another trajectory, as flat, batched tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradsim.scene.bodies import NodeBody, Springs
from gradsim.scene.errors import WrongShape
from gradsim.scene.pendula import AnyPendulum, DoublePendulum, Pendulum
from gradsim.scene.quantity import Each, is_each
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State
from gradsim.simulate.flatten import Flattener
from gradsim.simulate.parts import PARTS
from gradsim.simulate.topology import Topology, is_zero, node_bodies


def start_states(scene: Scene, topology: Topology, flatten: Flattener) -> dict[str, torch.Tensor]:
    """The scene's own start, by part and name."""
    states: dict[str, torch.Tensor] = {}
    nodes = node_bodies(scene)
    if nodes:
        counts = {body.name: topology.spans[body.name][1] - topology.spans[body.name][0] for body in nodes}
        states["node.x"] = flatten.join([_positions(body, topology, flatten) for body in nodes], 1)
        states["node.v"] = flatten.join([flatten(body.velocity, counts[body.name], (3,)) for body in nodes], 1)
    bodies = [body for body in scene.bodies if isinstance(body, Rigid)]
    if bodies:
        turned = [(body, _rotation(body.rotation, flatten)) for body in bodies]
        states["rigid.p"] = flatten.join([_center(body, q, flatten) for body, q in turned], 1)
        states["rigid.q"] = flatten.join([q for _, q in turned], 1)
        states["rigid.v"] = flatten.join([flatten(body.velocity, 1, (3,)) for body in bodies], 1)
        states["rigid.l"] = flatten.join([_angular_momentum(body, q, flatten) for body, q in turned], 1)
    pendula = [body for body in scene.bodies if isinstance(body, (Pendulum, DoublePendulum))]
    if pendula:
        states["pendulum.angle"] = flatten.join([link_values(body, "angle", flatten) for body in pendula], 1)
        states["pendulum.rate"] = flatten.join([link_values(body, "rate", flatten) for body in pendula], 1)
    return states


def continued_states(start: State, topology: Topology, flatten: Flattener) -> dict[str, torch.Tensor]:
    states: dict[str, torch.Tensor] = {}
    for part, count in topology.parts.items():
        for name, width in PARTS[part].states.items():
            label = {"node.x": "vertices", "node.v": "velocities"}.get(f"{part}.{name}", f"{part}.{name}")
            value = start.values().get(f"{part}.{name}")
            if value is None or value.shape[-2:] != (count, width):
                got = "nothing" if value is None else f"shape {tuple(value.shape)}"
                raise WrongShape(f"start.{label}", got, f"the scene needs shape [..., {count}, {width}]")
            states[f"{part}.{name}"] = flatten(Each(value), count, (width,))
    return states


def _positions(body: NodeBody, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """Start positions of a body's nodes, [B, N, 3]."""
    points, rotation = (body.points, None) if isinstance(body, Springs) else (body.vertices, body.rotation)
    first, end = topology.spans[body.name]

    def build() -> torch.Tensor:
        rest = topology.tensor("node.rest", flatten.dtype, flatten.device)[first:end] if points is None else points
        x = flatten(Each(rest), end - first, (3,))
        if rotation is not None:
            x = rotate(_rotation(rotation, flatten), x)
        return x + flatten(body.position, 1, (3,))

    return flatten.remember(("positions", topology, body.name), (points, rotation, body.position), build)


def _rotation(rotation: Any, flatten: Flattener) -> torch.Tensor:
    """A unit quaternion, [B, 1, 4]."""

    def build() -> torch.Tensor:
        q = flatten(np.array([0.0, 0.0, 0.0, 1.0]) if rotation is None else rotation, 1, (4,))
        return q / q.norm(dim=-1, keepdim=True)

    return flatten.remember("rotation", (rotation,), build)


def _center(body: Rigid, q: torch.Tensor, flatten: Flattener) -> torch.Tensor:
    """Where a body's centre of mass starts, [B, 1, 3]."""

    def build() -> torch.Tensor:
        center = flatten(flatten.mass_properties(body).center, 1, (3,))
        return flatten(body.position, 1, (3,)) + rotate(q, center)

    masses = body.mass if is_each(body.mass) else None  # what fills a body evenly does not move its centre
    return flatten.remember(("center", body.mesh.key), (body.position, body.rotation, body.center, masses), build)


def _angular_momentum(body: Rigid, q: torch.Tensor, flatten: Flattener) -> torch.Tensor:
    """A body's at the start, about its centre of mass, [B, 1, 3]."""
    if is_zero(body.angular_velocity):
        return flatten(np.zeros(3), 1, (3,))
    inertia = flatten(flatten.mass_properties(body).inertia, 1, (3, 3))
    spin = flatten(body.angular_velocity, 1, (3,))
    return rotate(q, (inertia @ rotate(q, spin, back=True)[..., None])[..., 0])


def link_values(body: AnyPendulum, name: str, flatten: Flattener) -> torch.Tensor:
    """A quantity of both links, [B, 1, 2]; one is made up where there is a single link."""
    links = [flatten(link[name], 1) for link in body.links()]
    return torch.stack([links[0], links[1] if len(links) == 2 else torch.ones_like(links[0])], -1)
