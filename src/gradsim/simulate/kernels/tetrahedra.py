"""Stable neo-Hookean tetrahedra (Smith, de Goes and Kim 2018) with actuation and strain-rate damping.

Energy density mu/2 (Ic - 3) + lam/2 (J - alpha)^2 - mu/2 log(Ic + 1) with Ic = tr(F'F) over all nine entries, so that
it does not change under rotation, and alpha = 1 + 3/4 mu/lam + actuation, so that the rest shape is free of stress and
a positive actuation swells the element. Damping acts on the strain rate, damping F sym(F' dF/dt): neither translation
nor rotation feels it. First Piola-Kirchhoff stress:

    P = mu (1 - 1/(Ic + 1)) F + (lam (J - 1 - actuation) - 3/4 mu) cof F + damping F sym(F' dF/dt)

The portable kernel runs everywhere and is differentiated by Warp. On the CPU the native one takes its place: a cache
line of elements at a time, with a hand-written adjoint. Tests hold the two equal.
"""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import ForceKernels, types_of

PARAMETERS = ("mu", "lam", "damping", "actuation")  # [Pa], [Pa], [Pa s], [1]


@functools.cache
def tet_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3 = types.vec3

    @wp.kernel(module=kernel_module("tetrahedra", real))
    def tet_force(
        nodes: wp.array(dtype=wp.vec4i),
        rest: wp.array(dtype=types.mat33),  # inverse of the rest edges [1/m]
        volume: types.reals,  # [m^3]
        values: types.table,
        x: types.vec3s,
        v: types.vec3s,
        f: types.vec3s,
    ):
        e = wp.tid()
        tet = nodes[e]
        i = tet[0]
        j = tet[1]
        k = tet[2]
        l = tet[3]
        mu = values[0, e]
        B = rest[e]
        F = wp.matrix_from_cols(x[j] - x[i], x[k] - x[i], x[l] - x[i]) * B
        dF = wp.matrix_from_cols(v[j] - v[i], v[k] - v[i], v[l] - v[i]) * B
        c0 = vec3(F[0, 0], F[1, 0], F[2, 0])
        c1 = vec3(F[0, 1], F[1, 1], F[2, 1])
        c2 = vec3(F[0, 2], F[1, 2], F[2, 2])
        C = wp.matrix_from_cols(wp.cross(c1, c2), wp.cross(c2, c0), wp.cross(c0, c1))
        J = wp.dot(c0, wp.cross(c1, c2))
        one = real(1.0)
        shear = mu * (one - one / (wp.ddot(F, F) + one))
        pressure = values[1, e] * (J - one - values[3, e]) - real(0.75) * mu
        FtdF = wp.transpose(F) * dF
        rate = (FtdF + wp.transpose(FtdF)) * real(0.5)
        P = F * shear + C * pressure + F * rate * values[2, e]
        H = P * wp.transpose(B) * volume[e]
        h0 = vec3(H[0, 0], H[1, 0], H[2, 0])
        h1 = vec3(H[0, 1], H[1, 1], H[2, 1])
        h2 = vec3(H[0, 2], H[1, 2], H[2, 2])
        wp.atomic_add(f, i, h0 + h1 + h2)
        wp.atomic_sub(f, j, h0)
        wp.atomic_sub(f, k, h1)
        wp.atomic_sub(f, l, h2)

    return ForceKernels(tet_force)
