"""Neo-Hookean membranes: triangles that resist stretch and shear in their plane, with aerodynamic forces.

The energy is that of the solids in two dimensions, where F (3x2) maps the two rest directions to its columns, Ic =
tr(F'F) and J = |F_0 x F_1| is the ratio of areas; alpha = 1 + 2/3 mu/lam + actuation makes the rest shape free of
stress. Per rest area,

    P = mu (1 - 1/(Ic + 1)) F + (lam (J - 1 - actuation) - 2/3 mu) dJ/dF + damping F sym(F' dF/dt)

With the triangle's mean velocity u, its normal n and its present area A, the aerodynamic force on the triangle is
-(drag A |n.u| u + lift A (n.u) |u| n). The lift is proportional to the sine of the angle of attack, where the paper's
code uses the angle: the two agree for small angles, and the sine is smooth for a sheet that falls flat.

Portable kernel and native counterpart as for tetrahedra.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Cloth
from gradsim.scene.meshes import TriMesh
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.forces.tetrahedra import stretches

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

# [N/m], [N/m], [N s/m], [kg/m^3], [kg/m^3], [1]
ROWS = Rows("triangle", "mu", "lam", "damping", "drag", "lift", "actuation")


def triangle_elements(body: Cloth, place: "Placement") -> Elements:
    rest, area = triangle_shapes(body.mesh)
    arrays = {"nodes": body.mesh.faces + place.first("node", body), "rest": rest, "area": area}
    return Elements(len(body.mesh.faces), arrays | {"stretch": stretches(rest)})


def triangle_shapes(mesh: TriMesh) -> tuple[np.ndarray, np.ndarray]:
    """Returns the inverse matrices of the rest edges in the plane [1/m], [F, 2, 2], and the rest areas [m^2], [F]."""
    corners = mesh.vertices[mesh.faces]
    q, r = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    length = np.linalg.norm(q, axis=1)
    along = (q * r).sum(1) / length
    height = np.linalg.norm(np.cross(q, r), axis=1) / length
    zero = np.zeros_like(length)
    edges = np.stack([np.stack([length, along], 1), np.stack([zero, height], 1)], 1)
    return np.linalg.inv(edges), 0.5 * length * height


def triangle_rate(view: "StabilityView") -> tuple[float, float]:
    stretch, compliance = view.array("stretch"), view.node_compliance("measure")  # 1 / density
    mu, lam, damping = (view.row(row) * stretch for row in ("mu", "lam", "damping"))
    rate, air = view.largest(damping) * compliance, view.largest(view.row("drag") + view.row("lift"))
    if air > 0.0:  # aerodynamic forces are quadratic in the velocity
        rate = max(rate, 2.0 * air * view.initial_speed() * compliance)
    return max(view.largest((4 / 3) * mu), view.largest(2.0 * lam + (4 / 9) * mu)) * compliance, rate


@functools.cache
def triangle_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    two_thirds, third = real(2.0 / 3.0), real(1.0 / 3.0)  # inside a kernel they would have single precision

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
        mu = values[wp.static(ROWS.mu), e]
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
        pressure = values[wp.static(ROWS.lam), e] * (J - one - values[wp.static(ROWS.actuation), e]) - two_thirds * mu
        e00 = wp.dot(f0, g0)
        e11 = wp.dot(f1, g1)
        e01 = (wp.dot(f0, g1) + wp.dot(f1, g0)) * real(0.5)
        P0 = f0 * shear + wp.cross(f1, n) * pressure + (f0 * e00 + f1 * e01) * values[wp.static(ROWS.damping), e]
        P1 = f1 * shear + wp.cross(n, f0) * pressure + (f0 * e01 + f1 * e11) * values[wp.static(ROWS.damping), e]
        hq = (P0 * B[0, 0] + P1 * B[0, 1]) * area[e]
        hr = (P0 * B[1, 0] + P1 * B[1, 1]) * area[e]

        u = (v[i] + v[j] + v[k]) * third
        flux = area[e] * wp.dot(N, u)
        drag = values[wp.static(ROWS.drag), e] * wp.abs(flux)
        lift = values[wp.static(ROWS.lift), e] * flux * wp.length(u)
        air = (u * drag + n * lift) * third
        wp.atomic_add(f, i, hq + hr - air)
        wp.atomic_sub(f, j, hq + air)
        wp.atomic_sub(f, k, hr + air)

    return ForceKernels(triangle_force)


TRIANGLES = ForceFamily(
    name="triangle",
    rows=ROWS,
    owners=(Cloth,),
    elements=triangle_elements,
    parameters={
        "mu": "material.mu",
        "lam": "material.lam",
        "damping": "material.damping",
        "drag": "drag",
        "lift": "lift",
        "actuation": "actuation",
    },
    signals=("actuation",),
    kernels=triangle_kernels,
    indices={"nodes": Index("node")},
    constants=("rest", "area"),
    native="triangles.h",
    stable_rate=triangle_rate,
    reason="membrane stiffness or air",
)
