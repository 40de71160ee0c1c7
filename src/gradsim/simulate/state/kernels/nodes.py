"""Update of nodes: v = v_0 + dt sum_j A_j a_j and x = x_0 + dt (sum_j V_j v_j + N v), with a = f / m + g."""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels import UpdateKernels

ROWS = Rows("node", "inverse_mass", "gravity_x", "gravity_y", "gravity_z")  # [1/kg], 0 pins a node; [m/s^2]


@functools.cache
def node_kernels(real: Any) -> UpdateKernels:
    types = types_of(real)
    vec3, vec3s, table, reals, ints = types.vec3, types.vec3s, types.table, types.reals, types.ints
    rows = wp.array(dtype=vec3, ndim=2)
    module = kernel_module("nodes", real)
    zero = real(0.0)

    @wp.func
    def acceleration(node: table, i: int, f: vec3):
        w = node[wp.static(ROWS.inverse_mass), i]
        a = f * w
        if w != zero:
            x = node[wp.static(ROWS.gravity_x), i]
            a += vec3(x, node[wp.static(ROWS.gravity_y), i], node[wp.static(ROWS.gravity_z), i])
        return a

    @wp.func
    def acceleration_adjoint(node: table, i: int, f: vec3, a_adj: vec3, node_adj: table):
        mass_row = wp.static(ROWS.inverse_mass)
        w = node[mass_row, i]
        if w != zero:
            node_adj[mass_row, i] = node_adj[mass_row, i] + wp.dot(a_adj, f)
            for k in range(3):
                row = wp.static(ROWS.gravity_x) + k
                node_adj[row, i] = node_adj[row, i] + a_adj[k]
        return a_adj * w

    @wp.kernel(enable_backward=False, module=module)
    def node_update(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, node: table,
        xs: rows, vs: rows, fs: rows, x: vec3s, v: vec3s, f: vec3s,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        first = r - stage
        xs[r, i] = x[i]
        vs[r, i] = v[i]
        fs[r, i] = f[i]
        dv = vec3()
        dx = vec3()
        for j in range(stage + 1):
            if weights[stage, j] != zero:
                dv += acceleration(node, i, fs[first + j, i]) * weights[stage, j]
            if weights[stage, stages + j] != zero:
                dx += vs[first + j, i] * weights[stage, stages + j]
        v1 = vs[first, i] + dv * dt[0]
        if weights[stage, 2 * stages + 2] != zero:
            v[i] = v1
            return
        v[i] = v1 + acceleration(node, i, f[i]) * (weights[stage, 2 * stages + 1] * dt[0])
        x[i] = xs[first, i] + (dx + v1 * weights[stage, 2 * stages]) * dt[0]
        f[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def node_update_adjoint(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, node: table,
        xs: rows, vs: rows, fs: rows, x: vec3s, v: vec3s, x_adj: vec3s, v_adj: vec3s, f_adj: vec3s, node_adj: table,
        x_start: vec3s, v_start: vec3s, v_stage: rows, a_stage: rows,
    ):  # fmt: skip
        i = wp.tid()
        r = clock[1] + row
        x[i] = xs[r, i]
        v[i] = vs[r, i]
        ax = x_adj[i]
        av = v_adj[i] + ax * (weights[stage, 2 * stages] * dt[0])
        if stage == stages - 1:
            x_start[i] = vec3()
            v_start[i] = vec3()
            for j in range(stages):
                v_stage[j, i] = vec3()
                a_stage[j, i] = vec3()
        held = weights[stage, 2 * stages + 2] != zero
        if not held:
            x_start[i] = x_start[i] + ax
            a_stage[stage, i] = a_stage[stage, i] + v_adj[i] * (weights[stage, 2 * stages + 1] * dt[0])
        v_start[i] = v_start[i] + av
        for j in range(stage + 1):
            a_stage[j, i] = a_stage[j, i] + av * (weights[stage, j] * dt[0])
            v_stage[j, i] = v_stage[j, i] + ax * (weights[stage, stages + j] * dt[0])
        own_adj = acceleration_adjoint(node, i, fs[r, i], a_stage[stage, i], node_adj)
        if held:
            f_adj[i] = f_adj[i] + own_adj
            v_adj[i] = vec3()
            return
        f_adj[i] = own_adj
        x_adj[i] = vec3()
        v_adj[i] = v_stage[stage, i]
        if stage == 0:
            x_adj[i] = x_start[i]
            v_adj[i] = v_start[i] + v_stage[0, i]

    return UpdateKernels(node_update, node_update_adjoint)
