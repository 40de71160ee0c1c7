"""Contact of the nodes and faces of a body with a moving rigid body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.closed_surfaces import is_box
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.forces import Force
from gradsim.scene.quantity import Quantity, quantity, to_numpy
from gradsim.scene.rigid import Rigid

if TYPE_CHECKING:
    from gradsim.scene.scene import Scene

MESH_REACH = 0.3  # of a mesh's longest side: its distance is known up to here outside the bounding box


@dataclass(frozen=True, eq=False)
class NodeContact(Force):
    """Contact of a soft body or cloth with a rigid body that moves, both ways.

    The nodes of the surface, and the centres of its faces so that corners of a box do not poke through, are contact
    points. The rigid body has the shape that other rigid bodies touch: a ball, box or capsule, or any closed mesh. The
    force on a point follows the law of `gs.Contact`, and its opposite acts on the rigid body at the same place, so
    that momentum and angular momentum are conserved. Stiffness and damping are given per node; where faces count, a
    node has half of them and the faces around it the other half.

    Example:
        `gs.Scene([sheet, ball], forces=[gs.NodeContact("touch", body="sheet", rigid="ball")])`

    Args:
        name: Identifier, the first part of its parameters' paths.
        body: Name of the `Soft` or `Cloth` body.
        rigid: Name of the `Ball` or `Rigid` body.
        ke: Stiffness [N/m].
        kd: Damping [N s/m].
        kf: Friction damping [N s/m].
        mu: Coefficient of friction.
        delta: Depth over which stiffness and damping increase to their full values [m]; 0.5 % of the rigid body's size
            if None.
        thickness: Distance from the rigid body's surface at which contact begins [m], such as half a cloth's thickness.
        rounding: Radius of the edges and corners of a box [m], inside its faces; 5 % of its shortest edge if None.
        faces: Whether the centres of faces are contact points.
    """

    body: str = ""
    rigid: str = ""
    ke: Quantity = quantity(1e3, "N/m", low=0.0)
    kd: Quantity = quantity(0.1, "N s/m", low=0.0)
    kf: Quantity = quantity(1.0, "N s/m", low=0.0)
    mu: Quantity = quantity(0.5, "1", low=0.0)
    delta: Quantity | None = quantity(None, "m", low=0.0)
    thickness: Quantity = quantity(0.0, "m", low=0.0)
    rounding: Quantity | None = quantity(None, "m", low=0.0)
    faces: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.faces, bool):
            raise WrongType(f"{self.name}.faces", repr(self.faces), "must be True or False")

    def check(self, scene: Scene) -> None:
        self.body_of(scene)
        rigid = self.rigid_of(scene)
        if isinstance(rigid, Ball) or not is_box(rigid.mesh):
            if self.rounding is not None:
                remedy = f"'{rigid.name}' is no box: only the edges of boxes are rounded"
                raise InvalidInput(f"{self.name}.rounding", "a radius", remedy)
            self._check_thickness(rigid)
            return
        rounding, shortest = to_numpy(self.rounding), shortest_edge(rigid)
        if rounding is not None and rounding.max() >= 0.5 * shortest:
            valid = f"must be less than half of the box's shortest edge, {0.5 * shortest:g} m"
            raise OutOfRange(f"{self.name}.rounding", float(rounding.max()), valid)

    def _check_thickness(self, rigid: Rigid) -> None:
        """Raises OutOfRange if contact would begin where the distance from a mesh is not known."""
        thickness, reach = to_numpy(self.thickness), MESH_REACH * shortest_edge(rigid)
        if not isinstance(rigid, Ball) and thickness is not None and thickness.max() >= reach:
            valid = f"must be less than {MESH_REACH} of the shortest side of '{rigid.name}', {reach:g} m"
            raise OutOfRange(f"{self.name}.thickness", float(thickness.max()), valid)

    def body_of(self, scene: Scene) -> Any:
        """Returns the body of the nodes."""
        return self.find_body(scene, "body", self.body, (Soft, Cloth))

    def rigid_of(self, scene: Scene) -> Any:
        """Returns the rigid body."""
        return self.find_body(scene, "rigid", self.rigid, (Rigid,))


def shortest_edge(rigid: Rigid) -> float:
    """Returns the shortest side of a rigid body's bounding box [m]; in the first world of a batch."""
    size = to_numpy(rigid.size)
    extents = np.ptp(rigid.mesh.vertices, axis=0) if size is None else size.reshape(-1, 3)[0]
    return float(extents.min())
