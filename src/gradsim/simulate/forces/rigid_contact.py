"""Contact of rigid bodies with static shapes at points of their surfaces, with the law of `contact_law.py`."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.contact_law import ROW_NAMES, contact_columns, contact_law_functions, contact_pairs
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.forces.shapes import KINDS, shape_functions
from gradsim.simulate.forces.shapes import ROWS as SHAPE_ROWS
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView


def rigid_contact_elements(body: Rigid, place: "Placement") -> Elements:
    pairs = contact_pairs(place.first("rigid", body), 1, len(place.scene.obstacles))
    return Elements(len(pairs["own"]), {"bodies": pairs["own"], "shapes": pairs["shapes"]})


def rigid_contact_columns(body: Rigid, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    return contact_columns(body, scene, batcher, len(scene.obstacles))


def rigid_contact_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns bodies and shapes of the pairs, first point and whether it is scaled of each body, points, and kinds."""
    bodies, shapes = (
        layout.indices("rigid_contact", name, into) for name, into in (("bodies", "rigid"), ("shapes", "shape"))
    )
    sizes = layout.spread(layout.topology.arrays["rigid.sizes"])
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    points = layout.constant(layout.spread(layout.topology.arrays["rigid.points"]), "vector")
    return bodies, shapes, layout.constant(first), layout.shared("rigid.scaled"), points, layout.shared("shape.kinds")


def rigid_contact_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if all points of the body's largest flat side were in contact at its largest radius."""
    ke, kd, kf = (view.largest(view.row(row)) for row in ("ke", "kd", "kf"))
    compliance = view.rigid_compliance()
    return ke * compliance, max(kd, kf) * compliance


