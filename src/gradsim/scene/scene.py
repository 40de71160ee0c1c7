"""The scene: bodies, the ground they may touch, gravity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradsim.scene.bodies import Body, Cloth, Soft, Springs, node_count
from gradsim.scene.errors import InvalidInput, UnknownName, WrongType
from gradsim.scene.materials import Ground
from gradsim.scene.quantity import Quantity, Spec, quantities, quantity, validate_quantities


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything there is, before it moves.

    Args:
        bodies: `Soft`, `Cloth` and `Springs`, each with a name of its own.
        ground: A plane to touch, or None.
        gravity: Acceleration [m/s^2], [..., 3].
    """

    bodies: Sequence[Body]
    ground: Ground | None = None
    gravity: Quantity = quantity((0.0, -9.81, 0.0), "m/s^2", shape=(3,))

    def __post_init__(self) -> None:
        validate_quantities(self, "scene")
        if not isinstance(self.bodies, Sequence):
            raise WrongType("scene.bodies", type(self.bodies).__name__, "must be a list of bodies")
        object.__setattr__(self, "bodies", tuple(self.bodies))
        if not self.bodies:
            raise InvalidInput("scene.bodies", "()", "a scene needs at least one body")
        names: set[str] = set()
        for body in self.bodies:
            if not isinstance(body, (Soft, Cloth, Springs)):
                raise WrongType("scene.bodies", type(body).__name__, "must hold gs.Soft, gs.Cloth or gs.Springs")
            if body.name in names or body.name in ("scene", "ground"):
                raise InvalidInput("name", repr(body.name), "every body needs a name of its own")
            names.add(body.name)
        if self.ground is not None and not isinstance(self.ground, Ground):
            raise WrongType("scene.ground", type(self.ground).__name__, "must be a gs.Ground or None")

    def __getitem__(self, name: str) -> Body:
        for body in self.bodies:
            if body.name == name:
                return body
        raise UnknownName("body", repr(name), f"the scene has {', '.join(body.name for body in self.bodies)}")

    def quantities(self) -> Iterator[tuple[str, Any, Spec]]:
        """Path, value and specification of every quantity that is given, such as `beam.material.mu`."""
        parts: list[tuple[str, Any]] = [("scene", self)]
        if self.ground is not None:
            parts.append(("ground", self.ground))
        for body in self.bodies:
            parts.append((body.name, body))
            for part in ("material", "bending", "contact"):
                if getattr(body, part, None) is not None:
                    parts.append((f"{body.name}.{part}", getattr(body, part)))
            points = body.points if isinstance(body, Springs) else body.vertices
            if points is not None:
                name = "points" if isinstance(body, Springs) else "vertices"
                yield f"{body.name}.{name}", points, Spec("m", shape=(node_count(body), 3))
        for label, part in parts:
            for name, spec in quantities(part):
                value = getattr(part, name)
                if value is not None:
                    yield f"{label}.{name}", value, spec
