"""Contact of rigid bodies with static shapes, with the laws of `contact_law.py`, `restitution.py` and `sticking.py`.

A body touches at points of its surface. A ball touches at the point of its surface nearest to the shape: its center
minus the radius along the shape's normal, at a depth of the radius minus the distance of the center.
"""

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.contact_law import contact_columns, contact_law_functions, contact_pairs
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.forces.point_law import point_law_functions
from gradsim.simulate.forces.restitution import ROWS as LAW_ROWS
from gradsim.simulate.forces.restitution import restitution_functions, restitution_rows
from gradsim.simulate.forces.shapes import shape_functions
from gradsim.simulate.forces.sticking import STICKING_ROWS, sticking_rows
from gradsim.simulate.state.kernels.rigid import FORMS, rotation_functions
from gradsim.simulate.state.kernels.rigid import ROWS as RIGID_ROWS

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("rigid_contact", *LAW_ROWS, *STICKING_ROWS)


def rigid_contact_elements(body: Rigid, place: "Placement") -> Elements:
    pairs = contact_pairs(place.first("rigid", body), 1, len(place.scene.obstacles))
    first = place.ranges.get(("rigid_anchor", body.name), (0,))[0]  # bodies without anchors do not read them
    anchors = first + len(body.contact_points) * pairs["shapes"]
    return Elements(len(pairs["own"]), {"bodies": pairs["own"], "shapes": pairs["shapes"], "anchors": anchors})


