"""Materials, contact parameters and the ground plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.looks import Checker
from gradsim.scene.quantity import PerElement, Quantity, Spec, is_per_element, is_unknown, quantity, unwrap
from gradsim.scene.validation import validate_quantities, validated_array


def _elastic_constants(label: str, young: Quantity, poisson: Quantity, limit: float) -> tuple[Any, Any, Any]:
    """Returns valid Young's modulus and Poisson's ratio, and the wrapper for values computed from them.

    As Poisson's ratio approaches `limit`, the material becomes incompressible and `lam` infinite.
    """
    for name, value in (("young", young), ("poisson", poisson)):
        if is_unknown(value):
            remedy = "mu and lam may be unknown, young and poisson may not: give mu and lam instead"
            raise InvalidInput(f"{label}.{name}", value, remedy)
    E = validated_array(f"{label}.young", unwrap(young), Spec("Pa", above=0.0))
    nu = validated_array(f"{label}.poisson", unwrap(poisson), Spec("1", above=-1.0, below=limit))
    if isinstance(E, torch.Tensor) and not isinstance(nu, torch.Tensor):
        nu = torch.as_tensor(nu, dtype=E.dtype, device=E.device)
    if isinstance(nu, torch.Tensor) and not isinstance(E, torch.Tensor):
        E = torch.as_tensor(E, dtype=nu.dtype, device=nu.device)
    # The constant that is not per element gets an element dimension, so that its own dimensions stay a batch.
    if is_per_element(young) != is_per_element(poisson):
        E, nu = (E, nu[..., None]) if is_per_element(young) else (E[..., None], nu)
    wrap: Any = PerElement if is_per_element(young) or is_per_element(poisson) else (lambda a: a)
    return E, nu, wrap


@dataclass(frozen=True, eq=False)
class NeoHookean:
    """Stable neo-Hookean solid (Smith et al. 2018).

    `mu` and `lam` are the coefficients of the energy. They differ from the Lamé parameters of the material at small
    strain; `from_young` converts.
    """

    mu: Quantity = quantity(1e5, "Pa", above=0.0, per="tet")
    lam: Quantity = quantity(1e5, "Pa", low=0.0, per="tet")
    damping: Quantity = quantity(0.0, "Pa s", low=0.0, per="tet")

    def __post_init__(self) -> None:
        validate_quantities(self, "NeoHookean")

    @classmethod
    def from_young(cls, young: Quantity, poisson: Quantity, damping: Quantity = 0.0) -> NeoHookean:
        """Returns the solid with Young's modulus `young` [Pa] and Poisson's ratio `poisson` < 0.5 at small strain."""
        E, nu, wrap = _elastic_constants("NeoHookean", young, poisson, 0.5)
        mu, lam = E / (2 * (1 + nu)), E * nu / ((1 + nu) * (1 - 2 * nu))
        return cls(wrap(4 / 3 * mu), wrap(lam + 5 / 6 * mu), damping)


@dataclass(frozen=True, eq=False)
class Membrane:
    """In-plane elasticity of a sheet: the neo-Hookean energy in two dimensions, per rest area."""

    mu: Quantity = quantity(1e3, "N/m", above=0.0, per="triangle")
    lam: Quantity = quantity(1e3, "N/m", low=0.0, per="triangle")
    damping: Quantity = quantity(0.0, "N s/m", low=0.0, per="triangle")

    def __post_init__(self) -> None:
        validate_quantities(self, "Membrane")

    @classmethod
    def from_young(
        cls, young: Quantity, poisson: Quantity, thickness: float = 1.0, damping: Quantity = 0.0
    ) -> Membrane:
        """Returns a sheet of `thickness` [m] in plane stress with Young's modulus `young` [Pa] and `poisson` < 1."""
        E, nu, wrap = _elastic_constants("Membrane", young, poisson, 1.0)
        mu, lam = E * thickness / (2 * (1 + nu)), E * thickness * nu / (1 - nu * nu)
        return cls(wrap(3 / 2 * mu), wrap(lam + 2 / 3 * mu), damping)


@dataclass(frozen=True, eq=False)
class Bending:
    """Bending elasticity of a sheet; `stiffness` is the flexural rigidity E t^3 / (12 (1 - nu^2))."""

    stiffness: Quantity = quantity(0.0, "N m", low=0.0, per="triangle")
    damping: Quantity = quantity(0.0, "N m s", low=0.0, per="triangle")

    def __post_init__(self) -> None:
        validate_quantities(self, "Bending")


@dataclass(frozen=True, eq=False)
class Contact:
    """Parameters of compliant contact between the nodes of a body and a surface, per node.

    Args:
        ke: Stiffness [N/m].
        kd: Damping [N s/m].
        kf: Friction damping [N s/m]: at low slip velocity u, friction is kf |u|.
        mu: Coefficient of friction.
        delta: Depth over which stiffness and damping increase to their full values [m], which makes the contact law
            differentiable through impacts. None takes 0.5 % of the body's size; 0 gives the contact law of the gradSim
            paper (Jatavallabhula et al. 2021), which is discontinuous.
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
    """The plane normal . x = offset; the free side is the one the normal points to.

    Its contact parameters apply to every body without its own. It is visible from the free side if `look` is a
    `Checker`.
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
                "must be a gs.Checker (two equal colours for a uniform ground), or None to exclude it from rendering"
            )
            raise WrongType("Ground.look", type(look).__name__, remedy)
