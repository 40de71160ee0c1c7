"""Friction that sticks: a spring with memory between a contact point and an anchor on the surface.

The state of a contact is the vector xi from the anchor to the point [m]. With the normal n, the slip velocity
u = v - n (n . v), a = mu f_n, the stiffness kt and the damping kf, an evaluation of the forces that lies h after the
start of the step computes

    q   = xi - n (n . xi) + h u
    L   = 1.5 a^3 / (kt (a^2 + kf^2 u^2))
    xi' = q min(1, L / |q|)
    t   = kt xi' + kf u
    f_t = -t (1 + (|t| / a)^8)^(-1/8)

The anchor follows the point where the spring is longer than L. For slow slip L is 1.5 times the length at which the
spring alone reaches the cone, so that a point at rest keeps its anchor. In fast slip L vanishes and friction is
viscous, saturated at a. A point that leaves the surface drops its anchor: L vanishes with the normal force.

The anchor advances once per step, to xi' of the whole step h = dt at the slip velocity of the evaluation nearest the
middle of the step (`Integrator.anchor_stage`); other evaluations use xi' of their own time (`Integrator.anchor_times`).
For smooth motion this keeps second order.

The damping kf = damping m / dt is tied to the step dt and to the mass m on a point: the mass of a node, or the mass of
a rigid body divided by the number of points on its largest flat side. The stiffness kt is a fraction of ke.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from gradsim.scene.friction import Sticking
from gradsim.scene.materials import Contact
from gradsim.simulate.forces.family import types_of

STICKING_ROWS = ("stick_stiffness", "stick_damping")  # kt / ke, 0 for other friction; kf dt / m
GATE = 1.5  # L over the length at which the spring alone reaches the cone


def sticking_rows(law: Contact, points: int = 1) -> Sequence[Any]:
    """Returns the values of `STICKING_ROWS`, for a body whose mass rests on `points` points."""
    if not isinstance(law.friction, Sticking):
        return (np.zeros(()),) * 2
    return np.asarray(float(law.friction.stiffness)), np.asarray(law.friction.damping / points)


class StickingFunctions(NamedTuple):
    """Warp functions of sticking friction."""

    friction: Any  # and the anchor after the time h
    friction_adjoint: Any


@functools.cache
def sticking_functions(real: Any) -> StickingFunctions:
    """Returns the Warp functions of sticking friction in one precision."""
    vec3 = types_of(real).vec3
    zero, one, two, three, gate, tiny = (real(a) for a in (0.0, 1.0, 2.0, 3.0, GATE, 1.0e-30))

    @wp.func
    def slip_and_offset(n: vec3, v: vec3, xi: vec3, h: real):
        """Slip velocity u and offset q."""
        u = v - n * wp.dot(n, v)
        return u, xi - n * wp.dot(n, xi) + u * h

    @wp.func
    def saturation(t: vec3, a: real):
        """1 / (a^8 + |t|^8)^(1/8), and |t| times it."""
        length = wp.length(t)
        large = wp.max(length, a) + tiny
        ratio = wp.min(length, a) / large
        ratio = ratio * ratio
        ratio = ratio * ratio
        per_root = one / (large * wp.sqrt(wp.sqrt(wp.sqrt(one + ratio * ratio))))
        return per_root, length * per_root

    @wp.func
    def sticking_friction(n: vec3, v: vec3, fn: real, xi: vec3, mu: real, kt: real, kf: real, h: real):
        """Friction for a normal force fn >= 0, and the anchor after the time h."""
        u, q = slip_and_offset(n, v, xi, h)
        a = mu * fn
        limit = gate * a * (a / kt) * (a / (a * a + kf * kf * wp.dot(u, u) + tiny))
        r = wp.length(q)
        anchor = q
        if r > limit:
            anchor = q * (limit / r)
        t = anchor * kt + u * kf
        per_root, tau = saturation(t, a)
        return t * (-a * per_root), anchor

    @wp.func
    def sticking_friction_adjoint(
        b: vec3, y: vec3, n: vec3, v: vec3, fn: real, xi: vec3, mu: real, kt: real, kf: real, h: real
    ):
        """Adjoints of the normal force, the slip velocity, the anchor, the normal, mu, kt and kf.

        From the adjoint b of the friction and y of the new anchor. That of the normal is the part through the anchor.
        """
        u, q = slip_and_offset(n, v, xi, h)
        a = mu * fn
        slip2 = wp.dot(u, u)
        per_gate = one / (a * a + kf * kf * slip2 + tiny)
        limit_a = gate * (a / kt) * (a * per_gate)  # limit over a
        limit = limit_a * a
        r = wp.length(q)
        anchor = q
        if r > limit:
            anchor = q * (limit / r)
        t = anchor * kt + u * kf
        per_root, tau = saturation(t, a)
        tau2 = tau * tau
        k_adj = -wp.dot(b, t)
        k = a * per_root
        t_adj = -(b * k) - t * (k_adj * k * (tau2 * tau * per_root) * (tau2 * tau * per_root))
        a_adj = k_adj * tau2 * tau2 * tau2 * tau2 * per_root
        kt_adj = wp.dot(t_adj, anchor)
        kf_adj = wp.dot(t_adj, u)
        anchor_adj = y + t_adj * kt
        u_adj = t_adj * kf
        q_adj = anchor_adj
        if r > limit:
            limit_adj = wp.dot(q, anchor_adj) / r
            q_adj = (anchor_adj - q * (limit_adj / r)) * (limit / r)
            log_adj = limit_adj * limit  # adjoint of the logarithm of the limit
            a_adj += limit_adj * limit_a * (three - two * a * a * per_gate)
            kt_adj -= log_adj / kt
            kf_adj -= log_adj * two * kf * slip2 * per_gate
            u_adj = u_adj - u * (two * log_adj * kf * kf * per_gate)
        u_adj = u_adj + q_adj * h
        along = wp.dot(n, q_adj)
        n_adj = -(q_adj * wp.dot(n, xi)) - xi * along
        return a_adj * mu, u_adj, q_adj - n * along, n_adj, a_adj * fn, kt_adj, kf_adj

    return StickingFunctions(sticking_friction, sticking_friction_adjoint)
