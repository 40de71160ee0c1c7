"""Anchors of sticking friction, see `sticking.py`: a vector for every contact point and every shape it may touch.

Points are nodes and contact points of rigid bodies, which touch static shapes, and samples of rigid bodies, which touch
other bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradsim.native.structures import Rows
from gradsim.scene.bodies import contact_of, node_count
from gradsim.scene.body import NodeBody
from gradsim.scene.errors import InvalidInput
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.colliders import KINDS, collider_shape
from gradsim.simulate.forces.family import Elements
from gradsim.simulate.forces.pair_laws import first_rigid, pair_laws, touching_pairs
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


MAX_PAIR_ANCHORS = 4_000_000  # of a world: each takes ten vectors of memory and one more per step of a gradient


def some_pair_sticks(body: Rigid, scene: Scene) -> bool:
    """Returns whether a body is the owner of the pairs, and the friction of some pair is sticking."""
    if not scene.has_pairs or body is not first_rigid(scene):
        return False
    return _names_sticking(scene) and bool(pair_laws(scene).sticks.any())


def _names_sticking(scene: Scene) -> bool:
    """Returns whether some contact parameters of rigid bodies or pairs have sticking friction."""
    own = [body.contact for body in scene.rigid_bodies if body.contact is not None]
    given = [*own, scene.pairs if isinstance(scene.pairs, Mapping) else {}]
    contacts = (item for own in given for item in (own.values() if isinstance(own, Mapping) else (own,)))
    return any(contact is not None and contact.sticks for contact in contacts)


def pair_anchor_key(scene: Scene) -> Any:
    laws = pair_laws(scene)
    return laws.key, laws.sticks.tobytes()


def pair_anchor_elements(body: Rigid, place: Placement) -> Elements:
    """Returns the anchors of all samples that may touch another body and stick to it.

    The array `firsts` [pairs, 2] has the first anchor of the samples of both bodies of every pair, -1 without.
    """
    scene = place.scene
    laws, bodies = pair_laws(scene), scene.rigid_bodies
    first, second, numbers = touching_pairs(laws.groups, laws.numbers)
    shapes = [collider_shape(body) for body in bodies]
    sizes = np.array([len(shape.samples) for shape in shapes])
    is_core = np.array([shape.kind == KINDS.core for shape in shapes])
    sticks = laws.sticks[numbers]
    # the one sample of a ball in a shape whose distance is known everywhere stands for both surfaces
    both = np.stack([first, second], 1)
    own, other = sizes[both], sizes[both[:, ::-1]]
    idle = (other == 1) & is_core[both]
    idle[:, 0] &= own[:, 0] > 1
    counts = np.where(sticks[:, None] & ~idle, own, 0)
    ends = counts.cumsum().reshape(-1, 2)
    total = int(ends[-1, -1]) if len(ends) else 0
    if total > MAX_PAIR_ANCHORS:
        remedy = (
            f"sticking friction between all of these bodies needs {total} anchors, at most {MAX_PAIR_ANCHORS} are"
            " possible: give gs.Regularized() friction to some bodies, or switch off pairs that never touch"
        )
        raise InvalidInput("Contact.friction", f"gs.Sticking() for {len(bodies)} bodies", remedy)
    return Elements(total, {"firsts": np.where(counts > 0, ends - counts, -1).astype(np.int32)})


def _anchors(name: str, owner: type, elements: Any, present: Any, **more: Any) -> StatePart:
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
        **more,
    )


# The anchors of a rigid body are ordered by shape, then by contact point; those of nodes are the pairs of node contact.
RIGID_ANCHORS = _anchors("rigid_anchor", Rigid, rigid_anchor_elements, sticks)
NODE_ANCHORS = _anchors("node_anchor", NodeBody, node_anchor_elements, some_node_sticks)
PAIR_ANCHORS = _anchors("pair_anchor", Rigid, pair_anchor_elements, some_pair_sticks, scene_key=pair_anchor_key)
