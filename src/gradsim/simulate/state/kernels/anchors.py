"""Update of the anchors of sticking friction: once per step, to the values that the contact forces computed."""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels import UpdateKernels


@functools.cache
def anchor_kernels(real: Any) -> UpdateKernels:
    types = types_of(real)
    vec3, vec3s, table, reals, ints = types.vec3, types.vec3s, types.table, types.reals, types.ints
    rows = wp.array(dtype=vec3, ndim=2)
    module = kernel_module("anchors", real)

    @wp.kernel(enable_backward=False, module=module)
    def anchor_update(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, values: table,
        xis: rows, nexts: rows, xi: vec3s, next: vec3s,
    ):  # fmt: skip
        i = wp.tid()
        xis[clock[1] + row, i] = xi[i]
        if stage == stages - 1:
            xi[i] = next[i]
            next[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def anchor_update_adjoint(
        clock: ints, row: int, stage: int, stages: int, weights: table, dt: reals, values: table,
        xis: rows, nexts: rows, xi: vec3s, xi_adj: vec3s, next_adj: vec3s, values_adj: table,
    ):  # fmt: skip
        """The anchors are the same in all stages of a step: their adjoint sums the terms of all of them."""
        i = wp.tid()
        xi[i] = xis[clock[1] + row, i]
        if stage == stages - 1:
            next_adj[i] = xi_adj[i]
            xi_adj[i] = vec3()

    return UpdateKernels(anchor_update, anchor_update_adjoint)
