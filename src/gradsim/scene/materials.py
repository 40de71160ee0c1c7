"""What bodies are made of, and how they touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.looks import Checker
from gradsim.scene.quantity import (
    PerElement,
    Quantity,
    Spec,
    inner_unknown,
    is_per_element,
    quantity,
    unwrap,
    validate_quantities,
    validated_array,
)


def _engineering(label: str, young: Quantity, poisson: Quantity, limit: float) -> tuple[Any, Any, Any]:
    """Young's modulus and Poisson's ratio, checked, and how to wrap what is computed from them.

    At a ratio of `limit` the material is incompressible and its modulus `lam` infinite.
    """
    for name, value in (("young", young), ("poisson", poisson)):
        if inner_unknown(value) is not None:
            remedy = "mu and lam may be unknown, what they are computed from may not: give those instead"
            raise InvalidInput(f"{label}.{name}", inner_unknown(value), remedy)
    E = validated_array(f"{label}.young", unwrap(young), Spec("Pa", above=0.0))
    nu = validated_array(f"{label}.poisson", unwrap(poisson), Spec("1", above=-1.0, below=limit))
    if isinstance(E, torch.Tensor) and not isinstance(nu, torch.Tensor):
        nu = torch.as_tensor(nu, dtype=E.dtype, device=E.device)
    if isinstance(nu, torch.Tensor) and not isinstance(E, torch.Tensor):
        E = torch.as_tensor(E, dtype=nu.dtype, device=nu.device)
    if is_per_element(young) != is_per_element(
        poisson
    ):  # the one that is not of each element gets its place among the batch
        E, nu = (E, nu[..., None]) if is_per_element(young) else (E[..., None], nu)
    wrap: Any = PerElement if is_per_element(young) or is_per_element(poisson) else (lambda a: a)
    return E, nu, wrap


@dataclass(frozen=True, eq=False)
class NeoHookean:
    """Stable neo-Hookean solid (Smith et al. 2018).

    `mu` and `lam` are the coefficients of the energy; small strains agree with linear elasticity for the moduli
    `from_young` takes, which differ from them.
    """

    mu: Quantity = quantity(1e5, "Pa", above=0.0, per="tet")
    lam: Quantity = quantity(1e5, "Pa", low=0.0, per="tet")
    damping: Quantity = quantity(0.0, "Pa s", low=0.0, per="tet")

    def __post_init__(self) -> None:
        validate_quantities(self, "NeoHookean")

    @classmethod
    def from_young(cls, young: Quantity, poisson: Quantity, damping: Quantity = 0.0) -> NeoHookean:
        """The solid whose small strains have Young's modulus `young` [Pa] and Poisson's ratio `poisson` < 0.5."""
        E, nu, wrap = _engineering("NeoHookean", young, poisson, 0.5)
        mu, lam = E / (2 * (1 + nu)), E * nu / ((1 + nu) * (1 - 2 * nu))
        return cls(wrap(4 / 3 * mu), wrap(lam + 5 / 6 * mu), damping)


@dataclass(frozen=True, eq=False)
class Membrane:
    """In-plane elasticity of a sheet, per area: the neo-Hookean energy in two dimensions."""

    mu: Quantity = quantity(1e3, "N/m", above=0.0, per="triangle")
    lam: Quantity = quantity(1e3, "N/m", low=0.0, per="triangle")
    damping: Quantity = quantity(0.0, "N s/m", low=0.0, per="triangle")

    def __post_init__(self) -> None:
        validate_quantities(self, "Membrane")

    @classmethod
    def from_young(
        cls, young: Quantity, poisson: Quantity, thickness: float = 1.0, damping: Quantity = 0.0
    ) -> Membrane:
        """The sheet of `thickness` [m] in plane stress with Young's modulus `young` [Pa] and `poisson` < 1."""
        E, nu, wrap = _engineering("Membrane", young, poisson, 1.0)
        mu, lam = E * thickness / (2 * (1 + nu)), E * thickness * nu / (1 - nu * nu)
        return cls(wrap(3 / 2 * mu), wrap(lam + 2 / 3 * mu), damping)


@dataclass(frozen=True, eq=False)
class Bending:
    """Resistance of a sheet against bending; `stiffness` is the plate rigidity E t^3 / 12 (1 - nu^2)."""

    stiffness: Quantity = quantity(0.0, "N m", low=0.0, per="triangle")
    damping: Quantity = quantity(0.0, "N m s", low=0.0, per="triangle")

    def __post_init__(self) -> None:
        validate_quantities(self, "Bending")


@dataclass(frozen=True, eq=False)
class Contact:
    """Compliant contact of a body's nodes with a surface, parameters per node.

    `delta` is the depth over which elastic force and damping set in, which makes the law differentiable through
    impacts; None takes 0.5 % of the body's size, 0 gives the seed's printed law with its jump.
    """

    ke: Quantity = quantity(1e4, "N/m", low=0.0)
    kd: Quantity = quantity(1.0, "N s/m", low=0.0)
    kf: Quantity = quantity(10.0, "N s/m", low=0.0)
    mu: Quantity = quantity(0.5, "1", low=0.0)
    delta: Quantity | None = quantity(None, "m", low=0.0)

    def __post_init__(self) -> None:
        validate_quantities(self, type(self).__name__)


@dataclass(frozen=True, eq=False)
class Ground(Contact):
    """The plane normal . x = offset; bodies live on the side the normal points to.

    Its contact parameters hold for every body that has none of its own. It is seen from the side the normal points to
    if `look` is a `Checker`.
    """

    normal: Quantity = quantity((0.0, 1.0, 0.0), "1", shape=(3,))
    offset: Quantity = quantity(0.0, "m")
    look: Checker | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        normal: Any = unwrap(self.normal)
        normal = normal.detach() if isinstance(normal, torch.Tensor) else normal
        lengths = (normal * normal).sum(-1)
        if float(lengths.min()) <= 0.0:
            raise OutOfRange("Ground.normal", "(0, 0, 0)", "must not be the zero vector")
        look: Any = self.look
        if look is not None and not isinstance(look, Checker):
            remedy = (
                "must be a gs.Checker (of two equal colours for a plain ground), or None to leave it out of pictures"
            )
            raise WrongType("Ground.look", type(look).__name__, remedy)
