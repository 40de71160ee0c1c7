"""The force on a contact point of a rigid body: damping by kd or a restitution, regularized or sticking friction."""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.simulate.forces.contact_law import contact_law_functions
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.forces.restitution import ROWS, restitution_functions
from gradsim.simulate.forces.sticking import sticking_functions


class PointLawFunctions(NamedTuple):
    """Warp functions of the force on a contact point.

    `force` has the arguments depth, normal, relative velocity, stored = 2 E/m of a restitution, law (a column of
    parameters), and those of sticking friction: kt / ke (0 if friction is regularized), anchor, kf and the time h by
    which the anchor advances. It returns the force and the advanced anchor, which is zero for regularized friction.
    """

    force: Any
    force_adjoint: Any  # of all arguments but kt / ke and h, from the adjoints of force and advanced anchor


@functools.cache
def point_law_functions(real: Any) -> PointLawFunctions:
    """Returns the Warp functions of the force on a contact point in one precision."""
    vec3 = types_of(real).vec3
    column = wp.types.vector(len(ROWS), real)
    functions, restitution = contact_law_functions(real), restitution_functions(real)
    normal_force, normal_force_adjoint = functions.normal, functions.normal_adjoint
    viscous_friction, viscous_friction_adjoint = functions.friction, functions.friction_adjoint
    restitution_normal, restitution_normal_adjoint = restitution.normal, restitution.normal_adjoint
    sticking_friction, sticking_friction_adjoint = sticking_functions(real)
    zero = real(0.0)

    @wp.func
    def point_normal(c: real, vn: real, stored: real, law: column):
        fn = zero
        if law[wp.static(ROWS.inverse)] > zero:
            fn = restitution_normal(c, vn, stored, law)
        else:
            fn = normal_force(c, vn, law[wp.static(ROWS.ke)], law[wp.static(ROWS.kd)], law[wp.static(ROWS.delta)])
        return fn

    @wp.func
    def point_normal_adjoint(fn_adj: real, c: real, vn: real, stored: real, law: column):
        c_adj = zero
        vn_adj = zero
        stored_adj = zero
        law_adj = column()
        if law[wp.static(ROWS.inverse)] > zero:
            c_adj, vn_adj, stored_adj, law_adj = restitution_normal_adjoint(fn_adj, c, vn, stored, law)
        else:
            c_adj, vn_adj, ke_adj, kd_adj, delta_adj = normal_force_adjoint(
                fn_adj, c, vn, law[wp.static(ROWS.ke)], law[wp.static(ROWS.kd)], law[wp.static(ROWS.delta)]
            )
            law_adj[wp.static(ROWS.ke)] = ke_adj
            law_adj[wp.static(ROWS.kd)] = kd_adj
            law_adj[wp.static(ROWS.delta)] = delta_adj
        return c_adj, vn_adj, stored_adj, law_adj

    @wp.func
    def point_force(c: real, n: vec3, v: vec3, stored: real, law: column, ratio: real, xi: vec3, kf: real, h: real):
        fn = point_normal(c, wp.dot(n, v), stored, law)
        mu = law[wp.static(ROWS.mu)]
        force = vec3()
        anchor = vec3()
        if fn > zero:
            if ratio > zero:
                along, anchor = sticking_friction(n, v, fn, xi, mu, ratio * law[wp.static(ROWS.ke)], kf, h)
                force = n * fn + along
            else:
                force = n * fn + viscous_friction(n, v, fn, law[wp.static(ROWS.kf)], mu, law[wp.static(ROWS.delta)])
        return force, anchor

    @wp.func
    def point_force_adjoint(
        b: vec3, y: vec3, c: real, n: vec3, v: vec3, stored: real, law: column, ratio: real, xi: vec3, kf: real, h: real
    ):
        vn = wp.dot(n, v)
        fn = point_normal(c, vn, stored, law)
        mu = law[wp.static(ROWS.mu)]
        cone_adj = zero
        u_adj = vec3()
        xi_adj = vec3()
        xi_n_adj = vec3()
        mu_adj = zero
        kt_adj = zero
        kf_adj = zero
        viscous_adj = zero
        c_adj = zero
        rate_adj = zero
        stored_adj = zero
        law_adj = column()
        if fn > zero:
            if ratio > zero:
                cone_adj, u_adj, xi_adj, xi_n_adj, mu_adj, kt_adj, kf_adj = sticking_friction_adjoint(
                    b, y, n, v, fn, xi, mu, ratio * law[wp.static(ROWS.ke)], kf, h
                )
            else:
                cone_adj, u_adj, viscous_adj, mu_adj = viscous_friction_adjoint(
                    b, n, v, fn, law[wp.static(ROWS.kf)], mu, law[wp.static(ROWS.delta)]
                )
            c_adj, rate_adj, stored_adj, law_adj = point_normal_adjoint(wp.dot(b, n) + cone_adj, c, vn, stored, law)
            law_adj[wp.static(ROWS.ke)] += ratio * kt_adj
            law_adj[wp.static(ROWS.kf)] = viscous_adj
            law_adj[wp.static(ROWS.mu)] = mu_adj
        vn_adj = rate_adj - wp.dot(u_adj, n)
        n_adj = b * fn - u_adj * vn + v * vn_adj + xi_n_adj
        return c_adj, n_adj, u_adj + n * vn_adj, stored_adj, law_adj, xi_adj, kf_adj

    return PointLawFunctions(point_force, point_force_adjoint)
