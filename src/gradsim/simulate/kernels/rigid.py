"""Rigid bodies: Newton and Euler in the form that conserves, with momentum and angular momentum as the state.

A body is the place p of its centre of mass, its rotation q (a unit quaternion), its velocity v and its angular momentum
l about the centre, in the world's axes. Then dp/dt = v, dv/dt = f/m + g, dl/dt = torque, and dq/dt = (w, 0) q / 2 with
the spin w = R J R' l, J being the inverse inertia in the body's axes: the gyroscopic term is in the turning R, and
without torque l does not change at all. Every update of q ends with a normalization.

Forces are in `touch.py`. On the CPU `march.py` does the same work natively; these kernels are the reference, and serve
every other device.
"""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import types_of

PARAMETERS = (
    "inverse_mass",  # [1/kg]
    *(f"gravity_{axis}" for axis in "xyz"),  # [m/s^2]
    *(f"center_{axis}" for axis in "xyz"),  # of mass, in the body's axes [m]
    *(f"inverse_inertia_{axes}" for axes in ("xx", "yy", "zz", "yz", "zx", "xy")),  # body's axes [1/(kg m^2)]
)
PUSH = (*(f"force_{axis}" for axis in "xyz"), *(f"point_{axis}" for axis in "xyz"), "start", "end")  # [N], [m], [s]


class RigidKernels(NamedTuple):
    euler: Any
    euler_adjoint: Any
    half: Any
    half_adjoint: Any
    full: Any
    full_adjoint: Any


@functools.cache
def spin_functions(real: Any) -> tuple[Any, ...]:
    """Spin from angular momentum, the turning of a rotation by it, and their adjoints as gradients of a work."""
    types = types_of(real)
    vec3, mat33, table = types.vec3, types.mat33, types.table
    quat = wp.types.quaternion(real)
    half = real(0.5)

    @wp.func
    def inverse_inertia(body: table, i: int):
        xx = body[7, i]
        yy = body[8, i]
        zz = body[9, i]
        yz = body[10, i]
        zx = body[11, i]
        xy = body[12, i]
        return mat33(xx, xy, zx, xy, yy, yz, zx, yz, zz)

    @wp.func
    def add_inertia_adjoint(J: mat33, body_adj: table, i: int):
        wp.atomic_add(body_adj, 7, i, J[0, 0])
        wp.atomic_add(body_adj, 8, i, J[1, 1])
        wp.atomic_add(body_adj, 9, i, J[2, 2])
        wp.atomic_add(body_adj, 10, i, J[1, 2] + J[2, 1])
        wp.atomic_add(body_adj, 11, i, J[0, 2] + J[2, 0])
        wp.atomic_add(body_adj, 12, i, J[0, 1] + J[1, 0])

    @wp.func
    def spin(q: quat, l: vec3, J: mat33):
        R = wp.quat_to_matrix(q)
        return R * (J * (wp.transpose(R) * l))

    @wp.func
    def spin_work(b: vec3, q: quat, l: vec3, J: mat33):
        return wp.dot(b, spin(q, l, J))

    @wp.func
    def turn(start: quat, q: quat, l: vec3, J: mat33, h: real):
        """The rotation `start` turned for a time h by the spin at (q, l)."""
        w = spin(q, l, J) * (half * h)
        return wp.normalize(start + quat(w[0], w[1], w[2], real(0.0)) * q)

    @wp.func
    def turn_work(b: quat, start: quat, q: quat, l: vec3, J: mat33, h: real):
        return wp.dot(b, turn(start, q, l, J, h))

    @wp.func
    def rotation_work(B: mat33, q: quat):
        return wp.ddot(B, wp.quat_to_matrix(q))

    return inverse_inertia, add_inertia_adjoint, spin, spin_work, turn, turn_work, rotation_work


