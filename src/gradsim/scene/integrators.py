"""Ways to step through time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class SymplecticEuler:
    """v += dt a(x, v), then x += dt v: first order, one evaluation of the forces a step, the seed's integrator."""

    order: ClassVar[int] = 1
    evaluations: ClassVar[int] = 1


@dataclass(frozen=True)
class Midpoint:
    """Explicit midpoint: second order, two evaluations of the forces a step.

    Undamped oscillations grow by (w dt)^4 / 8 a step, so it wants smaller steps for stiff, undamped bodies.
    """

    order: ClassVar[int] = 2
    evaluations: ClassVar[int] = 2


Integrator: TypeAlias = SymplecticEuler | Midpoint
