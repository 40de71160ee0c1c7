"""Joints between the links of an articulated body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gradsim.scene.errors import OutOfRange
from gradsim.scene.quantity import Quantity, quantity, to_numpy
from gradsim.scene.validation import has_zero_vector, validate_quantities

NO_LIMIT = 1e9  # coordinate of a limit that is not given


class Joint:
    """Base of all joints; `Joint.kinds` lists them."""

    kinds: ClassVar[list[type[Joint]]] = []

    def __init_subclass__(cls) -> None:
        Joint.kinds.append(cls)

    def check(self, label: str) -> None:
        """Validates all quantities; `label` is the joint's path."""
        validate_quantities(self, label)
        for name in ("axis", "second_axis", "rotation"):
            if has_zero_vector(getattr(self, name, None)):
                raise OutOfRange(f"{label}.{name}", "zero", "must not be zero")
        low, high = (to_numpy(getattr(self, name, None)) for name in ("low", "high"))
        if low is not None and high is not None and bool((low >= high).any()):
            raise OutOfRange(f"{label}.low", f"{low.max():g}", f"must be below high, {high.min():g}")


@dataclass(frozen=True, eq=False)
class Fixed(Joint):
    """No motion: the link is part of its parent.

    Example:
        `gs.Link(gs.Fixed(), "upper", position=(0.0, -0.4, 0.0))`
    """


@dataclass(frozen=True, eq=False)
class Revolute(Joint):
    """A hinge: the link turns about an axis.

    The torque along the axis is torque + gain (target - angle) + rate_gain (target_rate - rate) - stiffness (angle -
    rest) - damping rate - friction rate / sqrt(rate^2 + slip^2), and that of a limit: limit_stiffness times the depth
    beyond it, quadratic over the first `limit_width`, and limit_damping times the rate, which sets in over that width.

    Example:
        `gs.Revolute(axis=(0.0, 0.0, 1.0), angle=0.3, low=-1.5, high=1.5, damping=0.1)`

    Args:
        axis: Direction of the axis, which passes through the link's origin, in the axes of the link, [..., 3].
        angle: Initial angle [rad], [...].
        rate: Initial rate [rad/s], [...].
        stiffness, rest: Spring towards the angle `rest` [N m/rad], [rad].
        damping: Viscous damping [N m s].
        friction: Dry friction [N m], reached where the rate is well above `slip` [rad/s].
        armature: Inertia of the motor's rotor, as seen at the joint [kg m^2].
        low, high: Limits of the angle [rad]; None for no limit.
        limit_stiffness, limit_damping, limit_width: Of both limits [N m/rad], [N m s], [rad].
        torque: Torque of the motor [N m]; a `gs.Signal` is allowed.
        target, gain: Angle that the motor holds [rad] (a `gs.Signal` is allowed), with this gain [N m/rad].
        target_rate, rate_gain: Rate that the motor holds [rad/s] (a `gs.Signal` is allowed), with this gain [N m s].
    """

    axis: Quantity = quantity((0.0, 0.0, 1.0), "1", shape=(3,))
    angle: Quantity = quantity(0.0, "rad")
    rate: Quantity = quantity(0.0, "rad/s")
    stiffness: Quantity = quantity(0.0, "N m/rad", low=0.0)
    rest: Quantity = quantity(0.0, "rad")
    damping: Quantity = quantity(0.0, "N m s", low=0.0)
    friction: Quantity = quantity(0.0, "N m", low=0.0)
    slip: Quantity = quantity(0.02, "rad/s", above=0.0)
    armature: Quantity = quantity(0.0, "kg m^2", low=0.0)
    low: Quantity | None = quantity(None, "rad")
    high: Quantity | None = quantity(None, "rad")
    limit_stiffness: Quantity = quantity(1e3, "N m/rad", low=0.0)
    limit_damping: Quantity = quantity(1.0, "N m s", low=0.0)
    limit_width: Quantity = quantity(0.02, "rad", above=0.0)
    torque: Quantity = quantity(0.0, "N m", signal=True)
    target: Quantity = quantity(0.0, "rad", signal=True)
    gain: Quantity = quantity(0.0, "N m/rad", low=0.0)
    target_rate: Quantity = quantity(0.0, "rad/s", signal=True)
    rate_gain: Quantity = quantity(0.0, "N m s", low=0.0)

    coordinate: ClassVar[str] = "angle"
    effort: ClassVar[str] = "torque"


