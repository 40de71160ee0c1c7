"""Simple and double pendula in their angles, a whole step of the classical Runge-Kutta rule at once.

Angles are measured from straight down, rotating about z; rods are massless and bobs are points. The rule is of fourth
order, so that energy drifts by no more than (rate dt)^5 a step, far below what the other bodies' integrators leave.
"""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import types_of

# [m], [kg], torque of a joint over its rate [N m s], [m/s^2]; a simple pendulum takes no heed of the second ones
PARAMETERS = ("length_1", "length_2", "mass_1", "mass_2", "damping_1", "damping_2", "gravity_x", "gravity_y")


class PendulumKernels(NamedTuple):
    step: Any
    step_adjoint: Any


@functools.cache
def pendulum_kernels(real: Any) -> PendulumKernels:
    types = types_of(real)
    table = types.table
    vec2, vec4 = wp.types.vector(2, real), wp.types.vector(4, real)
    vec8 = wp.types.vector(8, real)
    vec2s, rows = wp.array(dtype=vec2), wp.array(dtype=vec2, ndim=2)
    clocks, ints = wp.array(dtype=wp.int32), wp.array(dtype=wp.int32)
    module = kernel_module("pendulum", real)
    zero, half, sixth, two = (real(a) for a in (0.0, 0.5, 1.0 / 6.0, 2.0))

    @wp.func
    def rates(links: int, s: vec4, c: vec8):
        """Time derivative of (angle 1, angle 2, rate 1, rate 2), from the mass matrix and the torques of Lagrange."""
        l1 = c[0]
        l2 = c[1]
        m2 = c[3]
        pull1 = c[6] * wp.cos(s[0]) + c[7] * wp.sin(s[0])  # gravity along the bobs' paths
        pull2 = c[6] * wp.cos(s[1]) + c[7] * wp.sin(s[1])
        a1 = pull1 / l1 - c[4] * s[2] / (c[2] * l1 * l1)
        a2 = zero
        w2 = zero
        if links == 2:
            w2 = s[3]
            m = c[2] + m2
            cd = wp.cos(s[0] - s[1])
            sd = wp.sin(s[0] - s[1])
            joint = c[5] * (s[3] - s[2])
            r1 = m * l1 * pull1 - m2 * l1 * l2 * sd * s[3] * s[3] - c[4] * s[2] + joint
            r2 = m2 * l2 * pull2 + m2 * l1 * l2 * sd * s[2] * s[2] - joint
            m11 = m * l1 * l1
            m12 = m2 * l1 * l2 * cd
            m22 = m2 * l2 * l2
            det = m11 * m22 - m12 * m12
            a1 = (m22 * r1 - m12 * r2) / det
            a2 = (m11 * r2 - m12 * r1) / det
        return vec4(s[2], w2, a1, a2)

    @wp.func
    def runge_kutta(links: int, s: vec4, c: vec8, h: real):
        k1 = rates(links, s, c)
        k2 = rates(links, s + k1 * (half * h), c)
        k3 = rates(links, s + k2 * (half * h), c)
        k4 = rates(links, s + k3 * h, c)
        return s + (k1 + k2 * two + k3 * two + k4) * (sixth * h)

    @wp.func
    def step_work(b: vec4, links: int, s: vec4, c: vec8, h: real):
        return wp.dot(b, runge_kutta(links, s, c, h))

    @wp.func
    def constants(values: table, i: int):
        return vec8(
            values[0, i], values[1, i], values[2, i], values[3, i],
            values[4, i], values[5, i], values[6, i], values[7, i],
        )  # fmt: skip

    # `wp.grad` makes Warp differentiate a function and what it calls, but not what those call in turn, and says nothing
    # (1.19): a kernel with a backward pass makes it differentiate all of them.
    @wp.kernel(enable_backward=True, module=module)
    def step(
        clock: clocks, row: int, dt: types.reals, links: ints, values: table,
        angles: rows, rates_: rows, angle: vec2s, rate: vec2s,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        angles[r, i] = angle[i]
        rates_[r, i] = rate[i]
        s = vec4(angle[i][0], angle[i][1], rate[i][0], rate[i][1])
        s1 = runge_kutta(links[i], s, constants(values, i), dt[0])
        angle[i] = vec2(s1[0], s1[1])
        rate[i] = vec2(s1[2], s1[3])

    @wp.kernel(enable_backward=False, module=module)
    def step_adjoint(
        clock: clocks, row: int, dt: types.reals, links: ints, values: table,
        angles: rows, rates_: rows, angle_adj: vec2s, rate_adj: vec2s, values_adj: table,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        a = angles[r, i]
        w = rates_[r, i]
        b = vec4(angle_adj[i][0], angle_adj[i][1], rate_adj[i][0], rate_adj[i][1])
        b_adj, links_adj, s_adj, c_adj, h_adj = wp.grad(step_work)(
            b, links[i], vec4(a[0], a[1], w[0], w[1]), constants(values, i), dt[0]
        )
        angle_adj[i] = vec2(s_adj[0], s_adj[1])
        rate_adj[i] = vec2(s_adj[2], s_adj[3])
        for k in range(8):
            values_adj[k, i] = values_adj[k, i] + c_adj[k]

    return PendulumKernels(step, step_adjoint)
