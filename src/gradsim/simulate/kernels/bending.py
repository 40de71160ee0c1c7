"""Bending of sheets: the curvature of every triangle, from the angles at its three edges.

The angle t of an edge is zero when its two triangles are flat and positive when it is a ridge, seen from the side of
the normals; p = t - rest angle - folding is what the sheet resists. With the edges' lengths l_i, their in-plane normals
d_i and the area A at rest, a triangle's shape operator is sum_i p_i l_i d_i d_i' / 2A (Gingold et al. 2004, Grinspun et
al. 2006) and its energy stiffness/2 A |shape operator|^2, so that the edges' torques are

    stiffness sum_j K_ij p_j + damping sum_j K_ij dp_j/dt,    K_ij = l_i l_j (d_i . d_j)^2 / 4A

The coupling of the edges is what makes this converge to a plate of rigidity `stiffness` [N m] whichever way the
triangles lie; independent hinges, as in the seed, let a square grid fold along its diagonals and come out a fifth too
soft however fine the grid. The forces are exact gradients of the angles: none acts on the sheet as a whole.

Portable and native kernels as for tetrahedra.
"""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import ForceKernels, types_of

PARAMETERS = ("stiffness", "damping")  # of the triangles [N m], [N m s]
HINGE = ("folding",)  # of the edges with two triangles [rad]

vec6i = wp.types.vector(6, wp.int32)


@functools.cache
def bend_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3 = types.vec3
    vec6 = wp.types.vector(6, real)

    @wp.func
    def edge_angle(a: vec3, b: vec3, edge: vec3):
        """Angle between the triangles (0, edge, a) and (edge, 0, b), and its gradients in a, b and both ends."""
        n0 = wp.cross(edge, a)
        n1 = wp.cross(b, edge)
        length2 = wp.dot(edge, edge)
        length = wp.sqrt(length2)
        angle = wp.atan2(wp.dot(wp.cross(n0, n1), edge) / length, wp.dot(n0, n1))
        ga = -n0 * (length / wp.dot(n0, n0))
        gb = -n1 * (length / wp.dot(n1, n1))
        ta = wp.dot(a, edge) / length2
        tb = wp.dot(b, edge) / length2
        one = real(1.0)
        return angle, ga, gb, -(ga * (one - ta) + gb * (one - tb)), -(ga * ta + gb * tb)

    @wp.kernel(module=kernel_module("bending", real))
    def bend_force(
        nodes: wp.array(dtype=vec6i),  # the triangle, then the node across each edge, the own corner if there is none
        hinges: wp.array(dtype=wp.vec3i),  # the edges' columns in `folding`, any if there is no node across
        rest_angle: wp.array(dtype=vec3),
        coupling: wp.array(dtype=vec6),  # K: 00, 11, 22, 12, 20, 01
        values: types.table,
        folding: types.table,
        x: types.vec3s,
        v: types.vec3s,
        f: types.vec3s,
    ):
        e = wp.tid()
        n = nodes[e]
        h = hinges[e]
        rest = rest_angle[e]
        K = coupling[e]
        x0 = x[n[0]]
        x1 = x[n[1]]
        x2 = x[n[2]]
        v0 = v[n[0]]
        v1 = v[n[1]]
        v2 = v[n[2]]
        zero = real(0.0)
        p0 = zero
        p1 = zero
        p2 = zero
        r0 = zero
        r1 = zero
        r2 = zero
        a0 = vec3()
        b0 = vec3()
        k0 = vec3()
        l0 = vec3()
        a1 = vec3()
        b1 = vec3()
        k1 = vec3()
        l1 = vec3()
        a2 = vec3()
        b2 = vec3()
        k2 = vec3()
        l2 = vec3()
        if n[3] != n[0]:
            t0, a0, b0, k0, l0 = edge_angle(x0 - x1, x[n[3]] - x1, x2 - x1)
            p0 = t0 - rest[0] - folding[0, h[0]]
            r0 = wp.dot(a0, v0) + wp.dot(b0, v[n[3]]) + wp.dot(k0, v1) + wp.dot(l0, v2)
        if n[4] != n[1]:
            t1, a1, b1, k1, l1 = edge_angle(x1 - x2, x[n[4]] - x2, x0 - x2)
            p1 = t1 - rest[1] - folding[0, h[1]]
            r1 = wp.dot(a1, v1) + wp.dot(b1, v[n[4]]) + wp.dot(k1, v2) + wp.dot(l1, v0)
        if n[5] != n[2]:
            t2, a2, b2, k2, l2 = edge_angle(x2 - x0, x[n[5]] - x0, x1 - x0)
            p2 = t2 - rest[2] - folding[0, h[2]]
            r2 = wp.dot(a2, v2) + wp.dot(b2, v[n[5]]) + wp.dot(k2, v0) + wp.dot(l2, v1)
        q0 = values[0, e] * p0 + values[1, e] * r0
        q1 = values[0, e] * p1 + values[1, e] * r1
        q2 = values[0, e] * p2 + values[1, e] * r2
        m0 = K[0] * q0 + K[5] * q1 + K[4] * q2
        m1 = K[5] * q0 + K[1] * q1 + K[3] * q2
        m2 = K[4] * q0 + K[3] * q1 + K[2] * q2
        wp.atomic_sub(f, n[0], a0 * m0 + l1 * m1 + k2 * m2)
        wp.atomic_sub(f, n[1], k0 * m0 + a1 * m1 + l2 * m2)
        wp.atomic_sub(f, n[2], l0 * m0 + k1 * m1 + a2 * m2)
        wp.atomic_sub(f, n[3], b0 * m0)
        wp.atomic_sub(f, n[4], b1 * m1)
        wp.atomic_sub(f, n[5], b2 * m2)

    return ForceKernels(bend_force)
