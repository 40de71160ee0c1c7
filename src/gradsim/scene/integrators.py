"""Time integrators as data: the stages of one step and their coefficients.

A step evaluates the forces once per stage. With x_0, v_0 the state at its start and a_j the acceleration at stage j,
stage s leads to the state

    v = v_0 + dt sum_j acceleration[j] a_j
    x = x_0 + dt (sum_j velocity[j] v_j + new_velocity v),    j <= s

of the next stage; after the last stage this is the state at the end of the step. Explicit Runge-Kutta rules use both
sums with the same weights, partitioned rules such as symplectic Euler use the new velocity. The rotation of a rigid
body follows the same weights as x, with dq/dt = (w, 0) q / 2 as the velocity, and is normalized.

A rule that carries its force, such as velocity Verlet, has one evaluation per step: the force of the last stage serves
as that of the first stage of the next step. Its first stage moves the positions to those of the end of the step and
predicts the velocity there, v + dt prediction a_0, for the evaluation; its last stage leaves the positions as they are.
The first step of every frame evaluates the force anew, so that the state at a frame determines all that follows.

A new integrator is a subclass of `Integrator` with its stages, from which both the portable and the native step follow.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradsim.scene.errors import OutOfRange, WrongType

TOLERATED_GROWTH = 1e-3  # of the amplitude of the fastest oscillation in one stable step


@dataclass(frozen=True)
class Stage:
    """Weights that give the next state of a step after an evaluation of the forces."""

    acceleration: tuple[float, ...]  # of the stages so far
    velocity: tuple[float, ...]  # of the stages so far
    new_velocity: float = 0.0
    prediction: float = 0.0  # weight of the stage's acceleration that only the next evaluation's velocity has
    holds_position: bool = False  # whether the position is that of the evaluation, whatever the other weights

    @property
    def time(self) -> float:
        """Time of that state, as a fraction of the step."""
        return sum(self.velocity) + self.new_velocity


def explicit_runge_kutta(*rows: Sequence[float]) -> tuple[Stage, ...]:
    """Returns the stages of an explicit Runge-Kutta rule.

    Example:
        `gs.explicit_runge_kutta((0.5,), (0.0, 1.0))`

    Args:
        rows: Rows 2, 3, ... of the Butcher tableau, without their zeros on and above the diagonal, then the weights:
            `explicit_runge_kutta((0.5,), (0.0, 1.0))` is the midpoint rule.
    """
    return tuple(Stage(tuple(map(float, row)), tuple(map(float, row))) for row in rows)


@dataclass(frozen=True)
class Integrator:
    """Base class of time integrators; subclasses set `stages` and `order`, and `carries` if they carry their force.

    Example:
        `isinstance(gs.Midpoint(), gs.Integrator)`
    """

    stages: ClassVar[tuple[Stage, ...]]
    order: ClassVar[int]
    carries: ClassVar[bool] = False  # whether the last force of a step serves as the first of the next step
    implicit: ClassVar[bool] = False  # whether the stages have to be solved for
    kinds: ClassVar[list[type[Integrator]]] = []  # all subclasses, for scene files

    def __init_subclass__(cls) -> None:
        for number, stage in enumerate(cls.stages):
            if not len(stage.acceleration) == len(stage.velocity) == number + 1:
                raise TypeError(f"{cls.__name__}.stages[{number}] needs {number + 1} weights of each kind")
        if cls.carries and not _carries_force(cls.stages):
            raise TypeError(f"{cls.__name__}.stages must be a kick with a drift, then a kick that holds the positions")
        Integrator.kinds.append(cls)

    @property
    def evaluations(self) -> int:
        """Evaluations of the forces in one step; a rule that carries its force has one more in every frame."""
        return len(self.stages) - self.carries

    @property
    def stage_times(self) -> tuple[float, ...]:
        """Times of the evaluations, as fractions of the step."""
        return 0.0, *(stage.time for stage in self.stages[:-1])

    @property
    def recorded_stage(self) -> int:
        """The stage whose states are in the history at every step."""
        return len(self.stages) - 1 if self.carries else 0

    @property
    def force_slope(self) -> tuple[float, float]:
        """Coefficients (a, b) by which a force in a part of a step acts as if it were linear in time over the step.

        With the factor 1 + lead (a + b t) at the stage times t, a constant force keeps its impulse, and displaces a
        body by lead f dt^2 / m more: as the same impulse does if it acts by the fraction `lead` of the step earlier on
        average. Both are zero for rules with a single stage, which have no such freedom.
        """
        return _force_slope(self.stages, self.stage_times)

    @property
    def anchor_times(self) -> tuple[float, ...]:
        """Times to which the anchors of sticking friction are advanced in each evaluation, as fractions of the step.

        A rule with a single evaluation uses the anchors at the end of the step, as it uses the new velocity for the
        positions.
        """
        return self.stage_times if len(self.stages) > 1 else (1.0,)

    @property
    def anchor_stage(self) -> int:
        """The evaluation whose slip velocity advances the anchors over the whole step: the one nearest its middle.

        That of a rule that carries its force is the only one that every step has.
        """
        if self.carries:
            return len(self.stages) - 1
        times = self.stage_times
        return min(range(len(times)), key=lambda stage: abs(times[stage] - 0.5))

    def stable_dt(self, frequency: float, damping: float) -> float:
        """Returns the largest step [s] in which x'' = -frequency^2 x - damping x' grows by at most `TOLERATED_GROWTH`.

        Args:
            frequency: Angular frequency without damping [rad/s].
            damping: Damping rate [1/s].
        """
        if frequency == 0.0 and damping == 0.0:
            return math.inf
        most = len(self.stages) * symplectic_euler_dt(frequency, damping)
        if self.carries:
            return _bisect(lambda dt: _growth_with_carried_force(self.stages, frequency, damping, dt), most)
        if any(stage.new_velocity for stage in self.stages):
            return _bisect(lambda dt: _growth_of_matrix(self.stages, frequency, damping, dt), most)
        half, square = 0.5 * damping, 0.25 * damping**2 - frequency**2
        rate = complex(-half, math.sqrt(-square)) if square < 0.0 else complex(-half - math.sqrt(square))
        polynomial = _stability_polynomial(self.stages)

        def growth(dt: float) -> float:
            z, value = rate * dt, 0j
            for coefficient in polynomial:
                value = value * z + coefficient
            return abs(value) - 1.0

        return _bisect(growth, most)


@functools.cache
def _force_slope(stages: tuple[Stage, ...], times: tuple[float, ...]) -> tuple[float, float]:
    last = stages[-1]
    mean = sum(weight * time for weight, time in zip(last.acceleration, times, strict=True))
    if last.holds_position:
        stages, last = stages[:-1], stages[-2]
    displacement = [last.new_velocity * weight for weight in last.acceleration]  # by a unit force at each stage
    for weight, stage in zip(last.velocity[1:], stages, strict=False):
        for k, acceleration in enumerate(stage.acceleration):
            displacement[k] += weight * acceleration
    moment = sum(weight * (mean - time) for weight, time in zip(displacement, times, strict=False))
    return (mean / moment, -1.0 / moment) if abs(moment) > 1e-9 else (0.0, 0.0)


def _carries_force(stages: tuple[Stage, ...]) -> bool:
    """Returns whether the stages are those of a rule that carries its force: kick and drift, then kick."""
    if len(stages) != 2:
        return False
    first, last = stages
    unused = any((*first.velocity, *last.velocity, last.new_velocity, last.prediction))
    return last.holds_position and not unused and first.acceleration[0] == last.acceleration[0]


def symplectic_euler_dt(frequency: float, damping: float) -> float:
    """Returns the largest stable step of symplectic Euler for a damped oscillator [s]."""
    return 4.0 / (damping + math.sqrt(damping**2 + 4.0 * frequency**2))


def _bisect(growth: Callable[[float], float], most: float) -> float:
    """Returns the largest step up to `most` with tolerated growth."""
    low, high = 0.0, most
    if growth(high) <= TOLERATED_GROWTH:
        return high
    for _ in range(40):
        dt = 0.5 * (low + high)
        low, high = (dt, high) if growth(dt) <= TOLERATED_GROWTH else (low, dt)
    return low


@functools.cache
def _stability_polynomial(stages: tuple[Stage, ...]) -> tuple[float, ...]:
    """Returns the coefficients of R(z), highest power first: one step multiplies exp(s t) by R(s dt)."""
    values = [[1.0]]  # of the stages, lowest power first
    for stage in stages:
        value = [1.0] + [0.0] * len(stages)
        for weight, other in zip(stage.velocity, values, strict=True):
            for power, coefficient in enumerate(other):
                if weight and coefficient:
                    value[power + 1] += weight * coefficient
        values.append(value)
    return tuple(reversed(values[-1]))


def _growth_of_matrix(stages: tuple[Stage, ...], frequency: float, damping: float, dt: float) -> float:
    """Returns the spectral radius, minus one, of the matrix by which one step multiplies (x, v)."""
    columns = []
    for x0, v0 in ((1.0, 0.0), (0.0, 1.0)):
        x, v, accelerations, velocities = x0, v0, [], []
        for stage in stages:
            accelerations.append(-(frequency**2) * x - damping * v)
            velocities.append(v)
            v = v0 + dt * sum(w * a for w, a in zip(stage.acceleration, accelerations, strict=True))
            moved = sum(w * u for w, u in zip(stage.velocity, velocities, strict=True))
            x = x0 + dt * (moved + stage.new_velocity * v)
        columns.append((x, v))
    (a, c), (b, d) = columns
    half, det = 0.5 * (a + d), a * d - b * c
    square = half * half - det
    return (math.sqrt(max(det, 0.0)) if square < 0.0 else abs(half) + math.sqrt(square)) - 1.0


def _growth_with_carried_force(stages: tuple[Stage, ...], frequency: float, damping: float, dt: float) -> float:
    """Returns the spectral radius, minus one, of the matrix by which one step multiplies (x, v, carried a)."""
    x, v, a = np.eye(3)
    kick, end = stages
    half = v + dt * kick.acceleration[0] * a
    x = x + dt * kick.new_velocity * half
    new = -(frequency**2) * x - damping * (half + dt * kick.prediction * a)
    matrix = np.array([x, half + dt * end.acceleration[1] * new, new])
    scale = np.array([frequency**2 + damping**2, math.hypot(frequency, damping), 1.0])  # all rows in the unit of a
    return float(np.abs(np.linalg.eigvals(matrix * scale[:, None] / scale)).max()) - 1.0


@dataclass(frozen=True)
class SymplecticEuler(Integrator):
    """v += dt a(x, v), then x += dt v: first order, one evaluation of the forces per step; the paper's integrator.

    The rotation of a rigid body uses the angular velocity at the middle of the step, which needs no evaluation.

    Example:
        `gs.simulate(scene, frames=10, integrator=gs.SymplecticEuler())`
    """

    stages = (Stage((1.0,), (0.0,), new_velocity=1.0),)
    order = 1

    def stable_dt(self, frequency: float, damping: float) -> float:
        return symplectic_euler_dt(frequency, damping) if frequency or damping else math.inf


@dataclass(frozen=True)
class Verlet(Integrator):
    """Velocity Verlet with a predicted velocity: second order also with damping, one evaluation of the forces per step.

        h = v + dt/2 a,  x' = x + dt h,  a' = a(x', h + dt/2 a),  v' = h + dt/2 a'

    a' is the acceleration a of the next step; the first step of every frame evaluates it anew. Without damping the rule
    is stable at the step of `SymplecticEuler()`, dt = 2 / w, with a damping ratio z at dt w = sqrt(16 z^2 + 4) - 4 z.
    The rotation of a rigid body follows the midpoint rule with the momentum at the middle of the step.

    Example:
        `gs.simulate(scene, frames=10, integrator=gs.Verlet())`
    """

    stages = (
        Stage((0.5,), (0.0,), new_velocity=1.0, prediction=0.5),
        Stage((0.5, 0.5), (0.0, 0.0), holds_position=True),
    )
    order = 2
    carries = True

    def stable_dt(self, frequency: float, damping: float) -> float:
        return 2.0 / (damping + math.hypot(damping, frequency)) if frequency or damping else math.inf


@dataclass(frozen=True)
class Midpoint(Integrator):
    """Explicit midpoint rule: second order, two evaluations of the forces per step.

    Undamped oscillations grow by (w dt)^4 / 8 per step, so stiff bodies without damping need smaller steps.

    Example:
        `gs.simulate(scene, frames=10, integrator=gs.Midpoint())`
    """

    stages = explicit_runge_kutta((0.5,), (0.0, 1.0))
    order = 2


@dataclass(frozen=True)
class RungeKutta4(Integrator):
    """Classical Runge-Kutta rule: fourth order, four evaluations of the forces per step.

    The order holds for smooth forces. The contact law is once continuously differentiable, so impacts reduce the order.

    Example:
        `gs.simulate(scene, frames=10, integrator=gs.RungeKutta4())`
    """

    stages = explicit_runge_kutta((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6))
    order = 4


@dataclass(frozen=True)
class ImplicitMidpoint(Integrator):
    """Implicit midpoint rule, for soft bodies, cloth and springs: second order, stable at every step.

        x' = x + dt w,  v' = v + dt a,  with a at the position (x + x') / 2 and the velocity w = (v + v') / 2

    Each step is solved for w by Newton's method with line search. The factor of its sparse matrix serves several steps
    and is renewed when iterations converge too slowly. Nothing is damped but by the damping of the scene: oscillations
    that the step does not resolve keep their amplitude and ring more slowly. A step costs as much as 20 to 40
    evaluations of the forces for bodies of up to 5,000 tetrahedra, so it pays where explicit rules need that many steps
    more: see `gs.compare_integrators`.

    Example:
        `gs.simulate(scene, frames=10, substeps=8, integrator=gs.ImplicitMidpoint())`

    Args:
        tolerance: Largest correction at which the iteration ends, relative to the extent of the scene's nodes; also the
            residual of the adjoint's linear systems, relative to their right-hand side.
        max_iterations: Iterations after which a step has failed.
    """

    tolerance: float = 1e-9
    max_iterations: int = 60
    stages = (Stage((1.0,), (1.0,)),)
    order = 2
    implicit = True

    def __post_init__(self) -> None:
        if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, (int, float)):
            raise WrongType("integrator.tolerance", repr(self.tolerance), "must be a number")
        if not 0.0 < self.tolerance < 1e-2:
            raise OutOfRange("integrator.tolerance", self.tolerance, "must be above 0 and below 0.01")
        if isinstance(self.max_iterations, bool) or not isinstance(self.max_iterations, int):
            raise WrongType("integrator.max_iterations", repr(self.max_iterations), "must be a whole number")
        if self.max_iterations < 1:
            raise OutOfRange("integrator.max_iterations", self.max_iterations, "must be >= 1")

    @property
    def stage_times(self) -> tuple[float, ...]:
        return (0.5,)

    @property
    def anchor_times(self) -> tuple[float, ...]:
        return self.stage_times

    def stable_dt(self, frequency: float, damping: float) -> float:
        return math.inf
