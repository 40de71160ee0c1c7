"""Portable kernels of joints: their update between two evaluations, and their accelerations with the adjoint.

`native/articulated.h` describes the algorithm and names the quantities; these kernels are its reference. One thread
takes all joints of a world.
"""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Enumeration, Rows
from gradsim.scene import joint_tree
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels import UpdateKernels
from gradsim.simulate.state.kernels.joint_force import PASSIVE_AND_MOTOR, joint_force_functions

KINDS = Enumeration("joint_kind", joint_tree.KINDS)
ROWS = Rows(
    "joint",
    *(f"offset_{axis}" for axis in "xyz"),  # of the joint's frame, in the parent's axes [m]
    *(f"frame_{axis}" for axis in "xyzw"),  # rotation of that frame
    "mass",  # of the link [kg]
    *(f"moment_{axis}" for axis in "xyz"),  # mass times centre of mass, in the link's axes [kg m]
    *(f"inertia_{axes}" for axes in ("xx", "yy", "zz", "yz", "zx", "xy")),  # about the link's origin [kg m^2]
    *(f"gravity_{axis}" for axis in "xyz"),  # [m/s^2]
    *PASSIVE_AND_MOTOR,
    "quaternion",  # 1 if the coordinates are a quaternion
)
FORCES = ROWS.stiffness  # first of the rows of `PASSIVE_AND_MOTOR`

# Rows of scratch memory: matrices of nine numbers, then vectors of three, then numbers.
MATRICES = ("R", "Io", "A", "M", "H", "D")
VECTORS = (
    "r", "w", "turn", "shift", "h", "n", "f", "Uw", "Uv", "u", "alpha", "a", "acceleration",
    "push", "twist",  # force and torque on a link in contact
    "virtual_n", "virtual_f", "virtual_u", "nu_w", "nu_v", "mu",
    "nu_w_adj", "nu_v_adj", "w_adj", "alpha_adj", "a_adj", "turn_adj",
)  # fmt: skip
PLACES = {name: 9 * k for k, name in enumerate(MATRICES)}
PLACES |= {name: 9 * len(MATRICES) + 3 * k for k, name in enumerate(VECTORS)}
PLACES["d"] = 9 * len(MATRICES) + 3 * len(VECTORS)
SCRATCH_ROWS = PLACES["d"] + 1


