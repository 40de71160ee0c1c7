"""Anchors of sticking friction: a vector for every pair of a contact point and a static shape; see `sticking.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gradsim.native.structures import Rows
from gradsim.scene.bodies import contact_of, node_count
from gradsim.scene.body import NodeBody
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements
from gradsim.simulate.state.kernels.anchors import anchor_kernels
from gradsim.simulate.state.part import StatePart

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology


def sticks(body: Any, scene: Scene) -> bool:
    """Returns whether the friction of a body with some static shape is sticking."""
    return any(contact_of(body, name, shape).sticks for name, shape in scene.obstacles.items())


def some_node_sticks(body: Any, scene: Scene) -> bool:
    """Returns whether some body made of nodes sticks: then all of them have anchors, one for each contact pair."""
    return any(isinstance(other, NodeBody) and sticks(other, scene) for other in scene.bodies)


def rigid_anchor_elements(body: Rigid, place: Placement) -> Elements:
    return Elements(len(body.contact_points) * len(place.scene.obstacles))


def node_anchor_elements(body: Any, place: Placement) -> Elements:
    return Elements(node_count(body) * len(place.scene.obstacles))


def _anchors(name: str, owner: type, elements: Any, present: Any) -> StatePart:
    def no_parameters(body: Any, scene: Scene, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
        first, end = topology.ranges[name, body.name]
        return torch.zeros(batcher.world_count, 0, end - first, dtype=batcher.dtype, device=batcher.device)

    def initial(body: Any, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
        first, end = topology.ranges[name, body.name]
        return torch.zeros(batcher.world_count, end - first, 3, dtype=batcher.dtype, device=batcher.device)

    return StatePart(
        name=name,
        rows=Rows(name),
        owners=(owner,),
        elements=elements,
        columns=no_parameters,
        present=present,
        states={"xi": 3},
        forces={"next": 3},
        initial={"xi": initial},
        kernels=anchor_kernels,
        starts_at_zero=True,
    )


# The anchors of a rigid body are ordered by shape, then by contact point; those of nodes are the pairs of node contact.
RIGID_ANCHORS = _anchors("rigid_anchor", Rigid, rigid_anchor_elements, sticks)
NODE_ANCHORS = _anchors("node_anchor", NodeBody, node_anchor_elements, some_node_sticks)
