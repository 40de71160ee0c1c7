"""Functions of tetrahedra that portable kernels share."""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.simulate.forces.family import types_of


class TetFunctions(NamedTuple):
    """Warp functions of one precision."""

    gradient: Any  # (nodes, inverse rest edges, positions) -> deformation gradient
    cofactor: Any
    cofactor_gradient: Any  # (F, A) -> gradient of <A, cof F> with respect to F
    determinant: Any
    add_stress: Any  # (nodes, inverse rest edges, stress times volume, forces)


@functools.cache
def tet_functions(real: Any) -> TetFunctions:
    """Returns the functions for a scalar type."""
    types = types_of(real)
    vec3, mat33, vec3s = types.vec3, types.mat33, types.vec3s

    @wp.func
    def gradient(tet: wp.vec4i, B: mat33, x: vec3s):
        a = x[tet[0]]
        return wp.matrix_from_cols(x[tet[1]] - a, x[tet[2]] - a, x[tet[3]] - a) * B

    @wp.func
    def cofactor(F: mat33):
        c0 = vec3(F[0, 0], F[1, 0], F[2, 0])
        c1 = vec3(F[0, 1], F[1, 1], F[2, 1])
        c2 = vec3(F[0, 2], F[1, 2], F[2, 2])
        return wp.matrix_from_cols(wp.cross(c1, c2), wp.cross(c2, c0), wp.cross(c0, c1))

    @wp.func
    def cofactor_gradient(F: mat33, A: mat33):
        c0 = vec3(F[0, 0], F[1, 0], F[2, 0])
        c1 = vec3(F[0, 1], F[1, 1], F[2, 1])
        c2 = vec3(F[0, 2], F[1, 2], F[2, 2])
        a0 = vec3(A[0, 0], A[1, 0], A[2, 0])
        a1 = vec3(A[0, 1], A[1, 1], A[2, 1])
        a2 = vec3(A[0, 2], A[1, 2], A[2, 2])
        return wp.matrix_from_cols(
            wp.cross(c1, a2) + wp.cross(a1, c2),
            wp.cross(c2, a0) + wp.cross(a2, c0),
            wp.cross(c0, a1) + wp.cross(a0, c1),
        )

    @wp.func
    def determinant(F: mat33):
        c0 = vec3(F[0, 0], F[1, 0], F[2, 0])
        return wp.dot(c0, wp.cross(vec3(F[0, 1], F[1, 1], F[2, 1]), vec3(F[0, 2], F[1, 2], F[2, 2])))

    @wp.func
    def add_stress(tet: wp.vec4i, B: mat33, P: mat33, f: vec3s):
        H = P * wp.transpose(B)
        h0 = vec3(H[0, 0], H[1, 0], H[2, 0])
        h1 = vec3(H[0, 1], H[1, 1], H[2, 1])
        h2 = vec3(H[0, 2], H[1, 2], H[2, 2])
        wp.atomic_add(f, tet[0], h0 + h1 + h2)
        wp.atomic_sub(f, tet[1], h0)
        wp.atomic_sub(f, tet[2], h1)
        wp.atomic_sub(f, tet[3], h2)

    return TetFunctions(gradient, cofactor, cofactor_gradient, determinant, add_stress)
