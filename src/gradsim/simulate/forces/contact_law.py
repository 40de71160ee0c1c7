"""The contact law: force as a function of depth, normal and velocity, its adjoint, and its parameters.

With the depth c, its rate dc/dt and the slip velocity u, the law of the paper is

    normal force    max(0, ke c + kd dc/dt)
    friction        min(mu |f_n|, kf |u|) against the slip (a cone)

Its force jumps by kd dc/dt at touch-down and has kinks at release and between stick and slip, and an adjoint misses all
of these. A depth delta > 0 makes it continuously differentiable: the elastic force e is ke c^2 / (2 delta) up to delta
and ke (c - delta/2) beyond; the damping force d = kd dc/dt is blended in by a smoothstep over delta; at separation,
where d < 0, the normal force is e^2 / (e - d), which approaches e + d for weak damping and is never negative; and the
friction is a u / sqrt(u^2 + (a/kf)^2) with a = mu f_n: kf u for slow slip, a for fast. delta = 0 is the paper's law.
`restitution.py` has another damping force, for rigid bodies, and `sticking.py` another friction.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from gradsim.native.structures import Enumeration
from gradsim.scene.bodies import body_size, contact_of
from gradsim.scene.materials import Contact
from gradsim.scene.quantity import unwrap
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher

ROW_NAMES = ("ke", "kd", "kf", "mu", "delta")  # [N/m], [N s/m], [N s/m], [1], [m]
ROWS = Enumeration("contact_row", ROW_NAMES)

CONTACT_DEPTH = 0.005  # default of delta, as a fraction of the body's size


def contact_columns(
    body: Any, scene: Scene, batcher: "SceneBatcher", pair_count: int, further: Callable[[Contact], Sequence[Any]]
) -> Any:
    """Returns the contact parameters of a body's pairs with static shapes, [B, rows, pairs]; shapes vary fastest.

    `further` returns the values of rows after those of `ROW_NAMES`.
    """
    laws = [contact_of(body, name, shape) for name, shape in scene.obstacles.items()]
    depth = default_depth(body, batcher) if any(law.delta is None for law in laws) else None
    columns = []
    for number, law in enumerate(laws):
        values = (*law_values(law, depth), *further(law))
        columns.append(batcher.rows(("contact", body.name, number), values, 1))
    return batcher.concatenate(columns, 2).repeat(1, 1, pair_count // len(laws))


def law_values(law: Contact, depth: Any) -> tuple[Any, ...]:
    """Returns the values of the rows of `ROW_NAMES`; `depth` is that of a law without a delta."""
    damping = np.zeros(()) if law.kd is None else law.kd
    return law.ke, damping, law.viscous_kf, law.mu, depth if law.delta is None else law.delta


def default_depth(body: Any, batcher: "SceneBatcher") -> Any:
    """Returns the default of delta [m]; for a rigid body with a `size` or `radius` it varies with that."""
    radius = unwrap(getattr(body, "radius", None))
    if radius is not None:
        return 2.0 * CONTACT_DEPTH * radius
    size = unwrap(getattr(body, "size", None))
    if size is not None:
        return CONTACT_DEPTH * (np.asarray(size.max(-1)) if isinstance(size, np.ndarray) else size.amax(-1))
    return batcher.geometry(body, lambda: np.asarray(CONTACT_DEPTH * body_size(body)))


def contact_pairs(first: int, count: int, shape_count: int) -> dict[str, np.ndarray]:
    """Returns the pairs of the `count` elements from `first` on with all static shapes; shapes vary fastest."""
    own = np.repeat(np.arange(first, first + count, dtype=np.int32), shape_count)
    return {"own": own, "shapes": np.tile(np.arange(shape_count, dtype=np.int32), count)}


class ContactLawFunctions(NamedTuple):
    """Warp functions of the contact law."""

    parameters: Any  # of a pair: ke, kd, kf, mu, delta
    force: Any
    force_adjoint: Any
    normal: Any
    normal_adjoint: Any
    lever: Any  # elastic force over ke, with its derivatives with respect to depth and delta
    friction: Any
    friction_adjoint: Any


@functools.cache
def contact_law_functions(real: Any) -> ContactLawFunctions:
    """Returns the Warp functions of the contact law in one precision."""
    vec3, table = types_of(real).vec3, types_of(real).table
    vec5 = wp.types.vector(5, real)
    zero, half, one, two, three, six, tiny = (real(a) for a in (0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 1.0e-30))

    @wp.func
    def contact_parameters(contact: table, p: int):
        ke = contact[wp.static(ROWS.ke), p]
        kd = contact[wp.static(ROWS.kd), p]
        kf = contact[wp.static(ROWS.kf), p]
        return ke, kd, kf, contact[wp.static(ROWS.mu), p], contact[wp.static(ROWS.delta), p]

    @wp.func
    def elastic_lever(c: real, delta: real):
        """Elastic force over ke, and its derivatives with respect to depth and delta."""
        lever = c
        lever_c = one
        lever_delta = zero
        if delta > zero:
            t = c / delta
            lever = c - half * delta
            lever_delta = -half
            if t < one:
                lever = half * c * t
                lever_c = t
                lever_delta = -half * t * t
        return lever, lever_c, lever_delta

    @wp.func
    def friction_force(n: vec3, v: vec3, fn: real, kf: real, mu: real, delta: real):
        """Friction for a normal force fn > 0."""
        u = v - n * wp.dot(n, v)
        slip2 = wp.dot(u, u)
        a = mu * fn
        k = kf
        if delta > zero:
            k = a * kf / (wp.sqrt(kf * kf * slip2 + a * a) + tiny)
        else:
            slip = wp.sqrt(slip2 + tiny)
            if kf * slip > a:
                k = a / slip
        return -(u * k)

    @wp.func
    def friction_force_adjoint(b: vec3, n: vec3, v: vec3, fn: real, kf: real, mu: real, delta: real):
        """Adjoints of the normal force, the slip velocity, kf and mu, from the adjoint b of the force."""
        # Friction is -k u: k and its derivatives with respect to a = mu fn, kf and u^2.
        u = v - n * wp.dot(n, v)
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
        k_adj = -wp.dot(b, u)
        u_adj = u * (two * k_adj * k_slip2) - b * k
        return k_adj * k_a * mu, u_adj, k_adj * k_kf, k_adj * k_a * fn

    @wp.func
    def normal_force(c: real, vn: real, ke: real, kd: real, delta: real):
        """Normal force at depth c > 0 [m] for a normal velocity vn; not negative."""
        lever, lever_c, lever_delta = elastic_lever(c, delta)
        elastic = ke * lever
        blend = one
        if delta > zero and c < delta:
            t = c / delta
            blend = t * t * (three - two * t)
        drag = -kd * blend * vn
        fn = elastic + drag
        if drag < zero and delta > zero:
            fn = elastic * elastic / (elastic - drag)
        return wp.max(fn, zero)

    @wp.func
    def normal_force_adjoint(fn_adj: real, c: real, vn: real, ke: real, kd: real, delta: real):
        """Adjoints of depth, normal velocity, ke, kd and delta where the force is positive."""
        lever, lever_c, lever_delta = elastic_lever(c, delta)
        blend = one
        blend_c = zero
        blend_delta = zero
        if delta > zero and c < delta:
            t = c / delta
            blend = t * t * (three - two * t)
            blend_c = six * t * (one - t) / delta
            blend_delta = -blend_c * t
        elastic = ke * lever
        drag = -kd * blend * vn
        elastic_adj = fn_adj
        drag_adj = fn_adj
        if drag < zero and delta > zero:
            part = elastic / (elastic - drag)
            elastic_adj = fn_adj * part * (two - part)
            drag_adj = fn_adj * part * part
        c_adj = elastic_adj * ke * lever_c - drag_adj * kd * blend_c * vn
        delta_adj = elastic_adj * ke * lever_delta - drag_adj * kd * blend_delta * vn
        return c_adj, -drag_adj * kd * blend, elastic_adj * lever, -drag_adj * blend * vn, delta_adj

    @wp.func
    def contact_force(c: real, n: vec3, v: vec3, ke: real, kd: real, kf: real, mu: real, delta: real):
        """Force on a point at depth c > 0 [m] below a surface with normal n that moves with velocity v."""
        fn = normal_force(c, wp.dot(n, v), ke, kd, delta)
        force = vec3()
        if fn > zero:
            force = n * fn + friction_force(n, v, fn, kf, mu, delta)
        return force

    @wp.func
    def contact_force_adjoint(b: vec3, c: real, n: vec3, v: vec3, ke: real, kd: real, kf: real, mu: real, delta: real):
        """Adjoints of depth, normal, velocity and the five parameters, from the adjoint b of the force."""
        vn = wp.dot(n, v)
        fn = normal_force(c, vn, ke, kd, delta)
        c_adj = zero
        n_adj = vec3()
        v_adj = vec3()
        parameters_adj = vec5()
        if fn > zero:
            cone_adj, u_adj, kf_adj, mu_adj = friction_force_adjoint(b, n, v, fn, kf, mu, delta)
            own_adj, rate_adj, ke_adj, kd_adj, delta_adj = normal_force_adjoint(
                wp.dot(b, n) + cone_adj, c, vn, ke, kd, delta
            )
            vn_adj = rate_adj - wp.dot(u_adj, n)
            c_adj = own_adj
            n_adj = b * fn - u_adj * vn + v * vn_adj
            v_adj = u_adj + n * vn_adj
            parameters_adj = vec5(ke_adj, kd_adj, kf_adj, mu_adj, delta_adj)
        return c_adj, n_adj, v_adj, parameters_adj

    return ContactLawFunctions(
        parameters=contact_parameters,
        force=contact_force,
        force_adjoint=contact_force_adjoint,
        normal=normal_force,
        normal_adjoint=normal_force_adjoint,
        lever=elastic_lever,
        friction=friction_force,
        friction_adjoint=friction_force_adjoint,
    )
