"""Where a rollout starts: the scene's own states, or those of another trajectory, as flat, batched tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradsim.scene.bodies import NodeBody, Springs
from gradsim.scene.errors import WrongShape
from gradsim.scene.pendula import AnyPendulum
from gradsim.scene.quantity import PerElement, is_per_element
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State
from gradsim.simulate.flatten import Flattener
from gradsim.simulate.parts import PARTS
from gradsim.simulate.topology import Topology, is_zero


def start_state(name: str, scene: Scene, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """A state of the scene's own start, such as "node.x", [B, count, width]."""
    part = name.partition(".")[0]
    pieces = [_STARTS[name](body, topology, flatten) for body in scene.bodies if (part, body.name) in topology.ranges]
    state = flatten.join(pieces, 1)
    return state if name != "node.v" else freed(state, topology)


def freed(velocities: torch.Tensor, topology: Topology) -> torch.Tensor:
    """Velocities of nodes [B, N, 3], with those of pinned ones at zero."""
    return velocities * topology.tensor("node.free", velocities.dtype, velocities.device)[:, None]


def continued_states(start: State, topology: Topology, flatten: Flattener) -> dict[str, torch.Tensor]:
    states: dict[str, torch.Tensor] = {}
    for part, count in topology.parts.items():
        for name, width in PARTS[part].states.items():
            label = {"node.x": "vertices", "node.v": "velocities"}.get(f"{part}.{name}", f"{part}.{name}")
            value = start.values().get(f"{part}.{name}")
            if value is None or value.shape[-2:] != (count, width):
                got = "nothing" if value is None else f"shape {tuple(value.shape)}"
                raise WrongShape(f"start.{label}", got, f"the scene needs shape [..., {count}, {width}]")
            state = flatten(PerElement(value), count, (width,))
            states[f"{part}.{name}"] = state if label != "velocities" else freed(state, topology)
    return states


def _positions(body: NodeBody, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """Start positions of a body's nodes, [B, N, 3]."""
    points, rotation = (body.points, None) if isinstance(body, Springs) else (body.vertices, body.rotation)
    first, end = topology.spans[body.name]

    def build() -> torch.Tensor:
        rest = topology.tensor("node.rest", flatten.dtype, flatten.device)[first:end] if points is None else points
        x = flatten(PerElement(rest), end - first, (3,))
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


def _velocities(body: NodeBody, topology: Topology, flatten: Flattener) -> torch.Tensor:
    first, end = topology.spans[body.name]
    return flatten(body.velocity, end - first, (3,))


def _center(body: Rigid, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """Where a body's centre of mass starts, [B, 1, 3]."""

    def build() -> torch.Tensor:
        center = flatten(flatten.mass_properties(body).center, 1, (3,))
        return flatten(body.position, 1, (3,)) + rotate(_rotation(body.rotation, flatten), center)

    masses = body.mass if is_per_element(body.mass) else None  # what fills a body evenly does not move its centre
    return flatten.remember(("center", body.mesh.key), (body.position, body.rotation, body.center, masses), build)


def _turn(body: Rigid, topology: Topology, flatten: Flattener) -> torch.Tensor:
    return _rotation(body.rotation, flatten)


def _velocity(body: Rigid, topology: Topology, flatten: Flattener) -> torch.Tensor:
    return flatten(body.velocity, 1, (3,))


def _angular_momentum(body: Rigid, topology: Topology, flatten: Flattener) -> torch.Tensor:
    """A body's at the start, about its centre of mass, [B, 1, 3]."""
    if is_zero(body.angular_velocity):
        return flatten(np.zeros(3), 1, (3,))

    def build() -> torch.Tensor:
        q, spin = _rotation(body.rotation, flatten), flatten(body.angular_velocity, 1, (3,))
        inertia = flatten(flatten.mass_properties(body).inertia, 1, (3, 3))
        return rotate(q, (inertia @ rotate(q, spin, back=True)[..., None])[..., 0])

    masses = (body.density, body.mass, body.inertia, body.center)
    return flatten.remember(("spin", body.mesh.key), (body.angular_velocity, body.rotation, *masses), build)


def link_values(body: AnyPendulum, name: str, flatten: Flattener) -> torch.Tensor:
    """A quantity of both links, [B, 1, 2]; one is made up where there is a single link."""
    links = [flatten(link[name], 1) for link in body.links()]
    return torch.stack([links[0], links[1] if len(links) == 2 else torch.ones_like(links[0])], -1)


def _angles(body: AnyPendulum, topology: Topology, flatten: Flattener) -> torch.Tensor:
    return link_values(body, "angle", flatten)


def _rates(body: AnyPendulum, topology: Topology, flatten: Flattener) -> torch.Tensor:
    return link_values(body, "rate", flatten)


_STARTS: dict[str, Callable[[Any, Topology, Flattener], torch.Tensor]] = {
    "node.x": _positions,
    "node.v": _velocities,
    "rigid.p": _center,
    "rigid.q": _turn,
    "rigid.v": _velocity,
    "rigid.l": _angular_momentum,
    "pendulum.angle": _angles,
    "pendulum.rate": _rates,
}