@functools.cache
def rigid_kernels(real: Any) -> RigidKernels:
    types = types_of(real)
    vec3, vec3s, table, reals = types.vec3, types.vec3s, types.table, types.reals
    quat = wp.types.quaternion(real)
    quats = wp.array(dtype=quat)
    rows, turns = wp.array(dtype=vec3, ndim=2), wp.array(dtype=quat, ndim=2)
    clocks = wp.array(dtype=wp.int32)
    module = kernel_module("rigid", real)
    inverse_inertia, add_inertia_adjoint, _, _, turn, turn_work, _ = spin_functions(real)
    half_step = real(0.5)

    @wp.func
    def acceleration(body: table, i: int, f: vec3):
        return f * body[0, i] + vec3(body[1, i], body[2, i], body[3, i])

    @wp.func
    def acceleration_adjoint(body: table, i: int, f: vec3, a: vec3, body_adj: table):
        body_adj[0, i] = body_adj[0, i] + wp.dot(a, f)
        for k in range(3):
            body_adj[1 + k, i] = body_adj[1 + k, i] + a[k]
        return a * body[0, i]

    # `wp.grad` makes Warp differentiate a function and what it calls, but not what those call in turn, and says nothing
    # (1.19): a kernel with a backward pass makes it differentiate all of them.
    @wp.kernel(enable_backward=True, module=module)
    def euler(
        clock: clocks, row: int, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        """Velocity and momentum first, then place and rotation with the new ones.

        The rotation takes the spin at the middle of the step, which costs no force and leaves free tumbling as good as
        with the midpoint rule.
        """
        i = wp.tid()
        r = clock[1] + row
        ps[r, i] = p[i]
        qs[r, i] = q[i]
        vs[r, i] = v[i]
        ls[r, i] = l[i]
        fs[r, i] = f[i]
        ts[r, i] = t[i]
        v1 = v[i] + acceleration(body, i, f[i]) * dt[0]
        l1 = l[i] + t[i] * dt[0]
        J = inverse_inertia(body, i)
        middle = turn(q[i], q[i], l1, J, half_step * dt[0])
        q[i] = turn(q[i], middle, l1, J, dt[0])
        p[i] = p[i] + v1 * dt[0]
        v[i] = v1
        l[i] = l1
        f[i] = vec3()
        t[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def euler_adjoint(
        clock: clocks, row: int, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s, f_adj: vec3s, t_adj: vec3s, body_adj: table,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        p[i] = ps[r, i]
        q[i] = qs[r, i]
        v[i] = vs[r, i]
        l[i] = ls[r, i]
        v1_adj = v_adj[i] + p_adj[i] * dt[0]
        v_adj[i] = v1_adj
        f_adj[i] = acceleration_adjoint(body, i, fs[r, i], v1_adj * dt[0], body_adj)
        l1 = ls[r, i] + ts[r, i] * dt[0]
        J = inverse_inertia(body, i)
        q0 = qs[r, i]
        half_dt = half_step * dt[0]
        middle = turn(q0, q0, l1, J, half_dt)
        b, start_adj, middle_adj, l1_adj, J_adj, h = wp.grad(turn_work)(q_adj[i], q0, middle, l1, J, dt[0])
        b2, start2_adj, at2_adj, l2_adj, J2_adj, h2 = wp.grad(turn_work)(middle_adj, q0, q0, l1, J, half_dt)
        q_adj[i] = start_adj + start2_adj + at2_adj
        l_adj[i] = l_adj[i] + l1_adj + l2_adj
        t_adj[i] = l_adj[i] * dt[0]
        add_inertia_adjoint(J_adj + J2_adj, body_adj, i)

    @wp.kernel(enable_backward=False, module=module)
    def half(
        clock: clocks, row: int, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        """Explicit midpoint, first half: the state at the middle of the step."""
        i = wp.tid()
        r = clock[1] + row
        ps[r, i] = p[i]
        qs[r, i] = q[i]
        vs[r, i] = v[i]
        ls[r, i] = l[i]
        fs[r, i] = f[i]
        ts[r, i] = t[i]
        h = half_step * dt[0]
        q[i] = turn(q[i], q[i], l[i], inverse_inertia(body, i), h)
        p[i] = p[i] + v[i] * h
        v[i] = v[i] + acceleration(body, i, f[i]) * h
        l[i] = l[i] + t[i] * h
        f[i] = vec3()
        t[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def full(
        clock: clocks, row: int, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        """Explicit midpoint, second half: the whole step with the rates at its middle."""
        i = wp.tid()
        r = clock[1] + row
        ps[r, i] = p[i]
        qs[r, i] = q[i]
        vs[r, i] = v[i]
        ls[r, i] = l[i]
        fs[r, i] = f[i]
        ts[r, i] = t[i]
        q[i] = turn(qs[r - 1, i], q[i], l[i], inverse_inertia(body, i), dt[0])
        p[i] = ps[r - 1, i] + v[i] * dt[0]
        v[i] = vs[r - 1, i] + acceleration(body, i, f[i]) * dt[0]
        l[i] = ls[r - 1, i] + t[i] * dt[0]
        f[i] = vec3()
        t[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def full_adjoint(
        clock: clocks, row: int, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s, f_adj: vec3s, t_adj: vec3s, body_adj: table,
        p_end: vec3s, q_end: quats, v_end: vec3s, l_end: vec3s,
    ):  # fmt: skip
        """From the adjoint at the end of the step to that at its middle; its start's share waits in the ends."""
        i = wp.tid()
        r = clock[1] + row
        p[i] = ps[r, i]
        q[i] = qs[r, i]
        v[i] = vs[r, i]
        l[i] = ls[r, i]
        p_end[i] = p_adj[i]
        v_end[i] = v_adj[i]
        l_end[i] = l_adj[i]
        f_adj[i] = acceleration_adjoint(body, i, fs[r, i], v_adj[i] * dt[0], body_adj)
        t_adj[i] = l_adj[i] * dt[0]
        J = inverse_inertia(body, i)
        b, start_adj, at_adj, l_at_adj, J_adj, h = wp.grad(turn_work)(
            q_adj[i], qs[r - 1, i], qs[r, i], ls[r, i], J, dt[0]
        )
        q_end[i] = start_adj
        q_adj[i] = at_adj
        l_adj[i] = l_at_adj
        v_adj[i] = p_adj[i] * dt[0]
        p_adj[i] = vec3()
        add_inertia_adjoint(J_adj, body_adj, i)

    @wp.kernel(enable_backward=False, module=module)
    def half_adjoint(
        clock: clocks, row: int, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s, f_adj: vec3s, t_adj: vec3s, body_adj: table,
        p_end: vec3s, q_end: quats, v_end: vec3s, l_end: vec3s,
    ):  # fmt: skip
        """From the adjoint at the middle to that at the start of the step."""
        i = wp.tid()
        r = clock[1] + row
        p[i] = ps[r, i]
        q[i] = qs[r, i]
        v[i] = vs[r, i]
        l[i] = ls[r, i]
        h = half_step * dt[0]
        f_adj[i] = acceleration_adjoint(body, i, fs[r, i], v_adj[i] * h, body_adj)
        t_adj[i] = l_adj[i] * h
        J = inverse_inertia(body, i)
        b, start_adj, at_adj, l_at_adj, J_adj, h_adj = wp.grad(turn_work)(q_adj[i], qs[r, i], qs[r, i], ls[r, i], J, h)
        q_adj[i] = q_end[i] + start_adj + at_adj
        l_adj[i] = l_end[i] + l_adj[i] + l_at_adj
        v_adj[i] = v_end[i] + p_adj[i] * h + v_adj[i]
        p_adj[i] = p_end[i] + p_adj[i]
        add_inertia_adjoint(J_adj, body_adj, i)

    return RigidKernels(euler, euler_adjoint, half, half_adjoint, full, full_adjoint)