@functools.cache
def joint_kernels(real: Any) -> UpdateKernels:
    """Returns the update of joints."""
    types = types_of(real)
    vec3, vec3s, table, reals, ints = types.vec3, types.vec3s, types.table, types.reals, types.ints
    quat, quats = types.quat, types.quats
    rows, quat_rows = wp.array(dtype=vec3, ndim=2), wp.array(dtype=quat, ndim=2)
    module = kernel_module("joint", real)
    zero, half = real(0.0), real(0.5)

    @wp.func
    def rate(ball: bool, q: quat, v: vec3):
        """dq/dt."""
        if ball:
            return q * quat(v[0] * half, v[1] * half, v[2] * half, zero)
        return quat(v[0], zero, zero, zero)

    @wp.func
    def unit(ball: bool, q: quat):
        if ball:
            return wp.normalize(q)
        return q

    @wp.func
    def unit_adjoint(ball: bool, q: quat, b: quat):
        if ball:
            inverse = real(1.0) / wp.length(q)
            n = q * inverse
            return (b - n * wp.dot(n, b)) * inverse
        return b

    @wp.func
    def rate_adjoint_q(ball: bool, q: quat, v: vec3, b: quat):
        if ball:
            return b * quat(-v[0] * half, -v[1] * half, -v[2] * half, zero)
        return quat(zero, zero, zero, zero)

    @wp.func
    def rate_adjoint_v(ball: bool, q: quat, v: vec3, b: quat):
        if ball:
            p = wp.quat_inverse(q) * b * half
            return vec3(p[0], p[1], p[2])
        return vec3(b[0], zero, zero)

    @wp.func
    def rate_sum(
        ball: bool, stage: int, stages: int, weights: table, dt: real, first: int, i: int, qs: quat_rows, vs: rows
    ):
        """Coordinates at the start of the step plus the weighted rates of the stages so far, not normalized."""
        q = qs[first, i]
        for j in range(stage + 1):
            if weights[stage, stages + j] != zero:
                q = q + rate(ball, qs[first + j, i], vs[first + j, i]) * (weights[stage, stages + j] * dt)
        return q

    @wp.func
    def next_velocity(stage: int, weights: table, dt: real, first: int, i: int, vs: rows, accelerations: rows):
        v = vs[first, i]
        for j in range(stage + 1):
            v = v + accelerations[first + j, i] * (weights[stage, j] * dt)
        return v

    @wp.kernel(enable_backward=False, module=module)
    def joint_update(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, joint: table,
        qs: quat_rows, vs: rows, accelerations: rows, q: quats, v: vec3s, a: vec3s,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        first = r - stage
        ball = joint[wp.static(ROWS.quaternion), i] != zero
        qs[r, i] = q[i]
        vs[r, i] = v[i]
        accelerations[r, i] = a[i]
        new = weights[stage, 2 * stages] * dt[0]
        v1 = next_velocity(stage, weights, dt[0], first, i, vs, accelerations)
        q1 = unit(ball, rate_sum(ball, stage, stages, weights, dt[0], first, i, qs, vs))
        if new != zero:
            q1 = unit(ball, q1 + rate(ball, q1, v1) * new)
        q[i] = q1
        v[i] = v1
        a[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def joint_update_adjoint(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, joint: table,
        qs: quat_rows, vs: rows, accelerations: rows, q: quats, v: vec3s,
        q_adj: quats, v_adj: vec3s, a_adj: vec3s, joint_adj: table, q_start: quats, v_start: vec3s,
        q_stage: quat_rows, a_stage: rows,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        first = r - stage
        ball = joint[wp.static(ROWS.quaternion), i] != zero
        q[i] = qs[r, i]
        v[i] = vs[r, i]
        new = weights[stage, 2 * stages] * dt[0]
        aq = q_adj[i]
        av = v_adj[i]
        total = rate_sum(ball, stage, stages, weights, dt[0], first, i, qs, vs)
        if new != zero:
            v1 = next_velocity(stage, weights, dt[0], first, i, vs, accelerations)
            q0 = unit(ball, total)
            moved = unit_adjoint(ball, q0 + rate(ball, q0, v1) * new, aq)
            aq = moved + rate_adjoint_q(ball, q0, v1, moved * new)
            av = av + rate_adjoint_v(ball, q0, v1, moved * new)
        sum_adj = unit_adjoint(ball, total, aq)
        if stage == stages - 1:
            q_start[i] = quat(zero, zero, zero, zero)
            v_start[i] = vec3()
            for j in range(stages):
                q_stage[j, i] = quat(zero, zero, zero, zero)
                a_stage[j, i] = vec3()
        q_start[i] = q_start[i] + sum_adj
        v_start[i] = v_start[i] + av
        for j in range(stage + 1):
            a_stage[j, i] = a_stage[j, i] + av * (weights[stage, j] * dt[0])
            q_stage[j, i] = q_stage[j, i] + sum_adj * (weights[stage, stages + j] * dt[0])
        a_adj[i] = a_stage[stage, i]
        aq = rate_adjoint_q(ball, q[i], v[i], q_stage[stage, i])
        av = rate_adjoint_v(ball, q[i], v[i], q_stage[stage, i])
        if stage == 0:
            aq = aq + q_start[i]
            av = av + v_start[i]
        q_adj[i] = aq
        v_adj[i] = av

    return UpdateKernels(joint_update, joint_update_adjoint)


@functools.cache
def joint_functions(real: Any) -> dict[str, Any]:
    """Returns Warp functions that read and write scratch memory and parameters, and the forces of joints."""
    types = types_of(real)
    vec3, mat33, table, quat = types.vec3, types.mat33, types.table, types.quat

    @wp.func
    def get3(scratch: table, row: int, e: int):
        return vec3(scratch[row, e], scratch[row + 1, e], scratch[row + 2, e])

    @wp.func
    def set3(scratch: table, row: int, e: int, x: vec3):
        for k in range(3):
            scratch[row + k, e] = x[k]

    @wp.func
    def add3(scratch: table, row: int, e: int, x: vec3):
        for k in range(3):
            scratch[row + k, e] = scratch[row + k, e] + x[k]

    @wp.func
    def get33(scratch: table, row: int, e: int):
        return mat33(
            scratch[row, e], scratch[row + 1, e], scratch[row + 2, e], scratch[row + 3, e], scratch[row + 4, e],
            scratch[row + 5, e], scratch[row + 6, e], scratch[row + 7, e], scratch[row + 8, e],
        )  # fmt: skip

    @wp.func
    def set33(scratch: table, row: int, e: int, x: mat33):
        for k in range(9):
            scratch[row + k, e] = x[k / 3, k % 3]

    @wp.func
    def frame_of(joint: table, e: int):
        k = wp.static(ROWS.frame_x)
        return quat(joint[k, e], joint[k + 1, e], joint[k + 2, e], joint[k + 3, e])

    @wp.func
    def inertia_of(joint: table, e: int):
        k = wp.static(ROWS.inertia_xx)
        xx = joint[k, e]
        yy = joint[k + 1, e]
        zz = joint[k + 2, e]
        yz = joint[k + 3, e]
        zx = joint[k + 4, e]
        xy = joint[k + 5, e]
        return mat33(xx, xy, zx, xy, yy, yz, zx, yz, zz)

    own = {"get3": get3, "set3": set3, "add3": add3, "get33": get33, "set33": set33}
    return own | {"frame_of": frame_of, "inertia_of": inertia_of, **joint_force_functions(real, FORCES)}
