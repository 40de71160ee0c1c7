"""Base classes of bodies. A body kind is a frozen dataclass derived from `Body`; `Body.kinds` lists all of them."""

from __future__ import annotations

from typing import Any, ClassVar


class Body:
    """Base of all bodies. Scenes and scene files accept every kind."""

    kinds: ClassVar[list[type[Body]]] = []
    name: str
    look: Any

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if not abstract:
            Body.kinds.append(cls)


class NodeBody(Body, abstract=True):
    """Base of bodies made of nodes: external forces, contact and forces on nodes act on every kind."""
