"""Kernels that set nodes and rigid bodies to their prescribed states, and the adjoints of that."""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions

NODE_ROWS = Rows("node_motion", "x", "y", "z", "vx", "vy", "vz")  # [m], [m/s]
# Centre of mass, quaternion, which need not have unit length, and the rates of both.
RIGID_ROWS = Rows("rigid_motion", "x", "y", "z", "qx", "qy", "qz", "qw", "vx", "vy", "vz", "rx", "ry", "rz", "rw")


class PrescribedKernels(NamedTuple):
    """Portable kernels that set a state to its prescribed value, and the adjoint of that."""

    set: Any
    adjoint: Any


@functools.cache
def prescribed_node_kernels(real: Any) -> PrescribedKernels:
    types = types_of(real)
    vec3, vec3s, table, ints = types.vec3, types.vec3s, types.table, types.ints
    module = kernel_module("prescribed_nodes", real)
    X, V = NODE_ROWS.x, NODE_ROWS.vx

    @wp.kernel(enable_backward=False, module=module)
    def set_nodes(nodes: ints, motion: table, node: table, x: vec3s, v: vec3s):
        e = wp.tid()
        x[nodes[e]] = vec3(motion[X, e], motion[X + 1, e], motion[X + 2, e])
        v[nodes[e]] = vec3(motion[V, e], motion[V + 1, e], motion[V + 2, e])

    @wp.kernel(enable_backward=False, module=module)
    def set_nodes_adjoint(
        nodes: ints, motion: table, node: table, motion_adj: table, node_adj: table, x_adj: vec3s, v_adj: vec3s
    ):
        e = wp.tid()
        i = nodes[e]
        for k in range(3):
            motion_adj[X + k, e] = motion_adj[X + k, e] + x_adj[i][k]
            motion_adj[V + k, e] = motion_adj[V + k, e] + v_adj[i][k]
        x_adj[i] = vec3()
        v_adj[i] = vec3()

    return PrescribedKernels(set_nodes, set_nodes_adjoint)


@functools.cache
def prescribed_rigid_kernels(real: Any) -> PrescribedKernels:
    types = types_of(real)
    vec3, vec3s, table, ints, quat, quats = types.vec3, types.vec3s, types.table, types.ints, types.quat, types.quats
    module = kernel_module("prescribed_rigid", real)
    functions = rotation_functions(real)
    inverse_inertia, add_inertia_adjoint = functions.inverse_inertia, functions.add_inertia_adjoint
    two = real(2.0)
    X, Q, V, R = RIGID_ROWS.x, RIGID_ROWS.qx, RIGID_ROWS.vx, RIGID_ROWS.rx

    @wp.func
    def three(motion: table, row: int, e: int):
        return vec3(motion[row, e], motion[row + 1, e], motion[row + 2, e])

    @wp.func
    def four(motion: table, row: int, e: int):
        return quat(motion[row, e], motion[row + 1, e], motion[row + 2, e], motion[row + 3, e])

    @wp.func
    def pure(a: vec3):
        return quat(a[0], a[1], a[2], real(0.0))

    @wp.func
    def angular_velocity(y: quat, rate: quat):
        """In world axes, from a quaternion and its rate."""
        a = rate * wp.quat_inverse(y)  # the inverse is the conjugate
        return vec3(a[0], a[1], a[2]) * (two / wp.dot(y, y))

    @wp.kernel(enable_backward=False, module=module)
    def set_bodies(bodies: ints, motion: table, body: table, p: vec3s, q: quats, v: vec3s, l: vec3s):
        e = wp.tid()
        i = bodies[e]
        y = four(motion, Q, e)
        turn = wp.quat_to_matrix(wp.normalize(y))
        w = wp.transpose(turn) * angular_velocity(y, four(motion, R, e))
        p[i] = three(motion, X, e)
        q[i] = wp.normalize(y)
        v[i] = three(motion, V, e)
        l[i] = turn * (wp.inverse(inverse_inertia(body, i)) * w)

    @wp.kernel(enable_backward=False, module=module)
    def set_bodies_adjoint(
        bodies: ints, motion: table, body: table, motion_adj: table, body_adj: table,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        y = four(motion, Q, e)
        rate = four(motion, R, e)
        q = wp.normalize(y)
        turn = wp.quat_to_matrix(q)
        inertia = wp.inverse(inverse_inertia(body, i))
        w = angular_velocity(y, rate)
        momentum = inertia * (wp.transpose(turn) * w)
        spin_adj = inertia * (wp.transpose(turn) * l_adj[i])
        add_inertia_adjoint(-wp.outer(spin_adj, momentum), body_adj, i)
        w_adj = turn * spin_adj
        rotation = wp.cross(turn * momentum, l_adj[i]) - wp.cross(w, w_adj)
        per = two / wp.dot(y, y)
        y_adj = (pure(rotation) * y - pure(w_adj) * rate - y * wp.dot(w, w_adj)) * per
        y_adj = y_adj + (q_adj[i] - q * wp.dot(q, q_adj[i])) / wp.length(y)
        rate_adj = (pure(w_adj) * y) * per
        for k in range(3):
            motion_adj[X + k, e] = motion_adj[X + k, e] + p_adj[i][k]
            motion_adj[V + k, e] = motion_adj[V + k, e] + v_adj[i][k]
        for k in range(4):
            motion_adj[Q + k, e] = motion_adj[Q + k, e] + y_adj[k]
            motion_adj[R + k, e] = motion_adj[R + k, e] + rate_adj[k]
        p_adj[i] = vec3()
        q_adj[i] = quat()
        v_adj[i] = vec3()
        l_adj[i] = vec3()

    return PrescribedKernels(set_bodies, set_bodies_adjoint)
