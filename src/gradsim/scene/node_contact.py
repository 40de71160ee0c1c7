"""Contact of the nodes and faces of a body with a moving rigid body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.forces import Force
from gradsim.scene.quantity import Quantity, quantity, to_numpy
from gradsim.scene.rigid import Rigid

if TYPE_CHECKING:
    from gradsim.scene.scene import Scene

ROUNDING = 0.05  # default radius of a box's edges, as a fraction of its shortest edge


@dataclass(frozen=True, eq=False)
class NodeContact(Force):
    """Contact of a soft body or cloth with a rigid ball or box that moves, both ways.

    The nodes of the surface, and the centres of its faces so that corners of a box do not poke through, are contact
    points. The force on a point follows the law of `gs.Contact`, and the opposite force acts on the rigid body at the
    same place, so that momentum and angular momentum are conserved. Stiffness and damping are given per node; where
    faces count, a node has half of them and the faces around it the other half.

    Example:
        `gs.Scene([sheet, ball], forces=[gs.NodeContact("touch", body="sheet", rigid="ball")])`

    Args:
        name: Identifier, the first part of its parameters' paths.
        body: Name of the `Soft` or `Cloth` body.
        rigid: Name of the `Ball`, or of the `Rigid` body whose mesh is a box.
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
        if isinstance(rigid, Ball):
            if self.rounding is not None:
                raise InvalidInput(
                    f"{self.name}.rounding", "a radius", f"'{rigid.name}' is a ball: only boxes have edges"
                )
            return
        if box_of(rigid) is None:
            remedy = "must be a gs.Ball, or a gs.Rigid whose mesh is an upright box such as gs.meshes.box"
            raise InvalidInput(f"{self.name}.rigid", f"'{rigid.name}', another shape", remedy)
        rounding, shortest = to_numpy(self.rounding), shortest_edge(rigid)
        if rounding is not None and rounding.max() >= 0.5 * shortest:
            valid = f"must be less than half of the box's shortest edge, {0.5 * shortest:g} m"
            raise OutOfRange(f"{self.name}.rounding", float(rounding.max()), valid)

    def body_of(self, scene: Scene) -> Any:
        """Returns the body of the nodes."""
        return self.find_body(scene, "body", self.body, (Soft, Cloth))

    def rigid_of(self, scene: Scene) -> Any:
        """Returns the rigid body."""
        return self.find_body(scene, "rigid", self.rigid, (Rigid,))


def box_of(rigid: Rigid) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns centre and extents of a mesh that is an upright box [m], [3] each; None if it is another mesh."""
    points = rigid.mesh.vertices
    low, high = points.min(0), points.max(0)
    extents = high - low
    on_corner = np.minimum(points - low, high - points) <= 1e-9 * extents.max()
    corners = np.unique((points - low > 0.5 * extents).astype(int), axis=0)
    a, b, c = (points[rigid.mesh.faces[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    upright = (np.abs(normals) > 1e-9 * np.abs(normals).max()).sum(1) <= 1
    if not on_corner.all() or len(corners) != 8 or not upright.all():
        return None
    return (low + high) / 2, extents


def shortest_edge(rigid: Rigid) -> float:
    """Returns the shortest edge of a box [m]; in the first world of a batch."""
    size = to_numpy(rigid.size)
    extents = np.ptp(rigid.mesh.vertices, axis=0) if size is None else size.reshape(-1, 3)[0]
    return float(extents.min())
