"""Compliant connections between points of rigid bodies and links; they close loops of links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradsim.scene.errors import InvalidInput, UnknownName
from gradsim.scene.forces import Force
from gradsim.scene.quantity import Quantity, quantity
from gradsim.scene.rigid import Rigid

if TYPE_CHECKING:
    from gradsim.scene.scene import Scene


@dataclass(frozen=True, eq=False)
class Connection(Force):
    """A stiff, damped spring that holds a point of one body at a point of another, as a ball joint would.

    It closes a loop of links, ties a link or a rigid body to the world, or joins two bodies. With d from the second
    point to the first, moving at u relative to each other, the force on the first body is -stiffness d - damping u;
    the opposite force acts on the second body at the same place.

    Example:
        `gs.Connection("pin", "linkage/coupler", "linkage/rocker", (0.4, 0.0, 0.0), (0.0, 0.3, 0.0), stiffness=1e5)`

    Args:
        name: Identifier, the first part of its parameters' paths.
        first: Name of a `Rigid` body, or of a link, as in `arm/hand`.
        second: The same; "" for the world.
        first_point: Point in the axes of the link or in the mesh coordinates of the body [m], [..., 3].
        second_point: Point of the second body, or of the world [m], [..., 3].
        stiffness: [N/m].
        damping: [N s/m].
    """

    first: str = ""
    second: str = ""
    first_point: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    second_point: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    stiffness: Quantity = quantity(1e4, "N/m", low=0.0)
    damping: Quantity = quantity(10.0, "N s/m", low=0.0)

    @property
    def body_names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.first, self.second) if isinstance(name, str) and name)

    def check(self, scene: Scene) -> None:
        for field in ("first", "second") if self.second else ("first",):
            self.body(scene, field)
        if self.first == self.second:
            raise InvalidInput(f"{self.name}.second", repr(self.second), "must be another body than first, or ''")

    def body(self, scene: Scene, field: str) -> Rigid:
        """Returns the body that a field names."""
        name: Any = getattr(self, field)
        found = next((body for body in scene.rigid_bodies if body.name == name), None)
        if found is None:
            links = (f"{body.name}/{link}" for body in scene.bodies for link in getattr(body, "links", ()))
            known = ", ".join([body.name for body in scene.bodies if isinstance(body, Rigid)] + list(links))
            remedy = f"must be a rigid body or a link: {known or 'there is none'}"
            raise UnknownName(f"{self.name}.{field}", repr(name), remedy)
        return found
