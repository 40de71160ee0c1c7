"""Contact of nodes with static shapes: pairs of a node and a signed distance, under the law of `contact_law.py`."""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import node_count
from gradsim.scene.body import NodeBody
from gradsim.simulate.forces.contact_law import ROW_NAMES, contact_columns, contact_law_functions, contact_pairs
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.forces.shapes import KINDS, shape_functions


def node_contact_elements(body: Any, place: Any) -> Elements:
    pairs = contact_pairs(place.first("node", body), node_count(body), len(place.scene.obstacles))
    return Elements(len(pairs["own"]), {"nodes": pairs["own"], "shapes": pairs["shapes"]})


def node_contact_columns(body: Any, scene: Any, topology: Any, batcher: Any) -> Any:
    return contact_columns(body, scene, topology, batcher, node_count(body) * len(scene.obstacles))


def contact_rate(view: Any) -> tuple[float, float]:
    """Every node counts as if it were in contact."""
    ke, kd, kf = (view.largest(view.row(row)) for row in ("ke", "kd", "kf"))
    compliance = view.node_compliance("one")
    return ke * compliance, max(kd, kf) * compliance


@functools.cache
def node_contact_kernels(real: Any, *, tape: bool = False) -> ForceKernels:
    """Contact and its hand-written adjoint; with `tape` Warp's own replaces it, to test the other."""
    types = types_of(real)
    table, vec3s = types.table, types.vec3s
    ints = types.ints
    module = kernel_module("node_contact_tape" if tape else "node_contact", real)
    law_force, law_adjoint = contact_law_functions(real)
    distance_of, hessian_of = shape_functions(real)
    zero = real(0.0)

    @wp.kernel(module=module, enable_backward=tape)
    def node_contact_force(
        nodes: ints, shapes: ints, kinds: ints, law: table, shape: table, x: vec3s, v: vec3s, f: vec3s
    ):
        p = wp.tid()
        i = nodes[p]
        j = shapes[p]
        gap, n = distance_of(kinds[j], shape, j, x[i])
        if gap < zero:
            force = law_force(-gap, n, v[i], law[0, p], law[1, p], law[2, p], law[3, p], law[4, p])
            wp.atomic_add(f, i, force)

    if tape:
        return ForceKernels(node_contact_force)

    @wp.kernel(module=module, enable_backward=False)
    def node_contact_force_adjoint(
        nodes: ints,
        shapes: ints,
        kinds: ints,
        law: table,
        shape: table,
        x: vec3s,
        v: vec3s,
        f_adj: vec3s,
        law_adj: table,
        shape_adj: table,
        x_adj: vec3s,
        v_adj: vec3s,
    ):
        p = wp.tid()
        i = nodes[p]
        j = shapes[p]
        gap, n = distance_of(kinds[j], shape, j, x[i])
        if gap >= zero:
            return
        c_adj, n_adj, u_adj, five = law_adjoint(
            f_adj[i], -gap, n, v[i], law[0, p], law[1, p], law[2, p], law[3, p], law[4, p]
        )
        for k in range(5):
            law_adj[k, p] = law_adj[k, p] + five[k]
        if kinds[j] == wp.static(KINDS.plane):
            m_adj = n_adj - x[i] * c_adj
            wp.atomic_add(shape_adj, 0, j, m_adj[0])
            wp.atomic_add(shape_adj, 1, j, m_adj[1])
            wp.atomic_add(shape_adj, 2, j, m_adj[2])
            wp.atomic_add(shape_adj, 3, j, c_adj)
        wp.atomic_add(x_adj, i, hessian_of(kinds[j], shape, j, x[i], n, n_adj) - n * c_adj)
        wp.atomic_add(v_adj, i, u_adj)

    return ForceKernels(node_contact_force, node_contact_force_adjoint)


NODE_CONTACT = ForceFamily(
    name="node_contact",
    rows=Rows("node_contact", *ROW_NAMES),
    owners=(NodeBody,),
    elements=node_contact_elements,
    columns=node_contact_columns,
    period=lambda scene: len(scene.obstacles),
    present=lambda body, scene: bool(scene.obstacles),
    kernels=node_contact_kernels,
    indices={"nodes": Index("node"), "shapes": Index("shape", fill=-1)},
    shared=("shape.kinds",),
    uses=("shape",),
    native="node_contact.h",
    stable_rate=contact_rate,
    reason="contact stiffness or friction",
)
