"""Neo-Hookean membranes in space: triangles that resist stretch and shear in their plane, and the air around them.

The energy of the solids in two dimensions, with the two rest directions mapped to the columns of F (3x2), Ic = tr(F'F)
and J = |F_0 x F_1| the ratio of areas; alpha = 1 + 2/3 mu/lam + actuation keeps the rest shape free of stress. Per rest
area:

    P = mu (1 - 1/(Ic + 1)) F + (lam (J - 1 - actuation) - 2/3 mu) dJ/dF + damping F sym(F' dF/dt)

Air: with u the triangle's mean velocity, n its normal and A its present area, the force on the whole triangle is
-(drag A |n.u| u + lift A (n.u) |u| n). The lift grows with the sine of the angle of attack, where the seed has the
angle: the two agree for small angles, and the sine is smooth where a sheet falls flat, the angle is not.

Portable and native kernels as for tetrahedra.
"""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import ForceKernels, types_of

# [N/m], [N/m], [N s/m], [kg/m^3], [kg/m^3], [1]
PARAMETERS = ("mu", "lam", "damping", "drag", "lift", "actuation")


@functools.cache
def triangle_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    two_thirds, third = real(2.0 / 3.0), real(1.0 / 3.0)  # computed inside a kernel they would be single precision

    @wp.kernel(module=kernel_module("triangles", real))
    def triangle_force(
        nodes: wp.array(dtype=wp.vec3i),
        rest: wp.array(dtype=types.mat22),  # inverse of the rest edges in the plane [1/m]
        area: types.reals,  # [m^2]
        values: types.table,
        x: types.vec3s,
        v: types.vec3s,
        f: types.vec3s,
    ):
        e = wp.tid()
        triangle = nodes[e]
        i = triangle[0]
        j = triangle[1]
        k = triangle[2]
        mu = values[0, e]
        B = rest[e]
        q = x[j] - x[i]
        r = x[k] - x[i]
        vq = v[j] - v[i]
        vr = v[k] - v[i]
        f0 = q * B[0, 0] + r * B[1, 0]
        f1 = q * B[0, 1] + r * B[1, 1]
        g0 = vq * B[0, 0] + vr * B[1, 0]
        g1 = vq * B[0, 1] + vr * B[1, 1]
        N = wp.cross(f0, f1)
        J = wp.length(N)
        n = N / wp.max(J, real(1.0e-30))
        one = real(1.0)
        shear = mu * (one - one / (wp.dot(f0, f0) + wp.dot(f1, f1) + one))
        pressure = values[1, e] * (J - one - values[5, e]) - two_thirds * mu
        e00 = wp.dot(f0, g0)
        e11 = wp.dot(f1, g1)
        e01 = (wp.dot(f0, g1) + wp.dot(f1, g0)) * real(0.5)
        P0 = f0 * shear + wp.cross(f1, n) * pressure + (f0 * e00 + f1 * e01) * values[2, e]
        P1 = f1 * shear + wp.cross(n, f0) * pressure + (f0 * e01 + f1 * e11) * values[2, e]
        hq = (P0 * B[0, 0] + P1 * B[0, 1]) * area[e]
        hr = (P0 * B[1, 0] + P1 * B[1, 1]) * area[e]

        u = (v[i] + v[j] + v[k]) * third
        flux = area[e] * wp.dot(N, u)
        air = (u * (values[3, e] * wp.abs(flux)) + n * (values[4, e] * flux * wp.length(u))) * third
        wp.atomic_add(f, i, hq + hr - air)
        wp.atomic_sub(f, j, hq + air)
        wp.atomic_sub(f, k, hr + air)

    return ForceKernels(triangle_force)
