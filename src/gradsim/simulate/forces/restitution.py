"""Damping of the contact of rigid bodies by a coefficient of restitution e.

The damping force d is a fraction of the elastic force f_e. With the elastic energy E of all points of the body in
contact with the shape, the body's mass m and the rate dc/dt of the depth,

    d / f_e = A x        x = dc/dt / s        s = sqrt((dc/dt)^2 + 2 E/m)
    f_n = f_e + d where d >= 0, f_e^2 / (f_e - d) where d < 0

s is the speed that the body would have if its elastic energy were kinetic. The phase x falls from 1 to -1 during an
impact, and the energy as a function of x depends only on A: neither on speed and mass nor on the elastic force as a
function of depth. A(e) is `loss_factor`.

The restitution may depend on the impact speed v: A is multiplied by q(z) = z + sqrt(1 + z^2), z = slope (v - v0). The
impact speed is estimated from speed and phase, v = s (1 + a w + b w^2) with w = (1 - x^3) / 2, a parabola through 1, e
^ -1/2 and 1/e at w = 0, 1/2 and 1: to first order in A, the logarithm of s decreases by w log(1/e).
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from gradsim.native.structures import Rows
from gradsim.scene.materials import Contact
from gradsim.scene.quantity import unwrap
from gradsim.scene.restitution import loss_factor
from gradsim.simulate.forces.contact_law import ROW_NAMES, contact_law_functions
from gradsim.simulate.forces.family import types_of

# A, [s/m], [m/s], 1/e. The last one is zero for a pair that is damped by kd.
ROWS = Rows("law", *ROW_NAMES, "loss", "slope", "speed", "inverse")


def restitution_rows(law: Contact) -> Sequence[Any]:
    """Returns the values of the rows after those of `ROW_NAMES`."""
    if law.restitution is None:
        return (np.zeros(()),) * 4
    e: Any = unwrap(law.restitution)
    return loss_factor(e), law.restitution_slope, law.restitution_speed, 1.0 / e


class RestitutionFunctions(NamedTuple):
    """Warp functions of contact with restitution; `law` is a column of parameters."""

    law: Any  # of a pair
    energy: Any  # over ke, with its derivative with respect to delta
    normal: Any
    normal_adjoint: Any


@functools.cache
def restitution_functions(real: Any) -> RestitutionFunctions:
    """Returns the Warp functions of contact with restitution in one precision."""
    table = types_of(real).table
    column = wp.types.vector(len(ROWS), real)
    elastic_lever = contact_law_functions(real).lever
    zero, half, one, two, three, six, tiny = (real(a) for a in (0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 1.0e-30))

    @wp.func
    def contact_law(contact: table, e: int):
        law = column()
        for k in range(wp.static(len(ROWS))):
            law[k] = contact[k, e]
        return law

    @wp.func
    def energy_lever(c: real, delta: real):
        """Elastic energy over ke, and its derivative with respect to delta; that with respect to depth is the lever."""
        lever = half * c * c - half * delta * c + delta * delta / six
        lever_delta = delta / three - half * c
        if c < delta:
            t = c / delta
            lever = c * c * t / six
            lever_delta = -c * t * t / six
        if delta <= zero:
            lever_delta = zero
        return lever, lever_delta

    @wp.func
    def impact_factor(x: real, inverse: real):
        """Impact speed over s, and its derivatives with respect to phase and 1/e."""
        root = wp.sqrt(inverse)
        w = half * (one - x * x * x)
        b = two * (one - root) * (one - root)
        a = inverse - one - b
        b_inverse = two - two / root
        factor_x = (a + two * b * w) * (-three * half * x * x)
        return one + w * (a + b * w), factor_x, w + b_inverse * (w * w - w)

    @wp.func
    def damping_ratio(rate: real, stored: real, law: column):
        """d / f_e for a rate of the depth [m/s] and stored = 2 E/m [m^2/s^2]."""
        s = wp.sqrt(rate * rate + stored + tiny)
        x = rate / s
        factor, factor_x, factor_inverse = impact_factor(x, law[wp.static(ROWS.inverse)])
        z = law[wp.static(ROWS.slope)] * (s * factor - law[wp.static(ROWS.speed)])
        return law[wp.static(ROWS.loss)] * (z + wp.sqrt(one + z * z)) * x

    @wp.func
    def damping_ratio_adjoint(b: real, rate: real, stored: real, law: column):
        """Adjoints of rate, stored and law, from the adjoint b of the ratio."""
        s = wp.sqrt(rate * rate + stored + tiny)
        x = rate / s
        loss = law[wp.static(ROWS.loss)]
        slope = law[wp.static(ROWS.slope)]
        factor, factor_x, factor_inverse = impact_factor(x, law[wp.static(ROWS.inverse)])
        excess = s * factor - law[wp.static(ROWS.speed)]
        z = slope * excess
        root = wp.sqrt(one + z * z)
        q = z + root
        z_adj = b * x * loss * q / root
        v_adj = z_adj * slope
        law_adj = column()
        law_adj[wp.static(ROWS.loss)] = b * x * q
        law_adj[wp.static(ROWS.slope)] = z_adj * excess
        law_adj[wp.static(ROWS.speed)] = -v_adj
        law_adj[wp.static(ROWS.inverse)] = v_adj * s * factor_inverse
        x_adj = b * loss * q + v_adj * s * factor_x
        s_adj = v_adj * factor
        rate_adj = x_adj * (one - x * x) / s + s_adj * x
        return rate_adj, half * (s_adj - x_adj * x / s) / s, law_adj

    @wp.func
    def restitution_normal(c: real, vn: real, stored: real, law: column):
        """Normal force at depth c > 0 [m] for a normal velocity vn."""
        lever, lever_c, lever_delta = elastic_lever(c, law[wp.static(ROWS.delta)])
        ratio = damping_ratio(-vn, stored, law)
        fn = law[wp.static(ROWS.ke)] * lever
        if ratio >= zero:
            fn = fn * (one + ratio)
        else:
            fn = fn / (one - ratio)
        return fn

    @wp.func
    def restitution_normal_adjoint(fn_adj: real, c: real, vn: real, stored: real, law: column):
        """Adjoints of depth, normal velocity, stored and law."""
        ke = law[wp.static(ROWS.ke)]
        lever, lever_c, lever_delta = elastic_lever(c, law[wp.static(ROWS.delta)])
        ratio = damping_ratio(-vn, stored, law)
        gain = one + ratio
        gain_ratio = one
        if ratio < zero:
            gain = one / (one - ratio)
            gain_ratio = gain * gain
        lever_adj = fn_adj * ke * gain
        rate_adj, stored_adj, law_adj = damping_ratio_adjoint(fn_adj * ke * lever * gain_ratio, -vn, stored, law)
        law_adj[wp.static(ROWS.ke)] = fn_adj * lever * gain
        law_adj[wp.static(ROWS.delta)] = lever_adj * lever_delta
        return lever_adj * lever_c, -rate_adj, stored_adj, law_adj

    return RestitutionFunctions(
        law=contact_law,
        energy=energy_lever,
        normal=restitution_normal,
        normal_adjoint=restitution_normal_adjoint,
    )