@functools.cache
def rigid_contact_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, mat33, table, quats, ints = types.vec3, types.vec3s, types.mat33, types.table, types.quats, types.ints
    module = kernel_module("rigid_contact", real)
    functions = rotation_functions(real)
    inverse_inertia, add_inertia_adjoint = functions.inverse_inertia, functions.add_inertia_adjoint
    center_of_mass, spin = functions.center_of_mass, functions.spin
    add_center_adjoint = functions.add_center_adjoint
    scale_of, add_scale_adjoint = functions.scale, functions.add_scale_adjoint
    spin_inner, rotation_inner = functions.spin_inner, functions.rotation_inner
    contact_parameters, contact_force, contact_force_adjoint = contact_law_functions(real)
    distance_of, hessian_of = shape_functions(real)
    zero = real(0.0)

    @wp.kernel(enable_backward=False, module=module)
    def rigid_contact_force(
        bodies: ints, shapes: ints, first: ints, scaled: ints, points: vec3s, kinds: ints,
        contact: table, shape: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        """One thread per body and shape: all contact points of the body against the shape."""
        e = wp.tid()
        i = bodies[e]
        j = shapes[e]
        R = wp.quat_to_matrix(q[i])
        w = spin(q[i], l[i], inverse_inertia(body, i))
        center = center_of_mass(body, i)
        scale = scale_of(body, i)
        ke, kd, kf, mu, delta = contact_parameters(contact, e)
        force = vec3()
        torque = vec3()
        for k in range(first[i], first[i + 1]):
            arm = R * (wp.cw_mul(points[k], scale) - center)
            gap, n = distance_of(kinds[j], shape, j, p[i] + arm)
            if gap < zero:
                u = v[i] + wp.cross(w, arm)
                push = contact_force(-gap, n, u, ke, kd, kf, mu, delta)
                force += push
                torque += wp.cross(arm, push)
        wp.atomic_add(f, i, force)
        wp.atomic_add(t, i, torque)

    @wp.kernel(enable_backward=False, module=module)
    def rigid_contact_force_adjoint(
        bodies: ints, shapes: ints, first: ints, scaled: ints, points: vec3s, kinds: ints,
        contact: table, shape: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f_adj: vec3s, t_adj: vec3s,
        contact_adj: table, shape_adj: table, body_adj: table,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        j = shapes[e]
        R = wp.quat_to_matrix(q[i])
        J = inverse_inertia(body, i)
        w = spin(q[i], l[i], J)
        center = center_of_mass(body, i)
        scale = scale_of(body, i)
        ke, kd, kf, mu, delta = contact_parameters(contact, e)
        in_contact = wp.int32(0)
        p_sum_adj = vec3()
        v_sum_adj = vec3()
        w_adj = vec3()
        arms_adj = vec3()
        R_adj = mat33()
        scale_adj = vec3()
        for k in range(first[i], first[i + 1]):
            local = wp.cw_mul(points[k], scale) - center
            arm = R * local
            x = p[i] + arm
            gap, n = distance_of(kinds[j], shape, j, x)
            if gap < zero:
                in_contact = wp.int32(1)
                u = v[i] + wp.cross(w, arm)
                push = contact_force(-gap, n, u, ke, kd, kf, mu, delta)
                b = f_adj[i] + wp.cross(t_adj[i], arm)
                c_adj, n_adj, u_adj, parameters_adj = contact_force_adjoint(b, -gap, n, u, ke, kd, kf, mu, delta)
                for m in range(5):
                    contact_adj[m, e] = contact_adj[m, e] + parameters_adj[m]
                if kinds[j] == wp.static(KINDS.plane):
                    m_adj = n_adj - x * c_adj
                    wp.atomic_add(shape_adj, wp.static(SHAPE_ROWS.x), j, m_adj[0])
                    wp.atomic_add(shape_adj, wp.static(SHAPE_ROWS.y), j, m_adj[1])
                    wp.atomic_add(shape_adj, wp.static(SHAPE_ROWS.z), j, m_adj[2])
                    wp.atomic_add(shape_adj, wp.static(SHAPE_ROWS.radius), j, c_adj)
                x_adj = hessian_of(kinds[j], shape, j, x, n, n_adj) - n * c_adj
                arm_adj = x_adj + wp.cross(u_adj, w) + wp.cross(push, t_adj[i])
                p_sum_adj += x_adj
                v_sum_adj += u_adj
                w_adj += wp.cross(arm, u_adj)
                arms_adj += arm_adj
                R_adj += wp.outer(arm_adj, local)
                scale_adj += wp.cw_mul(points[k], wp.transpose(R) * arm_adj)
        if in_contact == 1:
            b3, q_spin, l_spin, J_adj = wp.grad(spin_inner)(w_adj, q[i], l[i], J)
            B, q_turn = wp.grad(rotation_inner)(R_adj, q[i])
            add_center_adjoint(-(wp.transpose(R) * arms_adj), body_adj, i)
            if scaled[i] == 1:
                add_scale_adjoint(scale_adj, body_adj, i)
            wp.atomic_add(p_adj, i, p_sum_adj)
            wp.atomic_add(v_adj, i, v_sum_adj)
            wp.atomic_add(l_adj, i, l_spin)
            wp.atomic_add(q_adj, i, q_spin + q_turn)
            add_inertia_adjoint(J_adj, body_adj, i)

    return ForceKernels(rigid_contact_force, rigid_contact_force_adjoint)


RIGID_CONTACT = ForceFamily(
    name="rigid_contact",
    rows=Rows("rigid_contact", *ROW_NAMES),
    owners=(Rigid,),
    elements=rigid_contact_elements,
    columns=rigid_contact_columns,
    period=lambda scene: len(scene.obstacles),
    present=lambda body, scene: bool(scene.obstacles),
    acts_on=("rigid",),
    kernels=rigid_contact_kernels,
    indices={"bodies": Index("rigid"), "shapes": Index("shape")},
    arrays=rigid_contact_arrays,
    uses=("shape",),
    native="rigid_contact.h",
    stable_rate=rigid_contact_rate,
    reason="contact stiffness or friction",
)
