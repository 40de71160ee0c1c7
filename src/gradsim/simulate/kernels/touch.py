"""Forces on rigid bodies and how they are launched: contact of their points with static shapes, and known pushes."""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import types_of
from gradsim.simulate.kernels.law import law_functions
from gradsim.simulate.kernels.rigid import spin_functions
from gradsim.simulate.kernels.shapes import PLANE, shape_functions


class TouchKernels(NamedTuple):
    contact: Any
    contact_adjoint: Any
    push: Any
    push_adjoint: Any


@functools.cache
def touch_kernels(real: Any) -> TouchKernels:
    types = types_of(real)
    vec3, vec3s, mat33, table, reals = types.vec3, types.vec3s, types.mat33, types.table, types.reals
    quats = wp.array(dtype=wp.types.quaternion(real))
    clocks, ints, pairs = wp.array(dtype=wp.int32), wp.array(dtype=wp.int32), wp.array(dtype=wp.vec2i)
    module = kernel_module("touch", real)
    inverse_inertia, add_inertia_adjoint, spin, spin_work, _, _, rotation_work = spin_functions(real)
    law_force, law_adjoint = law_functions(real)
    gap_of, curvature_of = shape_functions(real)
    zero, one, thousandth = (real(a) for a in (0.0, 1.0, 1e-3))

    @wp.kernel(enable_backward=False, module=module)
    def contact(
        pair: pairs, first: ints, points: vec3s, kinds: ints, law: table, shape: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        """One body and one shape a thread: all points of the body against the shape."""
        e = wp.tid()
        i = pair[e][0]
        j = pair[e][1]
        R = wp.quat_to_matrix(q[i])
        w = spin(q[i], l[i], inverse_inertia(body, i))
        center = vec3(body[4, i], body[5, i], body[6, i])
        force = vec3()
        torque = vec3()
        for k in range(first[i], first[i + 1]):
            arm = R * (points[k] - center)
            gap, n = gap_of(kinds[j], shape, j, p[i] + arm)
            if gap < zero:
                u = v[i] + wp.cross(w, arm)
                push = law_force(-gap, n, u, law[0, e], law[1, e], law[2, e], law[3, e], law[4, e])
                force += push
                torque += wp.cross(arm, push)
        wp.atomic_add(f, i, force)
        wp.atomic_add(t, i, torque)

    @wp.kernel(enable_backward=False, module=module)
    def contact_adjoint(
        pair: pairs, first: ints, points: vec3s, kinds: ints, law: table, shape: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f_adj: vec3s, t_adj: vec3s,
        law_adj: table, shape_adj: table, body_adj: table,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = pair[e][0]
        j = pair[e][1]
        R = wp.quat_to_matrix(q[i])
        J = inverse_inertia(body, i)
        w = spin(q[i], l[i], J)
        center = vec3(body[4, i], body[5, i], body[6, i])
        touched = wp.int32(0)
        place_adj = vec3()
        velocity_adj = vec3()
        w_adj = vec3()
        arms_adj = vec3()
        R_adj = mat33()
        for k in range(first[i], first[i + 1]):
            local = points[k] - center
            arm = R * local
            x = p[i] + arm
            gap, n = gap_of(kinds[j], shape, j, x)
            if gap < zero:
                touched = wp.int32(1)
                u = v[i] + wp.cross(w, arm)
                push = law_force(-gap, n, u, law[0, e], law[1, e], law[2, e], law[3, e], law[4, e])
                b = f_adj[i] + wp.cross(t_adj[i], arm)
                c_adj, n_adj, u_adj, five = law_adjoint(
                    b, -gap, n, u, law[0, e], law[1, e], law[2, e], law[3, e], law[4, e]
                )
                for m in range(5):
                    law_adj[m, e] = law_adj[m, e] + five[m]
                if kinds[j] == wp.static(PLANE):
                    m_adj = n_adj - x * c_adj
                    wp.atomic_add(shape_adj, 0, j, m_adj[0])
                    wp.atomic_add(shape_adj, 1, j, m_adj[1])
                    wp.atomic_add(shape_adj, 2, j, m_adj[2])
                    wp.atomic_add(shape_adj, 3, j, c_adj)
                x_adj = curvature_of(kinds[j], shape, j, x, n, n_adj) - n * c_adj
                arm_adj = x_adj + wp.cross(u_adj, w) + wp.cross(push, t_adj[i])
                place_adj += x_adj
                velocity_adj += u_adj
                w_adj += wp.cross(arm, u_adj)
                arms_adj += arm_adj
                R_adj += wp.outer(arm_adj, local)
        if touched == 1:
            b3, q_spin, l_spin, J_adj = wp.grad(spin_work)(w_adj, q[i], l[i], J)
            B, q_turn = wp.grad(rotation_work)(R_adj, q[i])
            away = wp.transpose(R) * arms_adj
            for m in range(3):
                wp.atomic_add(body_adj, 4 + m, i, -away[m])
            wp.atomic_add(p_adj, i, place_adj)
            wp.atomic_add(v_adj, i, velocity_adj)
            wp.atomic_add(l_adj, i, l_spin)
            wp.atomic_add(q_adj, i, q_spin + q_turn)
            add_inertia_adjoint(J_adj, body_adj, i)

    @wp.func
    def share(clock: clocks, step: int, dt: real, start: real, end: real):
        """Part of this step's time that a push acts.

        An impulse, whose end lies before its start, gives 1/dt in the one step that holds its moment; a thousandth of
        a step keeps rounding from moving one at the very start of a step to the step before.
        """
        begin = real(clock[0] + step) * dt
        part = wp.max(wp.min(end, begin + dt) - wp.max(start, begin), zero) / dt
        if end < start:
            part = zero
            if wp.int32(wp.floor(start / dt + thousandth)) == clock[0] + step:
                part = one / dt
        return part

    @wp.kernel(enable_backward=False, module=module)
    def push(
        clock: clocks, step: int, dt: reals, bodies: ints, pushes: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        s = share(clock, step, dt[0], pushes[6, e], pushes[7, e])
        if s > zero:
            force = vec3(pushes[0, e], pushes[1, e], pushes[2, e]) * s
            center = vec3(body[4, i], body[5, i], body[6, i])
            arm = wp.quat_rotate(q[i], vec3(pushes[3, e], pushes[4, e], pushes[5, e]) - center)
            wp.atomic_add(f, i, force)
            wp.atomic_add(t, i, wp.cross(arm, force))

    @wp.kernel(enable_backward=False, module=module)
    def push_adjoint(
        clock: clocks, step: int, dt: reals, bodies: ints, pushes: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f_adj: vec3s, t_adj: vec3s,
        pushes_adj: table, body_adj: table, p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        s = share(clock, step, dt[0], pushes[6, e], pushes[7, e])
        if s > zero:
            force = vec3(pushes[0, e], pushes[1, e], pushes[2, e]) * s
            center = vec3(body[4, i], body[5, i], body[6, i])
            local = vec3(pushes[3, e], pushes[4, e], pushes[5, e]) - center
            R = wp.quat_to_matrix(q[i])
            force_adj = (f_adj[i] + wp.cross(t_adj[i], R * local)) * s
            arm_adj = wp.cross(force, t_adj[i])
            local_adj = wp.transpose(R) * arm_adj
            B, q_turn = wp.grad(rotation_work)(wp.outer(arm_adj, local), q[i])
            for k in range(3):
                pushes_adj[k, e] = pushes_adj[k, e] + force_adj[k]
                pushes_adj[3 + k, e] = pushes_adj[3 + k, e] + local_adj[k]
                wp.atomic_add(body_adj, 4 + k, i, -local_adj[k])
            wp.atomic_add(q_adj, i, q_turn)

    return TouchKernels(contact, contact_adjoint, push, push_adjoint)


@dataclass(frozen=True)
class RigidForce:
    """One kind of force on rigid bodies; the bodies' own table is always its last parameter."""

    stem: str  # "contact" or "push"
    threads: int
    constants: tuple[Any, ...]
    parameters: tuple[Any, ...]  # tables


def _arguments(force: RigidForce, system: Any, step: int) -> list[Any]:
    clock = [system.clock, step, system.dt] if force.stem == "push" else []
    tables = [p.value for p in force.parameters] + [system.rigid.table.value]
    return [*clock, *force.constants, *tables, *system.rigid.states]


def add_rigid_forces(force: RigidForce, system: Any, step: int) -> None:
    kernel = getattr(touch_kernels(system.dt.dtype), force.stem)
    inputs = _arguments(force, system, step)
    wp.launch(kernel, force.threads, inputs=inputs, outputs=[*system.rigid.forces], device=system.dt.device)


def add_rigid_force_adjoints(force: RigidForce, system: Any, step: int) -> None:
    rigid = system.rigid
    kernel = getattr(touch_kernels(system.dt.dtype), f"{force.stem}_adjoint")
    inputs = [*_arguments(force, system, step), *rigid.forces_adj]
    outputs = [*(p.grad for p in force.parameters), rigid.table.grad, *rigid.states_adj]
    wp.launch(kernel, force.threads, inputs=inputs, outputs=outputs, device=system.dt.device)
