"""Damped springs between two nodes: force -(stiffness (l - rest_length) + damping dl/dt) along the spring."""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import ForceKernels, types_of

PARAMETERS = ("stiffness", "damping", "rest_length")  # [N/m], [N s/m], [m]


@functools.cache
def spring_kernels(real: Any) -> ForceKernels:
    types = types_of(real)

    @wp.kernel(module=kernel_module("springs", real))
    def spring_force(
        nodes: wp.array(dtype=wp.vec2i),
        values: types.table,
        x: types.vec3s,
        v: types.vec3s,
        f: types.vec3s,
    ):
        s = wp.tid()
        i = nodes[s][0]
        j = nodes[s][1]
        d = x[j] - x[i]
        length = wp.length(d)
        n = wp.normalize(d)  # zero where the ends meet
        rate = wp.dot(v[j] - v[i], n)
        pull = n * (values[0, s] * (length - values[2, s]) + values[1, s] * rate)
        wp.atomic_add(f, i, pull)
        wp.atomic_sub(f, j, pull)

    return ForceKernels(spring_force)
