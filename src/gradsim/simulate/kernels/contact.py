"""Contact of nodes with static shapes: pairs of a point and a distance function, under the law of `law.py`."""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import ForceKernels, types_of
from gradsim.simulate.kernels.law import law_functions
from gradsim.simulate.kernels.shapes import PLANE, shape_functions


@functools.cache
def contact_kernels(real: Any, *, tape: bool = False) -> ForceKernels:
    """Contact and its hand-written adjoint; with `tape` Warp's own takes its place, to test the other."""
    types = types_of(real)
    table, vec3s = types.table, types.vec3s
    pairs = wp.array(dtype=wp.vec2i)  # node, shape
    ints = wp.array(dtype=wp.int32)
    module = kernel_module("contact_tape" if tape else "contact", real)
    law_force, law_adjoint = law_functions(real)
    gap_of, curvature_of = shape_functions(real)
    zero = real(0.0)

    @wp.kernel(module=module, enable_backward=tape)
    def contact_force(pair: pairs, kinds: ints, law: table, shape: table, x: vec3s, v: vec3s, f: vec3s):
        p = wp.tid()
        i = pair[p][0]
        j = pair[p][1]
        gap, n = gap_of(kinds[j], shape, j, x[i])
        if gap < zero:
            force = law_force(-gap, n, v[i], law[0, p], law[1, p], law[2, p], law[3, p], law[4, p])
            wp.atomic_add(f, i, force)

    if tape:
        return ForceKernels(contact_force)

    @wp.kernel(module=module, enable_backward=False)
    def contact_force_adjoint(
        pair: pairs,
        kinds: ints,
        law: table,
        shape: table,
        x: vec3s,
        v: vec3s,
        f_adj: vec3s,
        law_adj: table,
        shape_adj: table,
        x_adj: vec3s,
        v_adj: vec3s,
    ):
        p = wp.tid()
        i = pair[p][0]
        j = pair[p][1]
        gap, n = gap_of(kinds[j], shape, j, x[i])
        if gap >= zero:
            return
        c_adj, n_adj, u_adj, five = law_adjoint(
            f_adj[i], -gap, n, v[i], law[0, p], law[1, p], law[2, p], law[3, p], law[4, p]
        )
        for k in range(5):
            law_adj[k, p] = law_adj[k, p] + five[k]
        if kinds[j] == wp.static(PLANE):
            m_adj = n_adj - x[i] * c_adj
            wp.atomic_add(shape_adj, 0, j, m_adj[0])
            wp.atomic_add(shape_adj, 1, j, m_adj[1])
            wp.atomic_add(shape_adj, 2, j, m_adj[2])
            wp.atomic_add(shape_adj, 3, j, c_adj)
        wp.atomic_add(x_adj, i, curvature_of(kinds[j], shape, j, x[i], n, n_adj) - n * c_adj)
        wp.atomic_add(v_adj, i, u_adj)

    return ForceKernels(contact_force, contact_force_adjoint)
