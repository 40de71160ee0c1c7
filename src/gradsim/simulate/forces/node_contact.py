"""Contact of nodes with static shapes, one pair per node and shape: the laws of `contact_law.py` and `sticking.py`."""

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
from gradsim.simulate.forces.sticking import STICKING_ROWS, sticking_functions, sticking_rows
from gradsim.simulate.state.kernels.nodes import ROWS as NODE_ROWS

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("node_contact", *ROW_NAMES, *STICKING_ROWS)


def node_contact_elements(body: Any, place: "Placement") -> Elements:
    pairs = contact_pairs(place.first("node", body), node_count(body), len(place.scene.obstacles))
    return Elements(len(pairs["own"]), {"nodes": pairs["own"], "shapes": pairs["shapes"]})


def node_contact_columns(body: Any, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    return contact_columns(body, scene, batcher, node_count(body) * len(scene.obstacles), sticking_rows)


def contact_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if every node were in contact."""
    ke, kd, kf = (view.largest(view.row(row)) for row in ("ke", "kd", "kf"))
    compliance = view.node_compliance("one")
    return ke * compliance, max(kd, kf) * compliance


@functools.cache
def node_contact_kernels(real: Any, *, tape: bool = False) -> ForceKernels:
    """Contact force with a hand-written adjoint, or with Warp's adjoint if `tape`, for tests."""
    types = types_of(real)
    vec3, table, vec3s, ints, reals = types.vec3, types.table, types.vec3s, types.ints, types.reals
    module = kernel_module("node_contact_tape" if tape else "node_contact", real)
    contact_parameters, contact_force, contact_force_adjoint, normal_force, normal_force_adjoint = (
        contact_law_functions(real)[:5]
    )
    sticking_friction, sticking_friction_adjoint = sticking_functions(real)
    distance_of, hessian_of, velocity_of, add_shape_adjoint, add_velocity_adjoint = shape_functions(real)
    zero = real(0.0)
    vec5 = wp.types.vector(5, real)

    @wp.func
    def slip_damping(contact: table, p: int, w: real, dt: real):
        """kf of sticking friction, for a node of inverse mass w."""
        kf = zero
        if w > zero:
            kf = contact[wp.static(ROWS.stick_damping), p] / (w * dt)
        return kf

    @wp.func
    def anchored_adjoint(
        b: vec3, y: vec3, c: real, n: vec3, v: vec3, xi: vec3,
        ke: real, kd: real, mu: real, delta: real, ratio: real, kf: real, h: real,
    ):  # fmt: skip
        """Adjoints of depth, normal, velocity, anchor, the five parameters, and kf of sticking friction."""
        vn = wp.dot(n, v)
        fn = normal_force(c, vn, ke, kd, delta)
        c_adj = zero
        n_adj = vec3()
        v_adj = vec3()
        xi_adj = vec3()
        parameters_adj = vec5()
        kf_adj = zero
        if fn > zero:
            cone_adj, u_adj, own_adj, xi_n_adj, mu_adj, kt_adj, slip_adj = sticking_friction_adjoint(
                b, y, n, v, fn, xi, mu, ratio * ke, kf, h
            )
            depth_adj, rate_adj, ke_adj, kd_adj, delta_adj = normal_force_adjoint(
                wp.dot(b, n) + cone_adj, c, vn, ke, kd, delta
            )
            vn_adj = rate_adj - wp.dot(u_adj, n)
            c_adj = depth_adj
            n_adj = b * fn - u_adj * vn + v * vn_adj + xi_n_adj
            v_adj = u_adj + n * vn_adj
            xi_adj = own_adj
            parameters_adj = vec5(ke_adj + ratio * kt_adj, kd_adj, zero, mu_adj, delta_adj)
            kf_adj = slip_adj
        return c_adj, n_adj, v_adj, xi_adj, parameters_adj, kf_adj

    @wp.kernel(module=module, enable_backward=tape)
    def node_contact_force(
        advance: real, commit: int, dt: reals,
        nodes: ints, shapes: ints, kinds: ints, flags: ints, contact: table, shape: table, node: table,
        x: vec3s, v: vec3s, xi: vec3s, f: vec3s, next: vec3s,
    ):  # fmt: skip
        p = wp.tid()
        i = nodes[p]
        j = shapes[p]
        gap, n = distance_of(kinds[j], shape, j, x[i])
        if gap < zero:
            ke, kd, kf, mu, delta = contact_parameters(contact, p)
            ratio = contact[wp.static(ROWS.stick_stiffness), p]
            u = v[i] - velocity_of(flags[j], shape, j, x[i])
            if ratio > zero:
                slow = slip_damping(contact, p, node[wp.static(NODE_ROWS.inverse_mass), i], dt[0])
                fn = normal_force(-gap, wp.dot(n, u), ke, kd, delta)
                if fn > zero:
                    along, anchor = sticking_friction(n, u, fn, xi[p], mu, ratio * ke, slow, advance * dt[0])
                    wp.atomic_add(f, i, n * fn + along)
                    if commit == 1:
                        other, moved = sticking_friction(n, u, fn, xi[p], mu, ratio * ke, slow, dt[0])
                        next[p] = moved
            else:
                wp.atomic_add(f, i, contact_force(-gap, n, u, ke, kd, kf, mu, delta))

    if tape:
        return ForceKernels(node_contact_force)

    @wp.kernel(module=module, enable_backward=False)
    def node_contact_force_adjoint(
        advance: real, commit: int, dt: reals,
        nodes: ints, shapes: ints, kinds: ints, flags: ints, contact: table, shape: table, node: table,
        x: vec3s, v: vec3s, xi: vec3s, f_adj: vec3s, next_adj: vec3s,
        contact_adj: table, shape_adj: table, node_adj: table, x_adj: vec3s, v_adj: vec3s, xi_adj: vec3s,
    ):  # fmt: skip
        p = wp.tid()
        i = nodes[p]
        j = shapes[p]
        gap, n = distance_of(kinds[j], shape, j, x[i])
        if gap >= zero:
            return
        ke, kd, kf, mu, delta = contact_parameters(contact, p)
        ratio = contact[wp.static(ROWS.stick_stiffness), p]
        u = v[i] - velocity_of(flags[j], shape, j, x[i])
        c_adj = zero
        n_adj = vec3()
        u_adj = vec3()
        parameters_adj = vec5()
        if ratio > zero:
            w = node[wp.static(NODE_ROWS.inverse_mass), i]
            slow = slip_damping(contact, p, w, dt[0])
            c_adj, n_adj, u_adj, anchor_adj, parameters_adj, slow_adj = anchored_adjoint(
                f_adj[i], vec3(), -gap, n, u, xi[p], ke, kd, mu, delta, ratio, slow, advance * dt[0]
            )
            if commit == 1:
                c2, n2, u2, anchor2, parameters2, slow2 = anchored_adjoint(
                    vec3(), next_adj[p], -gap, n, u, xi[p], ke, kd, mu, delta, ratio, slow, dt[0]
                )
                c_adj += c2
                n_adj += n2
                u_adj += u2
                anchor_adj += anchor2
                parameters_adj += parameters2
                slow_adj += slow2
            xi_adj[p] = xi_adj[p] + anchor_adj
            if w > zero:
                wp.atomic_sub(node_adj, wp.static(NODE_ROWS.inverse_mass), i, slow_adj * slow / w)
        else:
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
    rows=ROWS,
    owners=(NodeBody,),
    elements=node_contact_elements,
    columns=node_contact_columns,
    period=lambda scene: len(scene.obstacles),
    present=lambda body, scene: bool(scene.obstacles),
    anchors="node_anchor",
    kernels=node_contact_kernels,
    indices={"nodes": Index("node"), "shapes": Index("shape", fill=-1)},
    shared=("shape.kinds", "shape.flags"),
    uses=("shape", "node"),
    native="node_contact.h",
    stable_rate=contact_rate,
    reason="contact stiffness or friction",
)
