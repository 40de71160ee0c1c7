"""Materials, contact parameters and the ground plane."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.friction import Friction, Sticking
from gradsim.scene.looks import Checker
from gradsim.scene.motion import Motion, check_motion
from gradsim.scene.quantity import PerElement, Quantity, is_per_element, is_unknown, quantity, to_numpy, unwrap
from gradsim.scene.validation import check_exactly_one, has_zero_vector, validate_quantities

DEFAULT_KF = 10.0  # of regularized friction [N s/m]

SheetMaterial: TypeAlias = "Membrane | YoungSheet"


def elastic_constants(young: Quantity, poisson: Quantity) -> tuple[Any, Any, Any]:
    """Returns Young's modulus and Poisson's ratio as numbers or tensors, and the wrapper for what follows from them."""
    E, nu = unwrap(young), unwrap(poisson)
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
class YoungSolid:
    """A neo-Hookean solid given by Young's modulus and Poisson's ratio at small strain, which may be unknown.

    Written `NeoHookean.from_young(...)`. As Poisson's ratio approaches 0.5, the material becomes incompressible and
    `lam` infinite.
    """

    young: Quantity = quantity(MISSING, "Pa", above=0.0, per="tet")
    poisson: Quantity = quantity(MISSING, "1", above=-1.0, below=0.5, per="tet")
    damping: Quantity = quantity(0.0, "Pa s", low=0.0, per="tet")

    def __post_init__(self) -> None:
        validate_quantities(self, "NeoHookean")

    @property
    def mu(self) -> Quantity:
        """Coefficient of the energy [Pa]."""
        E, nu, wrap = elastic_constants(self.young, self.poisson)
        value: Quantity = wrap(4 / 3 * (E / (2 * (1 + nu))))
        return value

    @property
    def lam(self) -> Quantity:
        """Coefficient of the energy [Pa]."""
        E, nu, wrap = elastic_constants(self.young, self.poisson)
        value: Quantity = wrap(E * nu / ((1 + nu) * (1 - 2 * nu)) + 5 / 6 * (E / (2 * (1 + nu))))
        return value


@dataclass(frozen=True, eq=False)
class YoungSheet:
    """A sheet in plane stress given by Young's modulus and Poisson's ratio at small strain, which may be unknown.

    Written `Membrane.from_young(...)`.
    """

    young: Quantity = quantity(MISSING, "Pa", above=0.0, per="triangle")
    poisson: Quantity = quantity(MISSING, "1", above=-1.0, below=1.0, per="triangle")
    thickness: float = 1.0
    damping: Quantity = quantity(0.0, "N s/m", low=0.0, per="triangle")

    def __post_init__(self) -> None:
        validate_quantities(self, "Membrane")

    @property
    def mu(self) -> Quantity:
        """Coefficient of the energy [N/m]."""
        E, nu, wrap = elastic_constants(self.young, self.poisson)
        value: Quantity = wrap(3 / 2 * (E * self.thickness / (2 * (1 + nu))))
        return value

    @property
    def lam(self) -> Quantity:
        """Coefficient of the energy [N/m]."""
        E, nu, wrap = elastic_constants(self.young, self.poisson)
        stiffness = E * self.thickness
        value: Quantity = wrap(stiffness * nu / (1 - nu * nu) + 2 / 3 * (stiffness / (2 * (1 + nu))))
        return value


@dataclass(frozen=True, eq=False)
class NeoHookean:
    """Stable neo-Hookean solid (Smith et al. 2018).

    `mu` and `lam` are the coefficients of the energy. They differ from the Lamé parameters of the material at small
    strain; `from_young` converts.

    Example:
        `gs.NeoHookean.from_young(5e4, 0.3, damping=20.0)`
    """

    mu: Quantity = quantity(1e5, "Pa", above=0.0, per="tet")
    lam: Quantity = quantity(1e5, "Pa", low=0.0, per="tet")
    damping: Quantity = quantity(0.0, "Pa s", low=0.0, per="tet")

    def __post_init__(self) -> None:
        validate_quantities(self, "NeoHookean")

    @classmethod
    def from_young(cls, young: Quantity, poisson: Quantity, damping: Quantity = 0.0) -> NeoHookean | YoungSolid:
        """Returns the solid with Young's modulus `young` [Pa] and Poisson's ratio `poisson` < 0.5 at small strain.

        Both may be unknown, with the paths `beam.material.young` and `beam.material.poisson`.
        """
        solid = YoungSolid(young, poisson, damping)
        return solid if is_unknown(young) or is_unknown(poisson) else cls(solid.mu, solid.lam, damping)


@dataclass(frozen=True, eq=False)
class Membrane:
    """In-plane elasticity of a sheet: the neo-Hookean energy in two dimensions, per rest area.

    Example:
        `gs.Cloth("sheet", gs.meshes.grid(1.0, 8), mass=0.2, material=gs.Membrane(mu=500.0, lam=500.0))`

    Args:
        mu: First elastic coefficient, of shear [N/m], [...], or one value per triangle.
        lam: Second elastic coefficient, of the change of area [N/m], [...], or one value per triangle.
        damping: Damping of the strain rate [N s/m], [...], or one value per triangle.
    """

    mu: Quantity = quantity(1e3, "N/m", above=0.0, per="triangle")
    lam: Quantity = quantity(1e3, "N/m", low=0.0, per="triangle")
    damping: Quantity = quantity(0.0, "N s/m", low=0.0, per="triangle")

    def __post_init__(self) -> None:
        validate_quantities(self, "Membrane")

    @classmethod
    def from_young(
        cls, young: Quantity, poisson: Quantity, thickness: float = 1.0, damping: Quantity = 0.0
    ) -> SheetMaterial:
        """Returns a sheet of `thickness` [m] in plane stress with Young's modulus `young` [Pa] and `poisson` < 1.

        Both may be unknown, with the paths `flag.material.young` and `flag.material.poisson`.
        """
        sheet = YoungSheet(young, poisson, thickness, damping)
        return sheet if is_unknown(young) or is_unknown(poisson) else cls(sheet.mu, sheet.lam, damping)


@dataclass(frozen=True, eq=False)
class Bending:
    """Bending elasticity of a sheet; `stiffness` is the flexural rigidity E t^3 / (12 (1 - nu^2)).

    Example:
        `gs.Cloth("sheet", gs.meshes.grid(1.0, 8), mass=0.2, bending=gs.Bending(stiffness=1e-3))`

    Args:
        stiffness: Flexural rigidity [N m], [...], or one value per triangle.
        damping: Damping of the rate of bending [N m s], [...], or one value per triangle.
    """

    stiffness: Quantity = quantity(0.0, "N m", low=0.0, per="triangle")
    damping: Quantity = quantity(0.0, "N m s", low=0.0, per="triangle")

    def __post_init__(self) -> None:
        validate_quantities(self, "Bending")


@dataclass(frozen=True, eq=False)
class Contact:
    """Parameters of compliant contact between the nodes or contact points of a body and a surface, per point.

    Between two rigid bodies, stiffness and damping are those of the whole pair.

    Example:
        `gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0, contact=gs.Contact(ke=2e4, mu=0.3))`

    Args:
        ke: Stiffness [N/m].
        kd: Damping [N s/m]; 1 if neither `kd` nor `restitution` is given.
        kf: Friction damping of `Regularized` friction [N s/m]: at low slip velocity u, friction is kf |u|; 10 if None.
        mu: Coefficient of friction.
        delta: Depth over which stiffness and damping increase to their full values [m], which makes the contact law
            differentiable through impacts. None takes 0.5 % of the body's size; 0 gives the contact law of the gradSim
            paper (Jatavallabhula et al. 2021), which is discontinuous.
        restitution: Ratio e of the speeds after and before an impact, instead of `kd`; for rigid bodies. It depends
            neither on the mass nor on `ke`, and is that of impacts whose force passes through the centre of mass.
        restitution_slope: Decrease of the restitution with the impact speed v [s/m]; 0 for a constant one. With
            z = slope (v - restitution_speed), 1/e(v) - 1 = (1/e - 1) (z + sqrt(1 + z^2)).
        restitution_speed: Impact speed at which `restitution` holds [m/s].
        friction: `gs.Sticking()` or `gs.Regularized()`. None is `Regularized()`.
    """

    ke: Quantity = quantity(1e4, "N/m", low=0.0)
    kd: Quantity | None = quantity(None, "N s/m", implied=1.0, low=0.0)
    kf: Quantity | None = quantity(None, "N s/m", implied=DEFAULT_KF, low=0.0)
    mu: Quantity = quantity(0.5, "1", low=0.0)
    delta: Quantity | None = quantity(None, "m", low=0.0)
    restitution: Quantity | None = quantity(None, "1", kw_only=True, above=0.0, high=1.0)
    restitution_slope: Quantity = quantity(0.0, "s/m", kw_only=True)
    restitution_speed: Quantity = quantity(1.0, "m/s", kw_only=True, low=0.0)
    friction: Friction | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.kd is None and self.restitution is None:
            object.__setattr__(self, "kd", 1.0)
        label = type(self).__name__
        self._check_friction(label)
        validate_quantities(self, label)
        check_exactly_one(label, self, "kd", "restitution")
        slope = to_numpy(self.restitution_slope) if self.restitution is None else None
        if slope is not None and slope.any():
            raise InvalidInput(
                f"{label}.restitution_slope", self.restitution_slope, "needs a restitution, which it changes with speed"
            )

    def _check_friction(self, label: str) -> None:
        given: Any = self.friction
        if given is not None and not isinstance(given, Friction):
            raise WrongType(f"{label}.friction", type(given).__name__, "must be gs.Sticking() or gs.Regularized()")
        if isinstance(given, Sticking):
            if self.kf is not None:
                remedy = "is the damping of gs.Regularized() friction: gs.Sticking(damping=...) has its own"
                raise InvalidInput(f"{label}.kf", self.kf, remedy)
        elif self.kf is None:
            object.__setattr__(self, "kf", DEFAULT_KF)

    @property
    def viscous_kf(self) -> Quantity:
        """`kf`, or its default for sticking friction, which does not read it."""
        return np.asarray(DEFAULT_KF) if self.kf is None else self.kf

    @property
    def sticks(self) -> bool:
        """Whether the friction is `gs.Sticking()`."""
        return isinstance(self.friction, Sticking)


@dataclass(frozen=True, eq=False)
class Ground(Contact):
    """The plane normal . x = offset; the free side is the one the normal points to.

    Its contact parameters apply to every body without its own. It is visible from the free side if `look` is a
    `Checker`. `motion`, without rotation, and `surface_velocity` are those of `StaticSphere`.

    Example:
        `gs.Ground(restitution=0.6, mu=0.4, look=gs.Checker())`
    """

    normal: Quantity = quantity((0.0, 1.0, 0.0), "1", shape=(3,))
    offset: Quantity = quantity(0.0, "m")
    look: Checker | None = None
    motion: Motion | None = field(default=None, kw_only=True)
    surface_velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), signal=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_motion("Ground.motion", self.motion)
        if self.motion is not None and self.motion.rotation is not None:
            raise InvalidInput(
                "Ground.motion.rotation", "a rotation", "a plane can only be displaced: use gs.StaticBox"
            )
        if has_zero_vector(self.normal):
            raise OutOfRange("Ground.normal", "(0, 0, 0)", "must not be the zero vector")
        look: Any = self.look
        if look is not None and not isinstance(look, Checker):
            remedy = (
                "must be a gs.Checker (two equal colours for a uniform ground), or None to exclude it from rendering"
            )
            raise WrongType("Ground.look", type(look).__name__, remedy)
