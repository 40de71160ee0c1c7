"""Updates of rigid bodies: Newton-Euler equations with momentum and angular momentum as the state.

A body is the position p of its centre of mass, its rotation q (a unit quaternion), its velocity v and its angular
momentum l about the centre, in world axes. Then dp/dt = v, dv/dt = f/m + g, dl/dt = torque, and dq/dt = (w, 0) q / 2
with the spin w = R J R' l, J being the inverse inertia in the body's axes: the gyroscopic term is in the rotation of R,
and without torque l is constant. Every update of q ends with a normalization. Where a stage uses the new velocity, the
rotation takes the new momentum at the middle of the interval, which costs no evaluation of the forces and leaves free
tumbling as accurate as with the midpoint rule.
"""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels import UpdateKernels

ROWS = Rows(
    "rigid",
    "inverse_mass",  # [1/kg]
    *(f"gravity_{axis}" for axis in "xyz"),  # [m/s^2]
    *(f"center_{axis}" for axis in "xyz"),  # of mass, in the body's axes [m]
    *(f"inverse_inertia_{axes}" for axes in ("xx", "yy", "zz", "yz", "zx", "xy")),  # body's axes [1/(kg m^2)]
)


class RotationFunctions(NamedTuple):
    """Warp functions of rotations; those named `..._work` are differentiated with `wp.grad`."""

    inverse_inertia: Any
    add_inertia_adjoint: Any
    spin: Any
    spin_work: Any
    rate: Any
    rate_work: Any
    normalize_work: Any
    rotation_work: Any


@functools.cache
def rotation_functions(real: Any) -> RotationFunctions:
    """Spin from angular momentum, the rate of a rotation, and their adjoints as gradients of a scalar product."""
    types = types_of(real)
    vec3, mat33, table, quat = types.vec3, types.mat33, types.table, types.quat
    half, zero = real(0.5), real(0.0)
    XX, CENTER = ROWS.inverse_inertia_xx, ROWS.center_x
    assert (XX, CENTER) == (7, 4)

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
    def rate(q: quat, l: vec3, J: mat33):
        """dq/dt."""
        w = spin(q, l, J) * half
        return quat(w[0], w[1], w[2], zero) * q

    @wp.func
    def rate_work(b: quat, q: quat, l: vec3, J: mat33):
        return wp.dot(b, rate(q, l, J))

    @wp.func
    def normalize_work(b: quat, q: quat):
        return wp.dot(b, wp.normalize(q))

    @wp.func
    def rotation_work(B: mat33, q: quat):
        return wp.ddot(B, wp.quat_to_matrix(q))

    return RotationFunctions(
        inverse_inertia, add_inertia_adjoint, spin, spin_work, rate, rate_work, normalize_work, rotation_work
    )


