"""Friction laws of contact; `simulate/forces/contact_law.py` and `simulate/forces/sticking.py` define them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gradsim.scene.errors import OutOfRange, WrongType


@dataclass(frozen=True)
class Sticking:
    """Friction that holds: contact points stick to the surface until friction reaches mu times the normal force.

    A spring ties every point in contact to an anchor on the surface. The anchor slides when friction saturates, and
    is dropped when the point leaves the surface. A body at rest below the friction angle does not creep.

    Example:
        `gs.Ground(mu=0.6, friction=gs.Sticking())`

    Args:
        stiffness: Stiffness of the spring relative to `ke`.
        damping: Damping of slip, as a fraction of the velocity of the mass on a point that it removes in a time step.
    """

    stiffness: float = 0.4
    damping: float = 0.2

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise WrongType(f"Sticking.{name}", repr(value), "must be a number")
            if not 0.0 < value <= 1.0:
                raise OutOfRange(f"Sticking.{name}", value, "must be > 0 and <= 1")


@dataclass(frozen=True)
class Regularized:
    """Viscous friction at low slip velocity u, kf u, which smoothly approaches mu times the normal force.

    Its gradients are smoother than those of `Sticking`. A body on a slope creeps.

    Example:
        `gs.Ground(friction=gs.Regularized())`
    """


Friction: TypeAlias = Sticking | Regularized
