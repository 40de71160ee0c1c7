"""Tetrahedra of further materials, and fibres in tetrahedra of any material.

First Piola-Kirchhoff stresses, with E = (F'F - 1)/2, C = F'F and J = det F:

    St. Venant-Kirchhoff   F (2 mu E + lam tr E)
    standard neo-Hookean   mu F + g(J) cof F, g = (lam log J - mu) / J, linear below J = 0.1
    Mooney-Rivlin          2 c10 F + 2 c01 (tr C F - F C) + (k (J - 1) - 2 c10 - 4 c01) cof F
    fibres along a         stiffness (1 - 1/|F a|) (F a) a'

with k = bulk + (2 c10 - 4 c01)/3, so that `bulk` is the bulk modulus at small strain. The materials have the damping of
`tetrahedra.py`. Portable kernels are differentiated by Warp; the native ones have hand-written adjoints.
"""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Soft
from gradsim.scene.damping import strain_rate_damping
from gradsim.scene.solids import MooneyRivlin, StandardNeoHookean, StVenantKirchhoff
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, Source, types_of
from gradsim.simulate.forces.tetrahedra import tet_elements

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

LAME: dict[str, Source] = {"mu": "material.mu", "lam": "material.lam", "damping": strain_rate_damping}
STVK_ROWS = Rows("stvk", *LAME)  # [Pa], [Pa], [Pa s]
LOG_ROWS = Rows("log_solid", *LAME)
MOONEY_ROWS = Rows("mooney", "c10", "c01", "bulk", "damping")  # [Pa], [Pa], [Pa], [Pa s]
FIBRE_ROWS = Rows("fibre", "stiffness")  # [Pa]
SMALLEST_VOLUME = 0.1  # J below which the logarithms of the standard neo-Hookean solid continue as a parabola
FIBRE_SMALLEST = 1e-20  # added to the squared stretch of a fibre


@functools.cache
def solid_stresses(real: Any) -> dict[str, Any]:
    """Returns the stresses by family, as functions (F, cof F, J, first, second, third parameter)."""
    mat33 = types_of(real).mat33
    one, two, limit = real(1.0), real(2.0), real(SMALLEST_VOLUME)

    @wp.func
    def stvk(F: mat33, C: mat33, J: real, mu: real, lam: real, unused: real):
        E = (wp.transpose(F) * F - wp.identity(3, dtype=real)) * real(0.5)
        return F * (E * (two * mu) + wp.identity(3, dtype=real) * (lam * wp.trace(E)))

    @wp.func
    def log_solid(F: mat33, C: mat33, J: real, mu: real, lam: real, unused: real):
        j = wp.max(J, limit)
        slope = (lam - lam * wp.log(j) + mu) / (j * j)
        return F * mu + C * ((lam * wp.log(j) - mu) / j + slope * wp.min(J - limit, real(0.0)))

    @wp.func
    def mooney(F: mat33, C: mat33, J: real, c10: real, c01: real, bulk: real):
        Q = wp.transpose(F) * F
        k = bulk + (c10 - two * c01) * (two / real(3.0))
        shear = F * (two * (c10 + c01 * wp.trace(Q))) - F * Q * (two * c01)
        return shear + C * (k * (J - one) - two * c10 - real(4.0) * c01)

    return {"stvk": stvk, "log_solid": log_solid, "mooney": mooney}


