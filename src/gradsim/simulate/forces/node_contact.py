"""Contact of nodes with static shapes: one pair per node and shape, with the law of `contact_law.py`."""

import functools
from typing import TYPE_CHECKING, Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import node_count
from gradsim.scene.body import NodeBody
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.contact_law import ROW_NAMES, contact_columns, contact_law_functions, contact_pairs
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.forces.shapes import shape_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.stability import StabilityView


def node_contact_elements(body: Any, place: "Placement") -> Elements:
    pairs = contact_pairs(place.first("node", body), node_count(body), len(place.scene.obstacles))
    return Elements(len(pairs["own"]), {"nodes": pairs["own"], "shapes": pairs["shapes"]})


def node_contact_columns(body: Any, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    return contact_columns(body, scene, batcher, node_count(body) * len(scene.obstacles), lambda law: ())


def contact_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if every node were in contact."""
    ke, kd, kf = (view.largest(view.row(row)) for row in ("ke", "kd", "kf"))
    compliance = view.node_compliance("one")
    return ke * compliance, max(kd, kf) * compliance


@functools.cache
def node_contact_kernels(real: Any, *, tape: bool = False) -> ForceKernels:
    """Contact force with a hand-written adjoint, or with Warp's adjoint if `tape`, for tests."""
    types = types_of(real)
    table, vec3s, ints = types.table, types.vec3s, types.ints
    module = kernel_module("node_contact_tape" if tape else "node_contact", real)
    contact_parameters, contact_force, contact_force_adjoint = contact_law_functions(real)[:3]
    distance_of, hessian_of, velocity_of, add_shape_adjoint, add_velocity_adjoint = shape_functions(real)
    zero = real(0.0)

    @wp.kernel(module=module, enable_backward=tape)
    def node_contact_force(
        nodes: ints, shapes: ints, kinds: ints, flags: ints, contact: table, shape: table, x: vec3s, v: vec3s, f: vec3s
    ):
        p = wp.tid()
        i = nodes[p]
        j = shapes[p]
        gap, n = distance_of(kinds[j], shape, j, x[i])
        if gap < zero:
            ke, kd, kf, mu, delta = contact_parameters(contact, p)
            u = v[i] - velocity_of(flags[j], shape, j, x[i])
            wp.atomic_add(f, i, contact_force(-gap, n, u, ke, kd, kf, mu, delta))

    if tape:
        return ForceKernels(node_contact_force)

    @wp.kernel(module=module, enable_backward=False)
    def node_contact_force_adjoint(
        nodes: ints,
        shapes: ints,
        kinds: ints,
        flags: ints,
        contact: table,
        shape: table,
        x: vec3s,
        v: vec3s,
        f_adj: vec3s,
        contact_adj: table,
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
        ke, kd, kf, mu, delta = contact_parameters(contact, p)
        u = v[i] - velocity_of(flags[j], shape, j, x[i])
        c_adj, n_adj, u_adj, parameters_adj = contact_force_adjoint(f_adj[i], -gap, n, u, ke, kd, kf, mu, delta)
        for k in range(5):
            contact_adj[k, p] = contact_adj[k, p] + parameters_adj[k]
        own_adj = hessian_of(kinds[j], shape, j, x[i], n, n_adj) - n * c_adj
        add_shape_adjoint(kinds[j], flags[j], shape, j, x[i], n, c_adj, n_adj, own_adj, shape_adj)
        wp.atomic_add(x_adj, i, own_adj + add_velocity_adjoint(flags[j], shape, j, x[i], -u_adj, shape_adj))
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
    shared=("shape.kinds", "shape.flags"),
    uses=("shape",),
    native="node_contact.h",
    stable_rate=contact_rate,
    reason="contact stiffness or friction",
)
