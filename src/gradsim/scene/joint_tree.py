"""The joints of an articulated body as a tree of hinges, sliders, balls and fixed connections.

A universal joint is two hinges, a free joint three sliders and a ball; the links between them have no mass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradsim.scene.joints import Fixed, Free, Prismatic, Revolute, Spherical, Universal

KINDS = ("revolute", "prismatic", "ball", "fixed")

EXPANSION: dict[type, tuple[str, ...]] = {
    Fixed: ("fixed",),
    Revolute: ("revolute",),
    Prismatic: ("prismatic",),
    Spherical: ("ball",),
    Universal: ("revolute", "revolute"),
    Free: ("prismatic", "prismatic", "prismatic", "ball"),
}


@dataclass(frozen=True)
class JointElement:
    """One joint of the expanded tree."""

    kind: str
    parent: int  # element; -1 for the base
    link: str  # link whose joint it is part of
    part: int  # number in that joint
    carries: bool  # whether it carries the link


def joint_elements(links: Mapping[str, Any]) -> tuple[JointElement, ...]:
    """Returns the expanded tree of links by name, parents first."""
    elements: list[JointElement] = []
    last: dict[str, int] = {}
    for name, link in links.items():
        parent = -1 if link.parent is None else last[link.parent]
        kinds = EXPANSION[type(link.joint)]
        for part, kind in enumerate(kinds):
            elements.append(JointElement(kind, parent, name, part, part == len(kinds) - 1))
            parent = len(elements) - 1
        last[name] = parent
    return tuple(elements)
