"""Bending of sheets at hinges, two triangles that share an edge.

The hinge angle t is zero when flat and positive when the shared edge is a ridge, seen from the side of the normals.
With the rest length l of the edge and the rest areas A0, A1, the weight w = l^2 / (A0 + A1), and the mismatch
p = t - rest_angle - actuation, the hinge resists with the torque w (2 stiffness sin(p / 2) + damping dt/dt), which for
small angles on a regular grid bent along its cells is a plate of rigidity `stiffness` [N m]. The sine of the half angle
is the seed's, after Bridson, Marino and Fedkiw (2003); the force directions are the exact gradients of the angle, so
that neither force nor torque acts on the sheet as a whole.
"""

import functools
from typing import Any

import warp as wp

from gradsim.simulate.kernels.force import ForceKernels, kernel_module, types_of

PARAMETERS = ("stiffness", "damping", "actuation")  # [N m], [N m s], [rad]


@functools.cache
def hinge_kernels(real: Any) -> ForceKernels:
    types = types_of(real)

    @wp.kernel(module=kernel_module("bending", real))
    def hinge_force(
        nodes: wp.array(dtype=wp.vec4i),  # the two opposite nodes, then the shared edge
        weight: types.reals,
        rest_angle: types.reals,
        values: types.table,
        x: types.vec3s,
        v: types.vec3s,
        f: types.vec3s,
    ):
        h = wp.tid()
        hinge = nodes[h]
        i = hinge[0]
        j = hinge[1]
        k = hinge[2]
        l = hinge[3]
        a = x[i] - x[k]
        b = x[j] - x[k]
        edge = x[l] - x[k]
        n0 = wp.cross(edge, a)
        n1 = wp.cross(b, edge)
        length2 = wp.dot(edge, edge)
        length = wp.sqrt(length2)
        angle = wp.atan2(wp.dot(wp.cross(n0, n1), edge) / length, wp.dot(n0, n1))

        # Gradients of the angle: the opposite nodes along the normals; the edge's nodes balance force and torque.
        g0 = -n0 * (length / wp.dot(n0, n0))
        g1 = -n1 * (length / wp.dot(n1, n1))
        t0 = wp.dot(a, edge) / length2
        t1 = wp.dot(b, edge) / length2
        one = real(1.0)
        g2 = -(g0 * (one - t0) + g1 * (one - t1))
        g3 = -(g0 * t0 + g1 * t1)

        rate = wp.dot(g0, v[i]) + wp.dot(g1, v[j]) + wp.dot(g2, v[k]) + wp.dot(g3, v[l])
        mismatch = angle - rest_angle[h] - values[2, h]
        torque = weight[h] * (real(2.0) * values[0, h] * wp.sin(real(0.5) * mismatch) + values[1, h] * rate)
        wp.atomic_sub(f, i, g0 * torque)
        wp.atomic_sub(f, j, g1 * torque)
        wp.atomic_sub(f, k, g2 * torque)
        wp.atomic_sub(f, l, g3 * torque)

    return ForceKernels(hinge_force)
