"""Updates of rigid bodies: Newton-Euler equations with momentum and angular momentum as the state.

A body is the position p of its centre of mass, its rotation q (a unit quaternion), its velocity v and its angular
momentum l about the centre, in world axes. Then dp/dt = v, dv/dt = f/m + g, dl/dt = torque, and dq/dt = (w, 0) q / 2
with the angular velocity w = R J R' l, where J is the inverse inertia in body axes. The rotation of J accounts for the
gyroscopic term, and without torque l is constant. Every update of q ends with a normalization. Where a stage uses the
new velocity, the rotation is advanced by the midpoint rule with the new momentum. This needs no evaluation of the
forces and makes free rotation second order.
"""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Enumeration, Rows
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels import UpdateKernels

ROWS = Rows(
    "rigid",
    "inverse_mass",  # [1/kg]
    *(f"gravity_{axis}" for axis in "xyz"),  # [m/s^2]
    *(f"center_{axis}" for axis in "xyz"),  # of mass, in the body's axes [m]
    *(f"inverse_inertia_{axes}" for axes in ("xx", "yy", "zz", "yz", "zx", "xy")),  # body's axes [1/(kg m^2)]
    *(f"scale_{axis}" for axis in "xyz"),  # from mesh to body coordinates
)


# A body with the contact points of its mesh, one with a size of its own, and a ball, whose scale is its radius.
FORMS = Enumeration("rigid_form", ("mesh", "sized_mesh", "ball"))


class RotationFunctions(NamedTuple):
    """Warp functions of rigid bodies.

    Those named `..._inner` return the inner product of a vector with another function. Their gradients by `wp.grad` are
    the vector-Jacobian products of that function.
    """

    center_of_mass: Any
    add_center_adjoint: Any
    scale: Any
    add_scale_adjoint: Any
    inverse_inertia: Any
    add_inertia_adjoint: Any
    spin: Any  # angular velocity
    spin_inner: Any
    rate: Any
    rate_inner: Any
    normalize_inner: Any
    rotation_inner: Any


@functools.cache
def rotation_functions(real: Any) -> RotationFunctions:
    """Returns the Warp functions of rigid bodies in one precision."""
    types = types_of(real)
    vec3, mat33, table, quat = types.vec3, types.mat33, types.table, types.quat
    half, zero = real(0.5), real(0.0)

    @wp.func
    def center_of_mass(body: table, i: int):
        """In body axes."""
        x = body[wp.static(ROWS.center_x), i]
        return vec3(x, body[wp.static(ROWS.center_y), i], body[wp.static(ROWS.center_z), i])

    @wp.func
    def add_center_adjoint(center: vec3, body_adj: table, i: int):
        wp.atomic_add(body_adj, wp.static(ROWS.center_x), i, center[0])
        wp.atomic_add(body_adj, wp.static(ROWS.center_y), i, center[1])
        wp.atomic_add(body_adj, wp.static(ROWS.center_z), i, center[2])

    @wp.func
    def scale(body: table, i: int):
        """From mesh to body coordinates."""
        x = body[wp.static(ROWS.scale_x), i]
        return vec3(x, body[wp.static(ROWS.scale_y), i], body[wp.static(ROWS.scale_z), i])

    @wp.func
    def add_scale_adjoint(factors: vec3, body_adj: table, i: int):
        wp.atomic_add(body_adj, wp.static(ROWS.scale_x), i, factors[0])
        wp.atomic_add(body_adj, wp.static(ROWS.scale_y), i, factors[1])
        wp.atomic_add(body_adj, wp.static(ROWS.scale_z), i, factors[2])

    @wp.func
    def inverse_inertia(body: table, i: int):
        """In body axes."""
        xx = body[wp.static(ROWS.inverse_inertia_xx), i]
        yy = body[wp.static(ROWS.inverse_inertia_yy), i]
        zz = body[wp.static(ROWS.inverse_inertia_zz), i]
        yz = body[wp.static(ROWS.inverse_inertia_yz), i]
        zx = body[wp.static(ROWS.inverse_inertia_zx), i]
        xy = body[wp.static(ROWS.inverse_inertia_xy), i]
        return mat33(xx, xy, zx, xy, yy, yz, zx, yz, zz)

    @wp.func
    def add_inertia_adjoint(J: mat33, body_adj: table, i: int):
        wp.atomic_add(body_adj, wp.static(ROWS.inverse_inertia_xx), i, J[0, 0])
        wp.atomic_add(body_adj, wp.static(ROWS.inverse_inertia_yy), i, J[1, 1])
        wp.atomic_add(body_adj, wp.static(ROWS.inverse_inertia_zz), i, J[2, 2])
        wp.atomic_add(body_adj, wp.static(ROWS.inverse_inertia_yz), i, J[1, 2] + J[2, 1])
        wp.atomic_add(body_adj, wp.static(ROWS.inverse_inertia_zx), i, J[0, 2] + J[2, 0])
        wp.atomic_add(body_adj, wp.static(ROWS.inverse_inertia_xy), i, J[0, 1] + J[1, 0])

    @wp.func
    def spin(q: quat, l: vec3, J: mat33):
        R = wp.quat_to_matrix(q)
        return R * (J * (wp.transpose(R) * l))

    @wp.func
    def spin_inner(b: vec3, q: quat, l: vec3, J: mat33):
        return wp.dot(b, spin(q, l, J))

    @wp.func
    def rate(q: quat, l: vec3, J: mat33):
        """dq/dt."""
        w = spin(q, l, J) * half
        return quat(w[0], w[1], w[2], zero) * q

    @wp.func
    def rate_inner(b: quat, q: quat, l: vec3, J: mat33):
        return wp.dot(b, rate(q, l, J))

    @wp.func
    def normalize_inner(b: quat, q: quat):
        return wp.dot(b, wp.normalize(q))

    @wp.func
    def rotation_inner(B: mat33, q: quat):
        return wp.ddot(B, wp.quat_to_matrix(q))

    return RotationFunctions(
        center_of_mass=center_of_mass,
        add_center_adjoint=add_center_adjoint,
        scale=scale,
        add_scale_adjoint=add_scale_adjoint,
        inverse_inertia=inverse_inertia,
        add_inertia_adjoint=add_inertia_adjoint,
        spin=spin,
        spin_inner=spin_inner,
        rate=rate,
        rate_inner=rate_inner,
        normalize_inner=normalize_inner,
        rotation_inner=rotation_inner,
    )


