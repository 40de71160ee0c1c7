"""Further materials of solids: St. Venant-Kirchhoff, standard neo-Hookean, Mooney-Rivlin, and fibres in any of them."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from gradsim.scene.errors import InvalidInput, WrongShape
from gradsim.scene.materials import NeoHookean, YoungSolid, elastic_constants
from gradsim.scene.quantity import Quantity, is_unknown, quantity
from gradsim.scene.validation import has_zero_vector, validate_quantities

M = TypeVar("M", bound="_LameSolid")


@dataclass(frozen=True, eq=False)
class _LameSolid:
    """A solid with the Lamé parameters `mu` and `lam` at small strain, and damping of the strain rate."""

    mu: Quantity = quantity(1e5, "Pa", above=0.0, per="tet")
    lam: Quantity = quantity(1e5, "Pa", low=0.0, per="tet")
    damping: Quantity = quantity(0.0, "Pa s", low=0.0, per="tet")

    def __post_init__(self) -> None:
        validate_quantities(self, type(self).__name__)

    @classmethod
    def from_young(cls: type[M], young: Quantity, poisson: Quantity, damping: Quantity = 0.0) -> M:
        """Returns the solid with Young's modulus `young` [Pa] and Poisson's ratio `poisson` < 0.5 at small strain.

        Both are numbers or tensors; unknowns belong to `mu` and `lam`.
        """
        for name, value in (("young", young), ("poisson", poisson)):
            if is_unknown(value):
                raise InvalidInput(name, "an unknown", f"is not supported by {cls.__name__}: make mu and lam unknown")
        given = YoungSolid(young, poisson, damping)  # checks the values
        E, nu, wrap = elastic_constants(given.young, given.poisson)
        return cls(wrap(E / (2 * (1 + nu))), wrap(E * nu / ((1 + nu) * (1 - 2 * nu))), damping)


@dataclass(frozen=True, eq=False)
class StVenantKirchhoff(_LameSolid):
    """St. Venant-Kirchhoff solid: linear in the Green strain, energy mu E : E + lam/2 tr(E)^2.

    It is exact under large rotations of small strain, and weakens under strong compression.

    Example:
        `gs.StVenantKirchhoff.from_young(5e4, 0.3, damping=20.0)`

    Args:
        mu, lam: Lamé parameters [Pa].
        damping: Of the strain rate [Pa s].
    """


@dataclass(frozen=True, eq=False)
class StandardNeoHookean(_LameSolid):
    """Neo-Hookean solid with logarithms: energy mu/2 (tr C - 3) - mu log J + lam/2 (log J)^2.

    Below a tenth of the rest volume the terms of J continue as a parabola, so that inverted elements stay finite and
    recover. `NeoHookean` has no logarithms and is cheaper.

    Example:
        `gs.StandardNeoHookean.from_young(5e4, 0.3, damping=20.0)`

    Args:
        mu, lam: Lamé parameters [Pa].
        damping: Of the strain rate [Pa s].
    """


@dataclass(frozen=True, eq=False)
class MooneyRivlin:
    """Mooney-Rivlin solid for rubber.

    The energy is c10 (I1 - 3) + c01 (I2 - 3) - (2 c10 + 4 c01) (J - 1) + k/2 (J - 1)^2, with I1 and I2 the invariants
    of C = F'F. At small strain the shear modulus is 2 (c10 + c01) and the bulk modulus `bulk`, which fixes k.

    Example:
        `gs.MooneyRivlin(c10=1e4, c01=2e3, bulk=1e6)`

    Args:
        c10, c01: Coefficients of the invariants [Pa].
        bulk: Bulk modulus [Pa].
        damping: Of the strain rate [Pa s].
    """

    c10: Quantity = quantity(MISSING, "Pa", above=0.0, per="tet")
    c01: Quantity = quantity(MISSING, "Pa", low=0.0, per="tet")
    bulk: Quantity = quantity(MISSING, "Pa", above=0.0, per="tet")
    damping: Quantity = quantity(0.0, "Pa s", low=0.0, per="tet")

    def __post_init__(self) -> None:
        validate_quantities(self, "MooneyRivlin")


@dataclass(frozen=True, eq=False)
class Fibres:
    """Fibres in a solid, which resist being stretched and compressed along their direction.

    The energy of a tetrahedron is stiffness/2 (l - 1)^2 per volume, with l the stretch along the fibres.

    Example:
        `gs.Fibres(stiffness=1e5, direction=(1.0, 0.0, 0.0))`

    Args:
        stiffness: Additional Young's modulus along the fibres [Pa], a number or `gs.per_element` for regions.
        direction: Of the fibres in the rest shape, [3], or of those in each tetrahedron, [T, 3]; need not be of unit
            length.
    """

    stiffness: Quantity = quantity(MISSING, "Pa", low=0.0, per="tet")
    direction: ArrayLike = (1.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        validate_quantities(self, "Fibres")
        direction = np.array(self.direction, dtype=np.float64)
        if direction.ndim not in (1, 2) or direction.shape[-1] != 3:
            raise WrongShape("Fibres.direction", list(direction.shape), "must be [3] or [T, 3]")
        if not np.isfinite(direction).all() or has_zero_vector(direction):
            raise InvalidInput("Fibres.direction", direction.tolist(), "must be finite and not zero")
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        direction.flags.writeable = False
        object.__setattr__(self, "direction", direction)

    def directions(self, count: int, name: str) -> np.ndarray:
        """Returns unit vectors for `count` tetrahedra, [count, 3]."""
        own: Any = self.direction
        if own.ndim == 2 and len(own) != count:
            raise WrongShape(f"{name}.fibres.direction", list(own.shape), f"must be [3] or [{count}, 3]")
        return np.broadcast_to(own, (count, 3))


FURTHER_SOLIDS = (StVenantKirchhoff, StandardNeoHookean, MooneyRivlin)  # in files with their type key
SolidMaterial: TypeAlias = NeoHookean | YoungSolid | StVenantKirchhoff | StandardNeoHookean | MooneyRivlin
SOLID_MATERIALS: tuple[type, ...] = (NeoHookean, YoungSolid, *FURTHER_SOLIDS)
