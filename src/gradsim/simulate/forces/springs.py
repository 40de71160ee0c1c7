"""Damped springs between two nodes: force -(stiffness (l - rest_length) + damping dl/dt) along the spring."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Springs
from gradsim.scene.quantity import PerElement
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("spring", "stiffness", "damping", "rest_length")  # [N/m], [N s/m], [m]


def spring_elements(body: Springs, place: "Placement") -> Elements:
    return Elements(len(body.edges), {"nodes": body.edges + place.first("node", body)})


def rest_length(body: Springs) -> Any:
    """Returns the rest lengths of the springs [m]: those given, or else the distances between the points."""
    if body.rest_length is not None:
        return body.rest_length
    points: Any = body.points
    first, second = body.edges.astype(np.int64).T
    edge = points[..., second, :] - points[..., first, :]
    return PerElement((edge * edge).sum(-1) ** 0.5)


def spring_rate(view: "StabilityView") -> tuple[float, float]:
    compliance = 2.0 * view.node_compliance("degree")
    return view.largest(view.row("stiffness")) * compliance, view.largest(view.row("damping")) * compliance


@functools.cache
def spring_kernels(real: Any) -> ForceKernels:
    types = types_of(real)

    @wp.kernel(module=kernel_module("springs", real))
    def spring_force(
        nodes: wp.array(dtype=wp.vec2i),
        values: types.table,
        x: types.vec3s,
        v: types.vec3s,
        f: types.vec3s,
    ):
        s = wp.tid()
        i = nodes[s][0]
        j = nodes[s][1]
        d = x[j] - x[i]
        length = wp.length(d)
        n = wp.normalize(d)  # zero if the ends coincide
        rate = wp.dot(v[j] - v[i], n)
        stiffness = values[wp.static(ROWS.stiffness), s]
        pull = n * (
            stiffness * (length - values[wp.static(ROWS.rest_length), s]) + values[wp.static(ROWS.damping), s] * rate
        )
        wp.atomic_add(f, i, pull)
        wp.atomic_sub(f, j, pull)

    return ForceKernels(spring_force)


SPRINGS = ForceFamily(
    name="spring",
    rows=ROWS,
    owners=(Springs,),
    elements=spring_elements,
    parameters={"stiffness": "stiffness", "damping": "damping", "rest_length": rest_length},
    kernels=spring_kernels,
    indices={"nodes": Index("node")},
    native="springs.h",
    stable_rate=spring_rate,
    reason="spring stiffness",
)
