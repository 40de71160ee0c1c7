"""Compliant contact with friction between a node and a plane: a pair of a point and a distance function.

With the depth c, its rate dc/dt and the slip velocity u, the printed law of the seed is

    normal force    max(0, ke c + kd dc/dt)
    friction        min(mu |f_n|, kf |u|) against the slip (a cone)

Its force jumps at touch-down by kd dc/dt and has corners at release and between stick and slip, and an adjoint sees
none of these. A depth delta > 0 makes it continuously differentiable: the elastic force e starts as the parabola
ke c^2 / (2 delta) and goes on as ke (c - delta/2); the damping force d = kd dc/dt is blended in by a smoothstep over
delta; on the way out, where d < 0, the two give e^2 / (e - d), which is e + d for weak damping and never pulls; and the
friction is a u / sqrt(u^2 + (a/kf)^2) with a = mu f_n: kf u for slow slip, a for fast. delta = 0 is the printed law.
"""

import functools
from typing import Any

import warp as wp

from gradsim.simulate.kernels.force import ForceKernels, kernel_module, types_of

PARAMETERS = ("ke", "kd", "kf", "mu", "delta")  # [N/m], [N s/m], [N s/m], [1], [m]
PLANE = ("normal_x", "normal_y", "normal_z", "offset")  # unit normal, [m]: the plane is normal . x = offset


@functools.cache
def contact_kernels(real: Any, *, tape: bool = False) -> ForceKernels:
    """Contact and its hand-written adjoint; with `tape` Warp's own takes its place, to test the other."""
    types = types_of(real)
    vec3, table, vec3s = types.vec3, types.table, types.vec3s
    pairs = wp.array(dtype=wp.vec2i)  # node, plane
    module = kernel_module("contact_tape" if tape else "contact", real)
    zero, half, one, tiny = real(0.0), real(0.5), real(1.0), real(1.0e-30)

    @wp.kernel(module=module, enable_backward=tape)
    def contact_force(pair: pairs, law: table, plane: table, x: vec3s, v: vec3s, f: vec3s):
        p = wp.tid()
        i = pair[p][0]
        j = pair[p][1]
        n = vec3(plane[0, j], plane[1, j], plane[2, j])
        c = plane[3, j] - wp.dot(n, x[i])
        if c > zero:
            ke = law[0, p]
            kf = law[2, p]
            delta = law[4, p]
            elastic = ke * c
            blend = one
            if delta > zero:
                t = c / delta
                elastic = ke * (c - half * delta)
                if t < one:
                    elastic = half * ke * c * t
                    blend = t * t * (real(3.0) - real(2.0) * t)
            vn = wp.dot(n, v[i])
            drag = -law[1, p] * blend * vn
            fn = elastic + drag
            if drag < zero and delta > zero:
                fn = elastic * elastic / (elastic - drag)
            if fn > zero:
                u = v[i] - n * vn
                slip2 = wp.dot(u, u)
                a = law[3, p] * fn
                k = kf
                if delta > zero:
                    k = a * kf / (wp.sqrt(kf * kf * slip2 + a * a) + tiny)
                else:
                    slip = wp.sqrt(slip2 + tiny)
                    if kf * slip > a:
                        k = a / slip
                wp.atomic_add(f, i, n * fn - u * k)

    if tape:
        return ForceKernels(contact_force)

    @wp.kernel(module=module, enable_backward=False)
    def contact_force_adjoint(
        pair: pairs,
        law: table,
        plane: table,
        x: vec3s,
        v: vec3s,
        f_adj: vec3s,
        law_adj: table,
        plane_adj: table,
        x_adj: vec3s,
        v_adj: vec3s,
    ):
        p = wp.tid()
        i = pair[p][0]
        j = pair[p][1]
        n = vec3(plane[0, j], plane[1, j], plane[2, j])
        c = plane[3, j] - wp.dot(n, x[i])
        if c <= zero:
            return
        ke = law[0, p]
        kd = law[1, p]
        kf = law[2, p]
        mu = law[3, p]
        delta = law[4, p]

        # Elastic force and damping blend, with their derivatives in depth and in delta.
        lever = c  # elastic / ke
        lever_c = one
        lever_delta = zero
        blend = one
        blend_c = zero
        blend_delta = zero
        if delta > zero:
            t = c / delta
            lever = c - half * delta
            lever_delta = -half
            if t < one:
                lever = half * c * t
                lever_c = t
                lever_delta = -half * t * t
                blend = t * t * (real(3.0) - real(2.0) * t)
                blend_c = real(6.0) * t * (one - t) / delta
                blend_delta = -blend_c * t
        vn = wp.dot(n, v[i])
        elastic = ke * lever
        drag = -kd * blend * vn
        fn = elastic + drag
        fn_elastic = one
        fn_drag = one
        if drag < zero and delta > zero:
            part = elastic / (elastic - drag)
            fn = elastic * part
            fn_elastic = part * (real(2.0) - part)
            fn_drag = part * part
        if fn <= zero:
            return

        # Friction -k u: k and its derivatives in a = mu fn, in kf and in u^2.
        u = v[i] - n * vn
        slip2 = wp.dot(u, u)
        a = mu * fn
        k = kf
        k_a = zero
        k_kf = one
        k_slip2 = zero
        if delta > zero:
            root = wp.sqrt(kf * kf * slip2 + a * a) + tiny
            k = a * kf / root
            k_a = kf * slip2 * (kf / root) * (kf / root) / root
            k_kf = (a / root) * (a / root) * (a / root)
            k_slip2 = -half * k * (kf / root) * (kf / root)
        else:
            slip = wp.sqrt(slip2 + tiny)
            if kf * slip > a:
                k = a / slip
                k_a = one / slip
                k_kf = zero
                k_slip2 = -half * k / (slip2 + tiny)

        b = f_adj[i]
        k_adj = -wp.dot(b, u)
        u_adj = u * (real(2.0) * k_adj * k_slip2) - b * k
        fn_adj = wp.dot(b, n) + k_adj * k_a * mu
        elastic_adj = fn_adj * fn_elastic
        drag_adj = fn_adj * fn_drag
        c_adj = elastic_adj * ke * lever_c - drag_adj * kd * blend_c * vn
        vn_adj = -drag_adj * kd * blend - wp.dot(u_adj, n)
        n_adj = b * fn - u_adj * vn + v[i] * vn_adj - x[i] * c_adj
        law_adj[0, p] = law_adj[0, p] + elastic_adj * lever
        law_adj[1, p] = law_adj[1, p] - drag_adj * blend * vn
        law_adj[2, p] = law_adj[2, p] + k_adj * k_kf
        law_adj[3, p] = law_adj[3, p] + k_adj * k_a * fn
        law_adj[4, p] = law_adj[4, p] + elastic_adj * ke * lever_delta - drag_adj * kd * blend_delta * vn
        wp.atomic_add(plane_adj, 0, j, n_adj[0])
        wp.atomic_add(plane_adj, 1, j, n_adj[1])
        wp.atomic_add(plane_adj, 2, j, n_adj[2])
        wp.atomic_add(plane_adj, 3, j, c_adj)
        wp.atomic_sub(x_adj, i, n * c_adj)
        wp.atomic_add(v_adj, i, u_adj + n * vn_adj)

    return ForceKernels(contact_force, contact_force_adjoint)
