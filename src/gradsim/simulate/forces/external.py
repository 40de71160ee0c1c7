"""External forces: the quantity `force` of a body acts on each of its nodes."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import node_count
from gradsim.scene.body import NodeBody
from gradsim.scene.quantity import component, is_zero
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement

ROWS = Rows("external", "force_x", "force_y", "force_z")  # [N]


def external_elements(body: Any, place: "Placement") -> Elements:
    first, count = place.first("node", body), node_count(body)
    return Elements(count, {"nodes": np.arange(first, first + count, dtype=np.int32)})


@functools.cache
def external_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3 = types.vec3

    @wp.kernel(module=kernel_module("external", real))
    def external_force(nodes: types.ints, values: types.table, x: types.vec3s, v: types.vec3s, f: types.vec3s):
        e = wp.tid()
        fx = values[wp.static(ROWS.force_x), e]
        force = vec3(fx, values[wp.static(ROWS.force_y), e], values[wp.static(ROWS.force_z), e])
        wp.atomic_add(f, nodes[e], force)

    return ForceKernels(external_force)


EXTERNAL = ForceFamily(
    name="external",
    rows=ROWS,
    owners=(NodeBody,),
    elements=external_elements,
    parameters={
        "force_x": lambda body: component(body.force, 0),
        "force_y": lambda body: component(body.force, 1),
        "force_z": lambda body: component(body.force, 2),
    },
    signals=("force_x", "force_y", "force_z"),
    present=lambda body, scene: not is_zero(body.force),
    kernels=external_kernels,
    indices={"nodes": Index("node")},
    native="external.h",
)
