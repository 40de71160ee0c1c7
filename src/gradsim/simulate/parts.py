"""The parts a world's state is made of: nodes, rigid bodies, pendula."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Names and widths of one part's state, and of the forces that are gathered for it."""

    states: dict[str, int]
    forces: dict[str, int]

    @property
    def width(self) -> int:
        """Scalars of state and force together."""
        return sum(self.states.values()) + sum(self.forces.values())


PARTS = {
    "node": Part({"x": 3, "v": 3}, {"f": 3}),
    "rigid": Part({"p": 3, "q": 4, "v": 3, "l": 3}, {"f": 3, "t": 3}),
    "pendulum": Part({"angle": 2, "rate": 2}, {}),
}