def _solid_kernels(name: str, rows: Any) -> Callable[[Any], ForceKernels]:
    """Returns the function that builds the portable kernel of a material."""
    names = [*rows.names]
    first, second = 0, 1
    third = 2 if len(names) == 4 else 0  # materials of two parameters ignore it
    damping = names.index("damping")

    @functools.cache
    def kernels(real: Any) -> ForceKernels:
        types = types_of(real)
        vec3 = types.vec3
        stress = solid_stresses(real)[name]

        @wp.kernel(module=kernel_module(f"solids_{name}", real))
        def solid_force(
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
            B = rest[e]
            F = wp.matrix_from_cols(x[j] - x[i], x[k] - x[i], x[l] - x[i]) * B
            dF = wp.matrix_from_cols(v[j] - v[i], v[k] - v[i], v[l] - v[i]) * B
            c0 = vec3(F[0, 0], F[1, 0], F[2, 0])
            c1 = vec3(F[0, 1], F[1, 1], F[2, 1])
            c2 = vec3(F[0, 2], F[1, 2], F[2, 2])
            C = wp.matrix_from_cols(wp.cross(c1, c2), wp.cross(c2, c0), wp.cross(c0, c1))
            J = wp.dot(c0, wp.cross(c1, c2))
            FtdF = wp.transpose(F) * dF
            rate = (FtdF + wp.transpose(FtdF)) * real(0.5)
            elastic = stress(F, C, J, values[first, e], values[second, e], values[third, e])
            P = elastic + F * rate * values[damping, e]
            H = P * wp.transpose(B) * volume[e]
            h0 = vec3(H[0, 0], H[1, 0], H[2, 0])
            h1 = vec3(H[0, 1], H[1, 1], H[2, 1])
            h2 = vec3(H[0, 2], H[1, 2], H[2, 2])
            wp.atomic_add(f, i, h0 + h1 + h2)
            wp.atomic_sub(f, j, h0)
            wp.atomic_sub(f, k, h1)
            wp.atomic_sub(f, l, h2)

        return ForceKernels(solid_force)

    return kernels


def _lame_rate(view: "StabilityView") -> tuple[float, float]:
    stretch, compliance = view.array("stretch"), view.node_compliance("measure")
    stiffness = view.largest((2.0 * view.row("mu") + view.row("lam")) * stretch)
    return stiffness * compliance, view.largest(view.row("damping") * stretch) * compliance


def _mooney_rate(view: "StabilityView") -> tuple[float, float]:
    stretch, compliance = view.array("stretch"), view.node_compliance("measure")
    shear = 2.0 * (view.row("c10") + view.row("c01"))
    stiffness = view.largest((view.row("bulk") + 4.0 / 3.0 * shear) * stretch)
    return stiffness * compliance, view.largest(view.row("damping") * stretch) * compliance


def _solid(name: str, rows: Any, material: type, rate: Any, parameters: Mapping[str, Source]) -> ForceFamily:
    return ForceFamily(
        name=name,
        rows=rows,
        owners=(Soft,),
        elements=tet_elements,
        parameters=parameters,
        present=lambda body, scene: isinstance(body.material, material),
        kernels=_solid_kernels(name, rows),
        indices={"nodes": Index("node")},
        constants=("rest", "volume"),
        native="solids.h",
        stable_rate=rate,
        reason="material stiffness",
    )


ST_VENANT_KIRCHHOFF = _solid("stvk", STVK_ROWS, StVenantKirchhoff, _lame_rate, LAME)
STANDARD_NEO_HOOKEAN = _solid("log_solid", LOG_ROWS, StandardNeoHookean, _lame_rate, LAME)
MOONEY = {name: f"material.{name}" for name in ("c10", "c01", "bulk")} | {"damping": strain_rate_damping}
MOONEY_RIVLIN = _solid("mooney", MOONEY_ROWS, MooneyRivlin, _mooney_rate, MOONEY)


def fibre_elements(body: Soft, place: "Placement") -> Elements:
    assert body.fibres is not None
    own = tet_elements(body, place)
    return Elements(own.count, own.arrays | {"direction": body.fibres.directions(own.count, body.name)})


def fibre_rate(view: "StabilityView") -> tuple[float, float]:
    stiffness = view.largest(view.row("stiffness") * view.array("stretch"))
    return stiffness * view.node_compliance("measure"), 0.0


@functools.cache
def fibre_kernels(real: Any) -> ForceKernels:
    types = types_of(real)

    @wp.kernel(module=kernel_module("fibres", real))
    def fibre_force(
        nodes: wp.array(dtype=wp.vec4i),
        rest: wp.array(dtype=types.mat33),
        volume: types.reals,
        direction: types.vec3s,
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
        b = rest[e] * direction[e]
        u = (x[j] - x[i]) * b[0] + (x[k] - x[i]) * b[1] + (x[l] - x[i]) * b[2]
        r = real(1.0) / wp.sqrt(wp.dot(u, u) + real(FIBRE_SMALLEST))
        p = u * (values[wp.static(FIBRE_ROWS.stiffness), e] * (real(1.0) - r) * volume[e])
        wp.atomic_add(f, i, p * (b[0] + b[1] + b[2]))
        wp.atomic_sub(f, j, p * b[0])
        wp.atomic_sub(f, k, p * b[1])
        wp.atomic_sub(f, l, p * b[2])

    return ForceKernels(fibre_force)


FIBRES = ForceFamily(
    name="fibre",
    rows=FIBRE_ROWS,
    owners=(Soft,),
    elements=fibre_elements,
    key=lambda body: (body.mesh.key, body.fibres.direction.tobytes(), body.fibres.direction.ndim),
    parameters={"stiffness": "fibres.stiffness"},
    present=lambda body, scene: body.fibres is not None,
    kernels=fibre_kernels,
    indices={"nodes": Index("node")},
    constants=("rest", "volume", "direction"),
    native="solids.h",
    stable_rate=fibre_rate,
    reason="stiffness of fibres",
)
