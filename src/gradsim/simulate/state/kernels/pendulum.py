"""Rollout of simple and double pendula by the classical Runge-Kutta rule, independent of the scene's integrator.

Angles are measured from straight down, about z. Rods are thin and uniform, bobs are points. The rule is of fourth
order, so that the energy drifts by at most (rate dt)^5 per step. No force couples pendula to other bodies, so a thread
takes one pendulum through all steps of a captured graph.
"""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels import UpdateKernels

ROWS = Rows(
    "pendulum",
    *("length_1", "length_2"),  # [m]; a simple pendulum ignores the second of each pair
    *("mass_1", "mass_2"),  # of the bobs [kg]
    *("rod_1", "rod_2"),  # masses of the rods [kg]
    *("damping_1", "damping_2"),  # torque of a joint over its rate [N m s]
    *("drag_1", "drag_2"),  # drag of a bob over its speed [N s/m]
    *("gravity_x", "gravity_y"),  # [m/s^2]
)


@functools.cache
def pendulum_kernels(real: Any) -> UpdateKernels:
    types = types_of(real)
    table = types.table
    vec2, vec4 = wp.types.vector(2, real), wp.types.vector(4, real)
    constants_ = wp.types.vector(len(ROWS), real)
    vec2s, rows = wp.array(dtype=vec2), wp.array(dtype=vec2, ndim=2)
    ints = types.ints
    module = kernel_module("pendulum", real)
    zero, half, third, sixth, two = (real(a) for a in (0.0, 0.5, 1.0 / 3.0, 1.0 / 6.0, 2.0))

    @wp.func
    def rates(links: int, s: vec4, c: constants_):
        """Time derivative of (angle 1, angle 2, rate 1, rate 2), from Lagrange's equations."""
        l1 = c[wp.static(ROWS.length_1)]
        l2 = c[wp.static(ROWS.length_2)]
        m1 = c[wp.static(ROWS.mass_1)]
        m2 = c[wp.static(ROWS.mass_2)]
        rod1 = c[wp.static(ROWS.rod_1)]
        rod2 = c[wp.static(ROWS.rod_2)]
        k1 = c[wp.static(ROWS.damping_1)] + c[wp.static(ROWS.drag_1)] * l1 * l1
        gx = c[wp.static(ROWS.gravity_x)]
        gy = c[wp.static(ROWS.gravity_y)]
        pull1 = gx * wp.cos(s[0]) + gy * wp.sin(s[0])  # gravity along the paths of the bobs
        pull2 = gx * wp.cos(s[1]) + gy * wp.sin(s[1])
        a1 = ((m1 + half * rod1) * l1 * pull1 - k1 * s[2]) / ((m1 + third * rod1) * l1 * l1)
        a2 = zero
        w2 = zero
        if links == 2:
            w2 = s[3]
            moved = m2 + rod2  # mass that the first link carries
            lever = (m2 + half * rod2) * l2  # mass of the second link times the distance of its centre
            cd = wp.cos(s[0] - s[1])
            sd = wp.sin(s[0] - s[1])
            drag2 = c[wp.static(ROWS.drag_2)]
            joint = c[wp.static(ROWS.damping_2)] * (s[3] - s[2])
            r1 = (m1 + half * rod1 + moved) * l1 * pull1 - l1 * lever * sd * s[3] * s[3]
            r1 += joint - k1 * s[2] - drag2 * l1 * (l1 * s[2] + l2 * cd * s[3])
            r2 = lever * pull2 + l1 * lever * sd * s[2] * s[2] - joint - drag2 * l2 * (l2 * s[3] + l1 * cd * s[2])
            m11 = (m1 + third * rod1 + moved) * l1 * l1
            m12 = lever * l1 * cd
            m22 = (m2 + third * rod2) * l2 * l2
            det = m11 * m22 - m12 * m12
            a1 = (m22 * r1 - m12 * r2) / det
            a2 = (m11 * r2 - m12 * r1) / det
        return vec4(s[2], w2, a1, a2)

    @wp.func
    def runge_kutta(links: int, s: vec4, c: constants_, h: real):
        k1 = rates(links, s, c)
        k2 = rates(links, s + k1 * (half * h), c)
        k3 = rates(links, s + k2 * (half * h), c)
        k4 = rates(links, s + k3 * h, c)
        return s + (k1 + k2 * two + k3 * two + k4) * (sixth * h)

    @wp.func
    def step_inner(b: vec4, links: int, s: vec4, c: constants_, h: real):
        return wp.dot(b, runge_kutta(links, s, c, h))

    @wp.func
    def constants(values: table, i: int):
        return constants_(
            values[0, i], values[1, i], values[2, i], values[3, i], values[4, i], values[5, i],
            values[6, i], values[7, i], values[8, i], values[9, i], values[10, i], values[11, i],
        )  # fmt: skip

    # `wp.grad` of Warp 1.19 silently omits the adjoints of functions more than one call deep. A kernel with a backward
    # pass generates all of them.
    @wp.kernel(enable_backward=True, module=module)
    def differentiated(
        links: ints, values: table, dt: types.reals, s: wp.array(dtype=vec4), result: wp.array(dtype=vec4)
    ):
        i = wp.tid()
        result[i] = runge_kutta(links[i], s[i], constants(values, i), dt[0])

    @wp.kernel(enable_backward=False, module=module)
    def pendulum_rollout(
        steps: int, evaluations: int, clock: ints, dt: types.reals, links: ints, values: table,
        angles: rows, rates_: rows, angle: vec2s, rate: vec2s,
    ):  # fmt: skip
        i = wp.tid()
        c = constants(values, i)
        s = vec4(angle[i][0], angle[i][1], rate[i][0], rate[i][1])
        for step in range(steps):
            if clock[3] != 0:
                r = clock[1] + step * evaluations
                angles[r, i] = vec2(s[0], s[1])
                rates_[r, i] = vec2(s[2], s[3])
            s = runge_kutta(links[i], s, c, dt[0])
        angle[i] = vec2(s[0], s[1])
        rate[i] = vec2(s[2], s[3])

    @wp.kernel(enable_backward=False, module=module)
    def pendulum_rollout_adjoint(
        steps: int, evaluations: int, clock: ints, dt: types.reals, links: ints, values: table,
        angles: rows, rates_: rows, angle_adj: vec2s, rate_adj: vec2s, values_adj: table,
    ):  # fmt: skip
        i = wp.tid()
        c = constants(values, i)
        b = vec4(angle_adj[i][0], angle_adj[i][1], rate_adj[i][0], rate_adj[i][1])
        for k in range(steps):
            r = clock[1] + (steps - 1 - k) * evaluations
            a = angles[r, i]
            w = rates_[r, i]
            b_adj, links_adj, s_adj, c_adj, h_adj = wp.grad(step_inner)(
                b, links[i], vec4(a[0], a[1], w[0], w[1]), c, dt[0]
            )
            b = s_adj
            for m in range(wp.static(len(ROWS))):
                values_adj[m, i] = values_adj[m, i] + c_adj[m]
        angle_adj[i] = vec2(b[0], b[1])
        rate_adj[i] = vec2(b[2], b[3])

    return UpdateKernels(pendulum_rollout, pendulum_rollout_adjoint)