def rigid_contact_columns(body: Rigid, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    points = topology.arrays["rigid.flat"].item(topology.ranges["rigid", body.name][0])
    return contact_columns(
        body, scene, batcher, len(scene.obstacles), lambda law: (*restitution_rows(law), *sticking_rows(law, points))
    )


def rigid_contact_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns bodies, shapes and first anchors of the pairs, first point and form of each body, points, shape kinds."""
    bodies, shapes = (
        layout.indices("rigid_contact", name, into) for name, into in (("bodies", "rigid"), ("shapes", "shape"))
    )
    arrays = layout.topology.arrays
    first = np.concatenate([[0], np.cumsum(layout.spread(arrays["rigid.sizes"]))]).astype(np.int32)
    points = layout.constant(layout.spread(arrays["rigid.points"]), "vector")
    anchors = layout.spread(arrays["rigid_contact.anchors"], layout.topology.elements.get("rigid_anchor", 0))
    fixed = (layout.constant(anchors), layout.constant(first), layout.shared("rigid.forms"), points)
    return bodies, shapes, *fixed, layout.shared("shape.kinds"), layout.shared("shape.flags")


def rigid_contact_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if all points of the body's largest flat side were in contact at its largest radius.

    A restitution multiplies the force of a fast impact by 1 + loss. At low speed, it damps n points like
    kd = loss sqrt(m ke / n) each.
    """
    ke, kd, kf, loss, stick = view.largest_in_rows("ke", "kd", "kf", "loss", "stick_stiffness")
    if stick > 0.0:  # the damping of sticking friction is tied to the step
        kf = view.largest(np.where(np.asarray(view.row("stick_stiffness")) > 0.0, 0.0, np.asarray(view.row("kf"))))
    compliance, slip_compliance = view.rigid_compliances()
    rates = [kd * compliance, kf * slip_compliance]
    if loss > 0.0:
        rates.append(loss * math.sqrt(ke / (view.inverse_mass() * view.contact_count())) * compliance)
    return ke * compliance * (1.0 + loss), max(rates)


@functools.cache
def rigid_contact_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, mat33, table, quats, ints = types.vec3, types.vec3s, types.mat33, types.table, types.quats, types.ints
    reals = types.reals
    module = kernel_module("rigid_contact", real)
    functions = rotation_functions(real)
    inverse_inertia, add_inertia_adjoint = functions.inverse_inertia, functions.add_inertia_adjoint
    center_of_mass, spin = functions.center_of_mass, functions.spin
    add_center_adjoint = functions.add_center_adjoint
    scale_of, add_scale_adjoint = functions.scale, functions.add_scale_adjoint
    spin_inner, rotation_inner = functions.spin_inner, functions.rotation_inner
    contact_law, energy_lever = restitution_functions(real)[:2]
    point_force, point_force_adjoint = point_law_functions(real)
    elastic_lever = contact_law_functions(real).lever
    distance_of, hessian_of, velocity_of, add_shape_adjoint, add_velocity_adjoint = shape_functions(real)
    zero, two = real(0.0), real(2.0)
    column = wp.types.vector(len(LAW_ROWS), real)

    @wp.func
    def ball_radius(forms: ints, body: table, i: int):
        """Zero for bodies with contact points."""
        radius = zero
        if forms[i] == wp.static(FORMS.ball):
            radius = body[wp.static(RIGID_ROWS.scale_x), i]
        return radius

    @wp.func
    def elastic_energy(
        first: ints, points: vec3s, kind: int, j: int, shape: table, i: int,
        R: mat33, p: vec3, center: vec3, scale: vec3, radius: real, law: column,
    ):  # fmt: skip
        """Energy of all points of body i in shape j [J]."""
        energy = zero
        for k in range(first[i], first[i + 1]):
            gap, n = distance_of(kind, shape, j, p + R * (wp.cw_mul(points[k], scale) - center))
            if gap < radius:
                lever, lever_delta = energy_lever(radius - gap, law[wp.static(ROWS.delta)])
                energy += law[wp.static(ROWS.ke)] * lever
        return energy

    @wp.kernel(enable_backward=False, module=module)
    def rigid_contact_force(
        advance: real, commit: int, dt: reals,
        bodies: ints, shapes: ints, anchors: ints, first: ints, forms: ints, points: vec3s, kinds: ints, flags: ints,
        contact: table, shape: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, xi: vec3s, f: vec3s, t: vec3s, next: vec3s,
    ):  # fmt: skip
        """One thread per body and shape: all contact points of the body against the shape."""
        e = wp.tid()
        i = bodies[e]
        j = shapes[e]
        R = wp.quat_to_matrix(q[i])
        w = spin(q[i], l[i], inverse_inertia(body, i))
        center = center_of_mass(body, i)
        scale = scale_of(body, i)
        radius = ball_radius(forms, body, i)
        law = contact_law(contact, e)
        stored = zero
        if law[wp.static(ROWS.inverse)] > zero:
            energy = elastic_energy(first, points, kinds[j], j, shape, i, R, p[i], center, scale, radius, law)
            stored = two * energy * body[wp.static(RIGID_ROWS.inverse_mass), i]
        ratio = contact[wp.static(ROWS.stick_stiffness), e]
        sticks = ratio > zero
        kf = contact[wp.static(ROWS.stick_damping), e] / (body[wp.static(RIGID_ROWS.inverse_mass), i] * dt[0])
        force = vec3()
        torque = vec3()
        for k in range(first[i], first[i + 1]):
            arm = R * (wp.cw_mul(points[k], scale) - center)
            gap, n = distance_of(kinds[j], shape, j, p[i] + arm)
            if gap < radius:
                arm = arm - n * radius
                u = v[i] + wp.cross(w, arm) - velocity_of(flags[j], shape, j, p[i] + arm)
                a = anchors[e] + k - first[i]
                anchor = vec3()
                if sticks:
                    anchor = xi[a]
                push, moved = point_force(radius - gap, n, u, stored, law, ratio, anchor, kf, advance * dt[0])
                if sticks and commit == 1:
                    other, moved = point_force(radius - gap, n, u, stored, law, ratio, anchor, kf, dt[0])
                    next[a] = moved
                force += push
                torque += wp.cross(arm, push)
        wp.atomic_add(f, i, force)
        wp.atomic_add(t, i, torque)

    @wp.kernel(enable_backward=False, module=module)
    def rigid_contact_force_adjoint(
        advance: real, commit: int, dt: reals,
        bodies: ints, shapes: ints, anchors: ints, first: ints, forms: ints, points: vec3s, kinds: ints, flags: ints,
        contact: table, shape: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, xi: vec3s, f_adj: vec3s, t_adj: vec3s, next_adj: vec3s,
        contact_adj: table, shape_adj: table, body_adj: table,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s, xi_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        j = shapes[e]
        R = wp.quat_to_matrix(q[i])
        J = inverse_inertia(body, i)
        w = spin(q[i], l[i], J)
        center = center_of_mass(body, i)
        scale = scale_of(body, i)
        radius = ball_radius(forms, body, i)
        law = contact_law(contact, e)
        inverse_mass = body[wp.static(RIGID_ROWS.inverse_mass), i]
        energy = zero
        if law[wp.static(ROWS.inverse)] > zero:
            energy = elastic_energy(first, points, kinds[j], j, shape, i, R, p[i], center, scale, radius, law)
        stored = two * energy * inverse_mass
        in_contact = wp.int32(0)
        p_sum_adj = vec3()
        v_sum_adj = vec3()
        w_adj = vec3()
        arms_adj = vec3()
        R_adj = mat33()
        scale_adj = vec3()
        radius_adj = zero
        stored_adj = zero
        kf_sum_adj = zero
        law_adj = column()
        ratio = contact[wp.static(ROWS.stick_stiffness), e]
        sticks = ratio > zero
        kf = contact[wp.static(ROWS.stick_damping), e] / (inverse_mass * dt[0])
        for k in range(first[i], first[i + 1]):
            local = wp.cw_mul(points[k], scale) - center
            x = p[i] + R * local
            gap, n = distance_of(kinds[j], shape, j, x)
            if gap < radius:
                in_contact = wp.int32(1)
                arm = R * local - n * radius
                u = v[i] + wp.cross(w, arm) - velocity_of(flags[j], shape, j, p[i] + arm)
                b = f_adj[i] + wp.cross(t_adj[i], arm)
                a = anchors[e] + k - first[i]
                anchor = vec3()
                if sticks:
                    anchor = xi[a]
                h = advance * dt[0]
                push, moved = point_force(radius - gap, n, u, stored, law, ratio, anchor, kf, h)
                c_adj, n_adj, u_adj, own_adj, parameters_adj, anchor_adj, kf_adj = point_force_adjoint(
                    b, vec3(), radius - gap, n, u, stored, law, ratio, anchor, kf, h
                )
                if sticks:
                    if commit == 1:
                        c2, n2, u2, own2, parameters2, anchor2, kf2 = point_force_adjoint(
                            vec3(), next_adj[a], radius - gap, n, u, stored, law, ratio, anchor, kf, dt[0]
                        )
                        c_adj += c2
                        n_adj += n2
                        u_adj += u2
                        own_adj += own2
                        parameters_adj += parameters2
                        anchor_adj += anchor2
                        kf_adj += kf2
                    xi_adj[a] = xi_adj[a] + anchor_adj
                    kf_sum_adj += kf_adj
                stored_adj += own_adj
                law_adj += parameters_adj
                slide_adj = add_velocity_adjoint(flags[j], shape, j, p[i] + arm, -u_adj, shape_adj)
                arm_adj = wp.cross(u_adj, w) + wp.cross(push, t_adj[i]) + slide_adj
                n_adj = n_adj - arm_adj * radius
                x_adj = hessian_of(kinds[j], shape, j, x, n, n_adj) - n * c_adj
                add_shape_adjoint(kinds[j], flags[j], shape, j, x, n, c_adj, n_adj, x_adj, shape_adj)
                radius_adj += c_adj - wp.dot(n, arm_adj)
                arm_adj = arm_adj + x_adj
                p_sum_adj += x_adj + slide_adj
                v_sum_adj += u_adj
                w_adj += wp.cross(arm, u_adj)
                arms_adj += arm_adj
                R_adj += wp.outer(arm_adj, local)
                scale_adj += wp.cw_mul(points[k], wp.transpose(R) * arm_adj)
        energy_adj = two * inverse_mass * stored_adj
        if energy_adj != zero:
            for k in range(first[i], first[i + 1]):
                local = wp.cw_mul(points[k], scale) - center
                x = p[i] + R * local
                gap, n = distance_of(kinds[j], shape, j, x)
                if gap < radius:
                    delta = law[wp.static(ROWS.delta)]
                    lever, lever_c, lever_delta = elastic_lever(radius - gap, delta)
                    own, own_delta = energy_lever(radius - gap, delta)
                    c_adj = energy_adj * law[wp.static(ROWS.ke)] * lever
                    law_adj[wp.static(ROWS.ke)] += energy_adj * own
                    law_adj[wp.static(ROWS.delta)] += energy_adj * law[wp.static(ROWS.ke)] * own_delta
                    x_adj = -(n * c_adj)
                    add_shape_adjoint(kinds[j], flags[j], shape, j, x, n, c_adj, vec3(), x_adj, shape_adj)
                    radius_adj += c_adj
                    p_sum_adj += x_adj
                    arms_adj += x_adj
                    R_adj += wp.outer(x_adj, local)
                    scale_adj += wp.cw_mul(points[k], wp.transpose(R) * x_adj)
            wp.atomic_add(body_adj, wp.static(RIGID_ROWS.inverse_mass), i, two * energy * stored_adj)
        if in_contact == 1:
            wp.atomic_sub(body_adj, wp.static(RIGID_ROWS.inverse_mass), i, kf_sum_adj * kf / inverse_mass)
            for m in range(wp.static(len(LAW_ROWS))):
                contact_adj[m, e] = contact_adj[m, e] + law_adj[m]
            b3, q_spin, l_spin, J_adj = wp.grad(spin_inner)(w_adj, q[i], l[i], J)
            B, q_turn = wp.grad(rotation_inner)(R_adj, q[i])
            add_center_adjoint(-(wp.transpose(R) * arms_adj), body_adj, i)
            if forms[i] == wp.static(FORMS.ball):
                scale_adj = vec3(radius_adj, zero, zero)
            if forms[i] != wp.static(FORMS.mesh):
                add_scale_adjoint(scale_adj, body_adj, i)
            wp.atomic_add(p_adj, i, p_sum_adj)
            wp.atomic_add(v_adj, i, v_sum_adj)
            wp.atomic_add(l_adj, i, l_spin)
            wp.atomic_add(q_adj, i, q_spin + q_turn)
            add_inertia_adjoint(J_adj, body_adj, i)

    return ForceKernels(rigid_contact_force, rigid_contact_force_adjoint)


RIGID_CONTACT = ForceFamily(
    name="rigid_contact",
    rows=ROWS,
    owners=(Rigid,),
    elements=rigid_contact_elements,
    columns=rigid_contact_columns,
    period=lambda scene: len(scene.obstacles),
    present=lambda body, scene: bool(scene.obstacles) and getattr(body, "collides", True),
    acts_on=("rigid",),
    anchors="rigid_anchor",
    kernels=rigid_contact_kernels,
    indices={"bodies": Index("rigid"), "shapes": Index("shape")},
    arrays=rigid_contact_arrays,
    uses=("shape",),
    native="rigid_contact.h",
    stable_rate=rigid_contact_rate,
    reason="contact stiffness or friction",
)
