"""Forces and an integrator declared outside the package, as a user would in one file."""

from dataclasses import dataclass

import warp as wp

import gradsim as gs


def wind_force(x, v, t, velocity, drag):
    gust = velocity * (type(t)(1.0) + type(t)(0.5) * wp.sin(type(t)(6.0) * t))
    return (gust - v) * drag


@gs.node_force(wind_force, stable_rate=lambda view: (0.0, view.largest(view.row("drag")) * 10.0))
@dataclass(frozen=True, eq=False)
class Wind(gs.BodyForce):
    """Drag against a gusty wind."""

    velocity: gs.Quantity = gs.quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), signal=True)
    drag: gs.Quantity = gs.quantity(0.1, "kg/s", low=0.0, per="node")


def charged_force(p, q, v, w, t, strength, charge, brake):
    axis = wp.quat_rotate(q, type(p)(type(t)(1.0), type(t)(0.0), type(t)(0.0)))
    return strength * charge + wp.cross(v, strength) * charge, wp.cross(axis, strength) * charge - w * brake


@gs.rigid_force(charged_force)
@dataclass(frozen=True, eq=False)
class ChargedBody(gs.BodyForce):
    """A charge with a dipole along the body's x axis in a field, and a brake of its rotation."""

    strength: gs.Quantity = gs.quantity((0.0, 0.0, 0.0), "N/C", shape=(3,))
    charge: gs.Quantity = gs.quantity(0.0, "C")
    brake: gs.Quantity = gs.quantity(0.0, "N m s", low=0.0)


@dataclass(frozen=True)
class Heun(gs.Integrator):
    """Heun's rule: second order, and both stages enter the result."""

    stages = gs.explicit_runge_kutta((1.0,), (0.5, 0.5))
    order = 2


@dataclass(frozen=True)
class Ralston3(gs.Integrator):
    """Ralston's rule of third order."""

    stages = gs.explicit_runge_kutta((0.5,), (0.0, 0.75), (2 / 9, 1 / 3, 4 / 9))
    order = 3