@functools.cache
def rigid_kernels(real: Any) -> UpdateKernels:
    types = types_of(real)
    vec3, vec3s, table, reals, ints = types.vec3, types.vec3s, types.table, types.reals, types.ints
    quat, quats, mat33 = types.quat, types.quats, types.mat33
    rows, turns = wp.array(dtype=vec3, ndim=2), wp.array(dtype=quat, ndim=2)
    module = kernel_module("rigid", real)
    functions = rotation_functions(real)
    inverse_inertia, add_inertia_adjoint = functions.inverse_inertia, functions.add_inertia_adjoint
    rate, rate_work, normalize_work = functions.rate, functions.rate_work, functions.normalize_work
    zero, half = real(0.0), real(0.5)

    @wp.func
    def acceleration(body: table, i: int, f: vec3):
        return f * body[0, i] + vec3(body[1, i], body[2, i], body[3, i])

    @wp.func
    def acceleration_adjoint(body: table, i: int, f: vec3, a: vec3, body_adj: table):
        body_adj[0, i] = body_adj[0, i] + wp.dot(a, f)
        for k in range(3):
            body_adj[1 + k, i] = body_adj[1 + k, i] + a[k]
        return a * body[0, i]

    @wp.func
    def stage_sum(stage: int, stages: int, weights: table, dt: real, first: int, i: int, J: mat33, qs: turns, ls: rows):
        """The start's rotation with the rates of the stages so far added, not normalized."""
        q = qs[first, i]
        for j in range(stage + 1):
            if weights[stage, stages + j] != zero:
                q = q + rate(qs[first + j, i], ls[first + j, i], J) * (weights[stage, stages + j] * dt)
        return q

    # `wp.grad` makes Warp differentiate a function and what it calls, but not what those call in turn, and says nothing
    # (1.19): a kernel with a backward pass makes it differentiate all of them.
    @wp.kernel(enable_backward=True, module=module)
    def differentiated(q: quats, l: vec3s, J: wp.array(dtype=mat33), result: quats):
        i = wp.tid()
        result[i] = wp.normalize(rate(q[i], l[i], J[i]))

    @wp.kernel(enable_backward=False, module=module)
    def rigid_update(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        first = r - stage
        ps[r, i] = p[i]
        qs[r, i] = q[i]
        vs[r, i] = v[i]
        ls[r, i] = l[i]
        fs[r, i] = f[i]
        ts[r, i] = t[i]
        dv = vec3()
        dl = vec3()
        dp = vec3()
        for j in range(stage + 1):
            if weights[stage, j] != zero:
                dv += acceleration(body, i, fs[first + j, i]) * weights[stage, j]
                dl += ts[first + j, i] * weights[stage, j]
            if weights[stage, stages + j] != zero:
                dp += vs[first + j, i] * weights[stage, stages + j]
        J = inverse_inertia(body, i)
        v1 = vs[first, i] + dv * dt[0]
        l1 = ls[first, i] + dl * dt[0]
        new = weights[stage, 2 * stages] * dt[0]
        q1 = wp.normalize(stage_sum(stage, stages, weights, dt[0], first, i, J, qs, ls))
        if new != zero:
            middle = wp.normalize(q1 + rate(q1, l1, J) * (half * new))
            q1 = wp.normalize(q1 + rate(middle, l1, J) * new)
        p[i] = ps[first, i] + dp * dt[0] + v1 * new
        q[i] = q1
        v[i] = v1
        l[i] = l1
        f[i] = vec3()
        t[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def rigid_update_adjoint(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, body: table,
        ps: rows, qs: turns, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s, f_adj: vec3s, t_adj: vec3s, body_adj: table,
        p_start: vec3s, q_start: quats, v_start: vec3s, l_start: vec3s,
        v_stage: rows, q_stage: turns, a_stage: rows, t_stage: rows,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        first = r - stage
        p[i] = ps[r, i]
        q[i] = qs[r, i]
        v[i] = vs[r, i]
        l[i] = ls[r, i]
        J = inverse_inertia(body, i)
        new = weights[stage, 2 * stages] * dt[0]
        ap = p_adj[i]
        av = v_adj[i] + ap * new
        al = l_adj[i]
        aq = q_adj[i]
        aJ = mat33()
        sum = stage_sum(stage, stages, weights, dt[0], first, i, J, qs, ls)
        if new != zero:
            dl = vec3()
            for j in range(stage + 1):
                dl += ts[first + j, i] * weights[stage, j]
            l1 = ls[first, i] + dl * dt[0]
            q0 = wp.normalize(sum)
            one = q0 + rate(q0, l1, J) * (half * new)
            middle = wp.normalize(one)
            b2, two_adj = wp.grad(normalize_work)(aq, q0 + rate(middle, l1, J) * new)
            b3, middle_adj, l2_adj, J2_adj = wp.grad(rate_work)(two_adj * new, middle, l1, J)
            b4, one_adj = wp.grad(normalize_work)(middle_adj, one)
            b5, at_adj, l3_adj, J3_adj = wp.grad(rate_work)(one_adj * (half * new), q0, l1, J)
            aq = two_adj + one_adj + at_adj
            al = al + l2_adj + l3_adj
            aJ += J2_adj + J3_adj
        b, sum_adj = wp.grad(normalize_work)(aq, sum)
        if stage == stages - 1:
            p_start[i] = vec3()
            q_start[i] = quat()
            v_start[i] = vec3()
            l_start[i] = vec3()
            for j in range(stages):
                v_stage[j, i] = vec3()
                q_stage[j, i] = quat()
                a_stage[j, i] = vec3()
                t_stage[j, i] = vec3()
        p_start[i] = p_start[i] + ap
        q_start[i] = q_start[i] + sum_adj
        v_start[i] = v_start[i] + av
        l_start[i] = l_start[i] + al
        for j in range(stage + 1):
            a_stage[j, i] = a_stage[j, i] + av * (weights[stage, j] * dt[0])
            t_stage[j, i] = t_stage[j, i] + al * (weights[stage, j] * dt[0])
            v_stage[j, i] = v_stage[j, i] + ap * (weights[stage, stages + j] * dt[0])
            q_stage[j, i] = q_stage[j, i] + sum_adj * (weights[stage, stages + j] * dt[0])
        f_adj[i] = acceleration_adjoint(body, i, fs[r, i], a_stage[stage, i], body_adj)
        t_adj[i] = t_stage[stage, i]
        b6, q_rate_adj, l_rate_adj, J_rate_adj = wp.grad(rate_work)(q_stage[stage, i], q[i], l[i], J)
        add_inertia_adjoint(aJ + J_rate_adj, body_adj, i)
        p_adj[i] = vec3()
        q_adj[i] = q_rate_adj
        v_adj[i] = v_stage[stage, i]
        l_adj[i] = l_rate_adj
        if stage == 0:
            p_adj[i] = p_start[i]
            q_adj[i] = q_start[i] + q_rate_adj
            v_adj[i] = v_start[i] + v_stage[0, i]
            l_adj[i] = l_start[i] + l_rate_adj

    return UpdateKernels(rigid_update, rigid_update_adjoint)