@functools.cache
def rigid_kernels(real: Any) -> UpdateKernels:
    types = types_of(real)
    vec3, vec3s, table, reals, ints = types.vec3, types.vec3s, types.table, types.reals, types.ints
    quat, quats, mat33 = types.quat, types.quats, types.mat33
    rows, quat_rows = wp.array(dtype=vec3, ndim=2), wp.array(dtype=quat, ndim=2)
    module = kernel_module("rigid", real)
    functions = rotation_functions(real)
    inverse_inertia, add_inertia_adjoint = functions.inverse_inertia, functions.add_inertia_adjoint
    rate, rate_inner, normalize_inner = functions.rate, functions.rate_inner, functions.normalize_inner
    zero, half = real(0.0), real(0.5)

    @wp.func
    def acceleration(body: table, i: int, f: vec3):
        x = body[wp.static(ROWS.gravity_x), i]
        gravity = vec3(x, body[wp.static(ROWS.gravity_y), i], body[wp.static(ROWS.gravity_z), i])
        return f * body[wp.static(ROWS.inverse_mass), i] + gravity

    @wp.func
    def acceleration_adjoint(body: table, i: int, f: vec3, a: vec3, body_adj: table):
        mass_row = wp.static(ROWS.inverse_mass)
        body_adj[mass_row, i] = body_adj[mass_row, i] + wp.dot(a, f)
        for k in range(3):
            row = wp.static(ROWS.gravity_x) + k
            body_adj[row, i] = body_adj[row, i] + a[k]
        return a * body[mass_row, i]

    @wp.func
    def stage_sum(
        stage: int, stages: int, weights: table, dt: real, first: int, i: int, J: mat33, qs: quat_rows, ls: rows
    ):
        """Rotation at the start of the step plus the weighted rates of the stages so far, not normalized."""
        q = qs[first, i]
        for j in range(stage + 1):
            if weights[stage, stages + j] != zero:
                q = q + rate(qs[first + j, i], ls[first + j, i], J) * (weights[stage, stages + j] * dt)
        return q

    # `wp.grad` of Warp 1.19 silently omits the adjoints of functions more than one call deep. A kernel with a backward
    # pass generates all of them.
    @wp.kernel(enable_backward=True, module=module)
    def differentiated(q: quats, l: vec3s, J: wp.array(dtype=mat33), result: quats):
        i = wp.tid()
        result[i] = wp.normalize(rate(q[i], l[i], J[i]))

    @wp.kernel(enable_backward=False, module=module)
    def rigid_update(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, body: table,
        ps: rows, qs: quat_rows, vs: rows, ls: rows, fs: rows, ts: rows,
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
        v1 = vs[first, i] + dv * dt[0]
        l1 = ls[first, i] + dl * dt[0]
        if weights[stage, 2 * stages + 2] != zero:
            v[i] = v1
            l[i] = l1
            return
        J = inverse_inertia(body, i)
        new = weights[stage, 2 * stages] * dt[0]
        q1 = wp.normalize(stage_sum(stage, stages, weights, dt[0], first, i, J, qs, ls))
        if new != zero:
            middle = wp.normalize(q1 + rate(q1, l1, J) * (half * new))
            q1 = wp.normalize(q1 + rate(middle, l1, J) * new)
        p[i] = ps[first, i] + dp * dt[0] + v1 * new
        q[i] = q1
        predicted = weights[stage, 2 * stages + 1] * dt[0]
        v[i] = v1 + acceleration(body, i, f[i]) * predicted
        l[i] = l1 + t[i] * predicted
        f[i] = vec3()
        t[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def rigid_update_adjoint(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, body: table,
        ps: rows, qs: quat_rows, vs: rows, ls: rows, fs: rows, ts: rows,
        p: vec3s, q: quats, v: vec3s, l: vec3s,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s, f_adj: vec3s, t_adj: vec3s, body_adj: table,
        p_start: vec3s, q_start: quats, v_start: vec3s, l_start: vec3s,
        v_stage: rows, q_stage: quat_rows, a_stage: rows, t_stage: rows,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        first = r - stage
        p[i] = ps[r, i]
        q[i] = qs[r, i]
        v[i] = vs[r, i]
        l[i] = ls[r, i]
        if weights[stage, 2 * stages + 2] != zero:
            v_start[i] = v_adj[i]
            l_start[i] = l_adj[i]
            p_start[i] = vec3()
            q_start[i] = quat()
            for j in range(stages):
                v_stage[j, i] = vec3()
                q_stage[j, i] = quat()
                a_stage[j, i] = v_adj[i] * (weights[stage, j] * dt[0])
                t_stage[j, i] = l_adj[i] * (weights[stage, j] * dt[0])
            f_adj[i] = f_adj[i] + acceleration_adjoint(body, i, fs[r, i], a_stage[stage, i], body_adj)
            t_adj[i] = t_adj[i] + t_stage[stage, i]
            v_adj[i] = vec3()
            l_adj[i] = vec3()
            return
        J = inverse_inertia(body, i)
        new = weights[stage, 2 * stages] * dt[0]
        predicted = weights[stage, 2 * stages + 1] * dt[0]
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
            b2, two_adj = wp.grad(normalize_inner)(aq, q0 + rate(middle, l1, J) * new)
            b3, middle_adj, l2_adj, J2_adj = wp.grad(rate_inner)(two_adj * new, middle, l1, J)
            b4, one_adj = wp.grad(normalize_inner)(middle_adj, one)
            b5, at_adj, l3_adj, J3_adj = wp.grad(rate_inner)(one_adj * (half * new), q0, l1, J)
            aq = two_adj + one_adj + at_adj
            al = al + l2_adj + l3_adj
            aJ += J2_adj + J3_adj
        b, sum_adj = wp.grad(normalize_inner)(aq, sum)
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
        a_stage[stage, i] = a_stage[stage, i] + v_adj[i] * predicted
        t_stage[stage, i] = t_stage[stage, i] + l_adj[i] * predicted
        f_adj[i] = acceleration_adjoint(body, i, fs[r, i], a_stage[stage, i], body_adj)
        t_adj[i] = t_stage[stage, i]
        b6, q_rate_adj, l_rate_adj, J_rate_adj = wp.grad(rate_inner)(q_stage[stage, i], q[i], l[i], J)
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
