"""Links of articulated bodies as rigid bodies, as which they touch static shapes and other bodies.

The origin of such a body is that of its link. Its state follows from the joints, and its forces act on them.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.ball import Ball
from gradsim.scene.joints import Fixed
from gradsim.scene.meshes import TriMesh
from gradsim.scene.rigid import Rigid
from gradsim.scene.surfaces import box
from gradsim.scene.validation import validate_quantities

ORIGIN = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class LinkBody(Rigid, abstract=True):
    """A link in contact, or one that a force acts on. Its mesh has the axes of the link."""

    owner: Articulated | None = None
    link: str = ""
    collides: bool = True

    def __post_init__(self) -> None:
        """Converts the quantities; the articulated body is checked already."""
        validate_quantities(self, self.name)


@dataclass(frozen=True, eq=False)
class LinkBall(LinkBody, Ball, abstract=True):
    """A link in contact whose mesh is a sphere about its origin."""


def link_bodies(owner: Articulated, named: Container[str]) -> Iterator[LinkBody]:
    """Yields the links of an articulated body that collide, feel drag or are among those named, as rigid bodies."""
    for name, link in owner.links.items():
        full_name = f"{owner.name}/{name}"
        if not link.collides and link.drag is None and full_name not in named:
            continue
        mesh: Any = link.mesh if link.collides else _no_shape()
        given: dict[str, Any] = {"name": full_name, "contact": link.contact, "owner": owner, "collides": link.collides}
        given["drag"] = link.drag
        radius = _ball_radius(mesh)
        if radius is None:
            yield LinkBody(mesh=mesh, link=name, mass=1.0, center=ORIGIN, **given)
        else:
            yield LinkBall(mesh=mesh, radius=radius, link=name, mass=1.0, center=ORIGIN, **given)


@functools.cache
def _no_shape() -> TriMesh:
    """Returns the mesh of links that do not collide."""
    return box(1.0)


def _ball_radius(mesh: TriMesh) -> float | None:
    """Returns the radius of a sphere about the origin [m], None for other meshes."""
    call = mesh.builder_call
    return float(call.arguments["radius"]) if call is not None and call.builder == "icosphere" else None


def welded(owner: Articulated) -> dict[str, str]:
    """Returns for each link the first of those that fixed joints connect it to; '' for links of a base that stands."""
    found: dict[str, str] = {}
    for name, link in owner.links.items():
        base = "" if link.parent is None else found[link.parent]
        found[name] = base if isinstance(link.joint, Fixed) else name
    return found


def can_collide(first: Any, second: Any) -> bool:
    """Returns whether two bodies may touch: not links of one rigid piece, nor of two pieces that a joint connects."""
    links = [body for body in (first, second) if isinstance(body, LinkBody)]
    if not all(link.collides for link in links):
        return False
    if len(links) < 2 or first.owner is not second.owner:
        return True
    owner: Any = first.owner
    pieces = welded(owner)
    one, other = pieces[first.link], pieces[second.link]
    return one != other and _parent_piece(owner, pieces, one) != other and _parent_piece(owner, pieces, other) != one


def _parent_piece(owner: Articulated, pieces: dict[str, str], piece: str) -> str | None:
    """Returns the piece that carries another one; None for the base."""
    if not piece:
        return None
    parent = owner.links[piece].parent
    return "" if parent is None else pieces[parent]


def piece_links(owner: Articulated, link: str) -> list[Link]:
    """Returns the links of the rigid piece that a link is part of."""
    pieces = welded(owner)
    return [own for name, own in owner.links.items() if pieces[name] == pieces[link]]