@dataclass(frozen=True, eq=False)
class Prismatic(Joint):
    """A slider: the link moves along an axis. Forces are as the torques of `Revolute`.

    Example:
        `gs.Prismatic(axis=(1.0, 0.0, 0.0), displacement=0.1, low=-0.5, high=0.5)`

    Args:
        axis: Direction in the axes of the link, [..., 3].
        displacement: Initial displacement [m], [...].
        rate: Initial rate [m/s], [...].
        stiffness, rest: Spring towards the displacement `rest` [N/m], [m].
        damping: Viscous damping [N s/m].
        friction, slip: Dry friction [N], reached where the rate is well above `slip` [m/s].
        armature: Inertia of the motor, as seen at the joint [kg].
        low, high: Limits of the displacement [m]; None for no limit.
        limit_stiffness, limit_damping, limit_width: Of both limits [N/m], [N s/m], [m].
        force: Force of the motor [N]; a `gs.Signal` is allowed.
        target, gain: Displacement that the motor holds [m] (a `gs.Signal` is allowed), with this gain [N/m].
        target_rate, rate_gain: Rate that the motor holds [m/s] (a `gs.Signal` is allowed), with this gain [N s/m].
    """

    axis: Quantity = quantity((1.0, 0.0, 0.0), "1", shape=(3,))
    displacement: Quantity = quantity(0.0, "m")
    rate: Quantity = quantity(0.0, "m/s")
    stiffness: Quantity = quantity(0.0, "N/m", low=0.0)
    rest: Quantity = quantity(0.0, "m")
    damping: Quantity = quantity(0.0, "N s/m", low=0.0)
    friction: Quantity = quantity(0.0, "N", low=0.0)
    slip: Quantity = quantity(0.01, "m/s", above=0.0)
    armature: Quantity = quantity(0.0, "kg", low=0.0)
    low: Quantity | None = quantity(None, "m")
    high: Quantity | None = quantity(None, "m")
    limit_stiffness: Quantity = quantity(1e4, "N/m", low=0.0)
    limit_damping: Quantity = quantity(10.0, "N s/m", low=0.0)
    limit_width: Quantity = quantity(0.005, "m", above=0.0)
    force: Quantity = quantity(0.0, "N", signal=True)
    target: Quantity = quantity(0.0, "m", signal=True)
    gain: Quantity = quantity(0.0, "N/m", low=0.0)
    target_rate: Quantity = quantity(0.0, "m/s", signal=True)
    rate_gain: Quantity = quantity(0.0, "N s/m", low=0.0)

    coordinate: ClassVar[str] = "displacement"
    effort: ClassVar[str] = "force"


@dataclass(frozen=True, eq=False)
class Spherical(Joint):
    """A ball joint: the link turns about its origin in all directions; without limits and motor.

    Example:
        `gs.Link(gs.Spherical(damping=0.01), mass=1.0, center=(0.0, -0.2, 0.0))`

    Args:
        rotation: Initial rotation from the joint's frame, quaternion (x, y, z, w), [..., 4].
        angular_velocity: Initial angular velocity relative to the parent, in the axes of the link [rad/s], [..., 3].
        stiffness: Spring towards no rotation: the torque is stiffness sin(angle) [N m/rad].
        damping: Viscous damping [N m s].
        friction, slip: Dry friction [N m], reached where the rate is well above `slip` [rad/s].
        armature: Further inertia about every axis of the link [kg m^2].
    """

    rotation: Quantity | None = quantity(None, "1", shape=(4,))
    angular_velocity: Quantity = quantity((0.0, 0.0, 0.0), "rad/s", shape=(3,))
    stiffness: Quantity = quantity(0.0, "N m/rad", low=0.0)
    damping: Quantity = quantity(0.0, "N m s", low=0.0)
    friction: Quantity = quantity(0.0, "N m", low=0.0)
    slip: Quantity = quantity(0.02, "rad/s", above=0.0)
    armature: Quantity = quantity(0.0, "kg m^2", low=0.0)


@dataclass(frozen=True, eq=False)
class Universal(Joint):
    """Two hinges in a row at one point; the first axis is fixed to the parent, the second to the link.

    For limits and motors, use two links with revolute joints, the first without mass.

    Example:
        `gs.Link(gs.Universal(angles=(0.2, 0.1)), mass=1.0, center=(0.0, -0.2, 0.0))`

    Args:
        axis: Direction of the first axis, in the axes of the joint's frame, [..., 3].
        second_axis: Direction of the second axis, in the axes of the link, [..., 3].
        angles: Initial angles about both [rad], [..., 2].
        rates: Their initial rates [rad/s], [..., 2].
        stiffness, rest: Springs towards the angles `rest` [N m/rad], [rad], [..., 2].
        damping: Viscous damping [N m s], [..., 2].
        friction: Dry friction [N m], [..., 2], reached where the rate is well above `slip` [rad/s].
        armature: Inertia of rotors, as seen at the joints [kg m^2], [..., 2].
    """

    axis: Quantity = quantity((1.0, 0.0, 0.0), "1", shape=(3,))
    second_axis: Quantity = quantity((0.0, 1.0, 0.0), "1", shape=(3,))
    angles: Quantity = quantity((0.0, 0.0), "rad", shape=(2,))
    rates: Quantity = quantity((0.0, 0.0), "rad/s", shape=(2,))
    stiffness: Quantity = quantity((0.0, 0.0), "N m/rad", shape=(2,), low=0.0)
    rest: Quantity = quantity((0.0, 0.0), "rad", shape=(2,))
    damping: Quantity = quantity((0.0, 0.0), "N m s", shape=(2,), low=0.0)
    friction: Quantity = quantity((0.0, 0.0), "N m", shape=(2,), low=0.0)
    slip: Quantity = quantity(0.02, "rad/s", above=0.0)
    armature: Quantity = quantity((0.0, 0.0), "kg m^2", shape=(2,), low=0.0)


@dataclass(frozen=True, eq=False)
class Free(Joint):
    """No constraint: the link moves freely relative to its parent, or to the world.

    Example:
        `gs.Link(gs.Free(velocity=(1.0, 0.0, 0.0)), mass=2.0, mesh=gs.meshes.box(0.3))`

    Args:
        displacement: Initial position of the link's origin, in the joint's frame [m], [..., 3].
        rotation: Initial rotation from that frame, quaternion (x, y, z, w), [..., 4].
        velocity: Initial velocity of the origin in that frame [m/s], [..., 3].
        angular_velocity: Initial angular velocity relative to that frame, in the axes of the link [rad/s], [..., 3].
    """

    displacement: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity | None = quantity(None, "1", shape=(4,))
    velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,))
    angular_velocity: Quantity = quantity((0.0, 0.0, 0.0), "rad/s", shape=(3,))


def is_scalar(joint: Any) -> bool:
    """Whether a joint has one coordinate, with limits and a motor."""
    return isinstance(joint, (Revolute, Prismatic))
