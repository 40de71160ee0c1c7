"""Stable neo-Hookean tetrahedra (Smith, de Goes and Kim 2018) with actuation and strain-rate damping.

The energy density is mu/2 (Ic - 3) + lam/2 (J - alpha)^2 - mu/2 log(Ic + 1) with Ic = tr(F'F), which is invariant under
rotation, and alpha = 1 + 3/4 mu/lam + actuation, so that the rest shape is free of stress and a positive actuation
expands the element. Damping acts on the strain rate, damping F sym(F' dF/dt): neither translation nor rotation is
damped. The first Piola-Kirchhoff stress is

    P = mu (1 - 1/(Ic + 1)) F + (lam (J - 1 - actuation) - 3/4 mu) cof F + damping F sym(F' dF/dt)

The portable kernel runs on every device and is differentiated by Warp. Its native counterpart for the CPU processes a
cache line of elements at a time and has a hand-written adjoint. Tests compare the two.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Soft
from gradsim.scene.damping import strain_rate_damping
from gradsim.scene.elements import LinearTet
from gradsim.scene.materials import NeoHookean, YoungSolid
from gradsim.scene.meshes import TetMesh
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, Source, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("tet", "mu", "lam", "damping", "actuation")  # [Pa], [Pa], [Pa s], [1]


NEO_HOOKEAN = (NeoHookean, YoungSolid)
PARAMETERS: dict[str, Source] = {
    "mu": "material.mu",
    "lam": "material.lam",
    "damping": strain_rate_damping,
    "actuation": "actuation",
}


def tet_elements(body: Soft, place: "Placement") -> Elements:
    rest = tet_shapes(body.mesh)
    arrays = {"nodes": body.mesh.tets + place.first("node", body), "rest": rest, "volume": body.mesh.volumes}
    return Elements(len(body.mesh.tets), arrays | {"stretch": stretches(rest)})


def tet_shapes(mesh: TetMesh) -> np.ndarray:
    """Returns the inverse matrices of the rest edges of tetrahedra [1/m], [T, 3, 3]."""
    corners = mesh.vertices[mesh.tets]
    return np.linalg.inv(np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2))


def stretches(rest: np.ndarray) -> np.ndarray:
    """Returns a factor per element [1/m^2], [E], that times modulus / density is a squared frequency.

    It is the number of corners times the largest eigenvalue of sum g g' over the gradients g of the shape functions.
    """
    gradients = np.concatenate([-rest.sum(1, keepdims=True), rest], axis=1)
    return gradients.shape[1] * np.linalg.eigvalsh(np.swapaxes(gradients, 1, 2) @ gradients)[:, -1]


def tet_rate(view: "StabilityView") -> tuple[float, float]:
    stretch, compliance = view.array("stretch"), view.node_compliance("measure")  # 1 / density
    mu, lam, damping = view.row("mu") * stretch, view.row("lam") * stretch, view.row("damping") * stretch
    stiffness = max(view.largest(1.5 * mu), view.largest(3.0 * lam - 0.375 * mu))  # a small lam adds no stiffness
    return stiffness * compliance, view.largest(damping) * compliance


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
        mu = values[wp.static(ROWS.mu), e]
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
        pressure = values[wp.static(ROWS.lam), e] * (J - one - values[wp.static(ROWS.actuation), e]) - real(0.75) * mu
        FtdF = wp.transpose(F) * dF
        rate = (FtdF + wp.transpose(FtdF)) * real(0.5)
        P = F * shear + C * pressure + F * rate * values[wp.static(ROWS.damping), e]
        H = P * wp.transpose(B) * volume[e]
        h0 = vec3(H[0, 0], H[1, 0], H[2, 0])
        h1 = vec3(H[0, 1], H[1, 1], H[2, 1])
        h2 = vec3(H[0, 2], H[1, 2], H[2, 2])
        wp.atomic_add(f, i, h0 + h1 + h2)
        wp.atomic_sub(f, j, h0)
        wp.atomic_sub(f, k, h1)
        wp.atomic_sub(f, l, h2)

    return ForceKernels(tet_force)


TETRAHEDRA = ForceFamily(
    name="tet",
    rows=ROWS,
    owners=(Soft,),
    elements=tet_elements,
    parameters=PARAMETERS,
    signals=("actuation",),
    present=lambda body, scene: isinstance(body.element, LinearTet) and isinstance(body.material, NEO_HOOKEAN),
    kernels=tet_kernels,
    indices={"nodes": Index("node")},
    constants=("rest", "volume"),
    native="tetrahedra.h",
    stable_rate=tet_rate,
    reason="material stiffness",
)
