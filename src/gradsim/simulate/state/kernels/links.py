"""Kernels that set links in contact to the poses and velocities that follow from the joints, and their adjoint.

Adjoints of rotations are those of a small rotation about world axes.
"""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels.articulated import KINDS, ROWS, joint_functions
from gradsim.simulate.state.kernels.prescribed import PrescribedKernels

# Rows of scratch memory: pose and velocity of every joint's link, then their adjoints.
VECTORS = ("x", "v", "w", "arm", "x_adj", "v_adj", "w_adj", "turn_adj")
PLACES = {name: 3 * k for k, name in enumerate(VECTORS)} | {"Q": 3 * len(VECTORS)}
SCRATCH_ROWS = PLACES["Q"] + 4
P: Any = type("P", (), {name: wp.constant(row) for name, row in PLACES.items()})
REVOLUTE, PRISMATIC, BALL = (wp.constant(KINDS.index(name)) for name in ("revolute", "prismatic", "ball"))
OFFSET, FRAME = (wp.constant(getattr(ROWS, name)) for name in ("offset_x", "frame_x"))


@functools.cache
def link_kernels(real: Any) -> PrescribedKernels:
    types = types_of(real)
    vec3, table, ints, vec3s, quats, quat = types.vec3, types.table, types.ints, types.vec3s, types.quats, types.quat
    module = kernel_module("links", real)
    functions = joint_functions(real)
    get3, set3, add3, frame_of = (functions[name] for name in ("get3", "set3", "add3", "frame_of"))
    zero, half, one, two = (real(a) for a in (0.0, 0.5, 1.0, 2.0))

    @wp.func
    def get4(scratch: table, row: int, e: int):
        return quat(scratch[row, e], scratch[row + 1, e], scratch[row + 2, e], scratch[row + 3, e])

    @wp.func
    def set4(scratch: table, row: int, e: int, q: quat):
        for k in range(4):
            scratch[row + k, e] = q[k]

    @wp.func
    def add4(target: table, row: int, e: int, q: quat):
        for k in range(4):
            target[row + k, e] = target[row + k, e] + q[k]

    @wp.func
    def pure(a: vec3):
        return quat(a[0], a[1], a[2], zero)

    @wp.func
    def axis_of(Q: quat):
        return wp.quat_rotate(Q, vec3(zero, zero, one))

    @wp.func
    def conjugate(q: quat):
        return quat(-q[0], -q[1], -q[2], q[3])

    @wp.func
    def move(kind: int, p: int, e: int, joint: table, q: quat, v: vec3, scratch: table):
        """Pose and velocity of a link, from those of its parent."""
        x = vec3()
        Qp = quat(zero, zero, zero, one)
        velocity = vec3()
        w = vec3()
        if p >= 0:
            x = get3(scratch, P.x, p)
            Qp = get4(scratch, P.Q, p)
            velocity = get3(scratch, P.v, p)
            w = get3(scratch, P.w, p)
        F = Qp * frame_of(joint, e)
        z = axis_of(F)
        arm = wp.quat_rotate(Qp, get3(joint, OFFSET, e))
        Q = F
        spin = vec3()
        slide = vec3()
        if kind == REVOLUTE:
            Q = F * quat(zero, zero, wp.sin(q[0] * half), wp.cos(q[0] * half))
            spin = z * v[0]
        if kind == BALL:
            Q = F * q
            spin = wp.quat_rotate(Q, v)
        if kind == PRISMATIC:
            arm = arm + z * q[0]
            slide = z * v[0]
        set3(scratch, P.x, e, x + arm)
        set3(scratch, P.arm, e, arm)
        set4(scratch, P.Q, e, Q)
        set3(scratch, P.v, e, velocity + wp.cross(w, arm) + slide)
        set3(scratch, P.w, e, w + spin)

    @wp.func
    def move_adjoint(
        kind: int, p: int, e: int, joint: table, q: quat, v: vec3, scratch: table,
        joint_adj: table, q_adj: quats, v_adj: vec3s,
    ):  # fmt: skip
        x_adj = get3(scratch, P.x_adj, e)
        slide_adj = get3(scratch, P.v_adj, e)
        spin_adj = get3(scratch, P.w_adj, e)
        turn = get3(scratch, P.turn_adj, e)
        arm = get3(scratch, P.arm, e)
        Q = get4(scratch, P.Q, e)
        Qp = quat(zero, zero, zero, one)
        w = vec3()
        if p >= 0:
            Qp = get4(scratch, P.Q, p)
            w = get3(scratch, P.w, p)
        z = axis_of(Qp * frame_of(joint, e))
        arm_adj = x_adj + wp.cross(slide_adj, w)
        if kind == REVOLUTE:
            v_adj[e] = v_adj[e] + vec3(wp.dot(z, spin_adj), zero, zero)
            q_adj[e] = q_adj[e] + quat(wp.dot(z, turn), zero, zero, zero)
            turn = turn + wp.cross(z, spin_adj) * v[0]
        if kind == BALL:
            v_adj[e] = v_adj[e] + wp.quat_rotate_inv(Q, spin_adj)
            turn = turn + wp.cross(wp.quat_rotate(Q, v), spin_adj)
            q_adj[e] = q_adj[e] + q * pure(wp.quat_rotate_inv(Q, turn) * two)
        if kind == PRISMATIC:
            v_adj[e] = v_adj[e] + vec3(wp.dot(z, slide_adj), zero, zero)
            q_adj[e] = q_adj[e] + quat(wp.dot(z, arm_adj), zero, zero, zero)
            turn = turn + wp.cross(z, arm_adj * q[0] + slide_adj * v[0])
        frame = frame_of(joint, e)
        add4(joint_adj, FRAME, e, frame * pure(wp.quat_rotate_inv(Qp * frame, turn) * two))
        add3(joint_adj, OFFSET, e, wp.quat_rotate_inv(Qp, arm_adj))
        if p >= 0:
            add3(scratch, P.x_adj, p, x_adj)
            add3(scratch, P.v_adj, p, slide_adj)
            add3(scratch, P.w_adj, p, spin_adj + wp.cross(arm, slide_adj))
            base = wp.quat_rotate(Qp, get3(joint, OFFSET, e))
            add3(scratch, P.turn_adj, p, turn + wp.cross(base, arm_adj))

    @wp.func
    def move_all(world: int, count: int, kinds: ints, parents: ints, scratch: table, joint: table, q: quats, v: vec3s):
        for i in range(count):
            e = world * count + i
            p = parents[i]
            if p >= 0:
                p = world * count + p
            move(kinds[i], p, e, joint, q[e], v[e], scratch)

    @wp.kernel(enable_backward=False, module=module)
    def set_links(
        count: int, kinds: ints, parents: ints, link_count: int, joints: ints, bodies: ints, scratch: table,
        link: table, joint: table, jq: quats, jv: vec3s, p: vec3s, q: quats, v: vec3s, l: vec3s,
    ):  # fmt: skip
        world = wp.tid()
        move_all(world, count, kinds, parents, scratch, joint, jq, jv)
        for k in range(link_count):
            a = world * link_count + k
            e = joints[a]
            i = bodies[a]
            p[i] = get3(scratch, P.x, e)
            q[i] = get4(scratch, P.Q, e) * conjugate(get4(link, 0, a))
            v[i] = get3(scratch, P.v, e)
            l[i] = get3(scratch, P.w, e)

    @wp.kernel(enable_backward=False, module=module)
    def set_links_adjoint(
        count: int, kinds: ints, parents: ints, link_count: int, joints: ints, bodies: ints, scratch: table,
        link: table, joint: table, jq: quats, jv: vec3s,
        link_adj: table, joint_adj: table, jq_adj: quats, jv_adj: vec3s,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        world = wp.tid()
        move_all(world, count, kinds, parents, scratch, joint, jq, jv)
        for i in range(count):
            for row in range(P.x_adj, P.Q):
                scratch[row, world * count + i] = zero
        for k in range(link_count):
            a = world * link_count + k
            e = joints[a]
            i = bodies[a]
            Q = get4(scratch, P.Q, e)
            align = get4(link, 0, a)
            turned = q_adj[i] * conjugate(Q * conjugate(align)) * half
            turn = vec3(turned[0], turned[1], turned[2])
            add3(scratch, P.turn_adj, e, turn)
            add3(scratch, P.x_adj, e, p_adj[i])
            add3(scratch, P.v_adj, e, v_adj[i])
            add3(scratch, P.w_adj, e, l_adj[i])
            add4(link_adj, 0, a, align * pure(wp.quat_rotate_inv(Q, turn) * -two))
            p_adj[i] = vec3()
            q_adj[i] = quat()
            v_adj[i] = vec3()
            l_adj[i] = vec3()
        for k in range(count):
            i = count - 1 - k
            e = world * count + i
            p = parents[i]
            if p >= 0:
                p = world * count + p
            move_adjoint(kinds[i], p, e, joint, jq[e], jv[e], scratch, joint_adj, jq_adj, jv_adj)

    return PrescribedKernels(set_links, set_links_adjoint)
