"""Rayleigh damping proportional to the mass: the force -rate m v on every node of a soft body."""

import functools
from typing import TYPE_CHECKING, Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Soft
from gradsim.simulate.forces.external import external_elements
from gradsim.simulate.forces.family import ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.kernels.nodes import ROWS as NODE_ROWS

if TYPE_CHECKING:
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("mass_damping", "rate")  # [1/s]


@functools.cache
def mass_damping_kernels(real: Any) -> ForceKernels:
    types = types_of(real)

    @wp.kernel(module=kernel_module("mass_damping", real))
    def mass_damping_force(
        nodes: types.ints, values: types.table, node: types.table, x: types.vec3s, v: types.vec3s, f: types.vec3s
    ):
        e = wp.tid()
        i = nodes[e]
        inverse_mass = node[wp.static(NODE_ROWS.inverse_mass), i]
        if inverse_mass > real(0.0):
            wp.atomic_sub(f, i, v[i] * (values[wp.static(ROWS.rate), e] / inverse_mass))

    return ForceKernels(mass_damping_force)


def mass_damping_rate(view: "StabilityView") -> tuple[float, float]:
    return 0.0, view.largest(view.row("rate"))


MASS_DAMPING = ForceFamily(
    name="mass_damping",
    rows=ROWS,
    owners=(Soft,),
    elements=external_elements,
    parameters={"rate": "rayleigh.mass_rate"},
    present=lambda body, scene: body.rayleigh is not None and body.rayleigh.has_mass,
    kernels=mass_damping_kernels,
    indices={"nodes": Index("node")},
    uses=("node",),
    native="mass_damping.h",
    stable_rate=mass_damping_rate,
    reason="damping",
)
