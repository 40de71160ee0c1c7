"""Links of articulated bodies in contact, as rigid bodies whose states follow from the joints.

A link presents position, rotation, velocity and angular velocity at its origin to the forces on rigid bodies, as a body
of unit inertia whose centre of mass is there. The forces and torques that it receives act in the articulated-body
algorithm. So everything that acts on rigid bodies acts on links, with the same adjoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradsim.native.structures import Rows
from gradsim.scene.articulated import Articulated
from gradsim.scene.link_bodies import LinkBody
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements, ParameterFamily
from gradsim.simulate.state.articulated import alignments

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology

ROWS = Rows("link", "align_x", "align_y", "align_z", "align_w")  # turns the z axis to the axis of the link's joint


def link_element(owner: Articulated, link: str) -> int:
    """Returns the number of the joint that carries a link."""
    return next(k for k, element in enumerate(owner.elements) if element.carries and element.link == link)


def link_elements(body: LinkBody, place: Placement) -> Elements:
    """Returns the joint that carries the link, and the rigid body that it is in contact."""
    owner: Any = body.owner
    joint = place.first("joint", owner) + link_element(owner, body.link)
    numbers = {"joints": joint, "bodies": place.first("rigid", body)}
    return Elements(1, {name: np.array([number], dtype=np.int32) for name, number in numbers.items()})


def link_columns(body: LinkBody, scene: Scene, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
    owner: Any = body.owner
    own = alignments(owner, batcher)[:, link_element(owner, body.link)]
    return own.expand(batcher.world_count, -1)[..., None]


LINKS = ParameterFamily(
    name="link",
    rows=ROWS,
    owners=(LinkBody,),
    elements=link_elements,
    columns=link_columns,
    key=lambda body: link_element(body.owner, body.link),
)
