"""Accelerations of joints by the articulated-body algorithm, and their adjoint; see `native/articulated.h`."""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.forces.family import ForceKernels, types_of
from gradsim.simulate.state.kernels.articulated import KINDS, PLACES, ROWS, joint_functions

P: Any = type("P", (), {name: wp.constant(row) for name, row in PLACES.items()})  # rows of scratch memory
REVOLUTE, PRISMATIC, BALL = (wp.constant(KINDS.index(name)) for name in ("revolute", "prismatic", "ball"))
OFFSET, FRAME, MASS, MOMENT, INERTIA, GRAVITY, ARMATURE = (
    wp.constant(getattr(ROWS, name))
    for name in ("offset_x", "frame_x", "mass", "moment_x", "inertia_xx", "gravity_x", "armature")
)


@functools.cache
def evaluation_functions(real: Any) -> dict[str, Any]:
    """Returns the Warp functions that compute accelerations and virtual motions of the joints of one world."""
    types = types_of(real)
    vec3, mat33, table, quat, ints = types.vec3, types.mat33, types.table, types.quat, types.ints
    vec3s, quats = types.vec3s, types.quats
    own = joint_functions(real)
    get3, set3, add3, get33, set33 = (own[name] for name in ("get3", "set3", "add3", "get33", "set33"))
    frame_of, inertia_of, joint_force = (own[name] for name in ("frame_of", "inertia_of", "joint_force"))
    ball_torque = own["ball_torque"]
    zero, one, two = (real(a) for a in (0.0, 1.0, 2.0))

    @wp.func
    def axis_of(scratch: table, e: int):
        return vec3(scratch[P.R + 2, e], scratch[P.R + 5, e], scratch[P.R + 8, e])

    @wp.func
    def kinematics(kind: int, p: int, e: int, joint: table, q: quat, v: vec3, scratch: table):
        F = wp.quat_to_matrix(frame_of(joint, e))
        w = vec3()
        r = get3(joint, OFFSET, e)
        if p >= 0:
            Rp = get33(scratch, P.R, p)
            F = Rp * F
            r = Rp * r
            w = get3(scratch, P.w, p)
        R = F
        turn = vec3()
        shift = vec3()
        spin = vec3()
        z = vec3(F[0, 2], F[1, 2], F[2, 2])
        if kind == REVOLUTE:
            c = wp.cos(q[0])
            s = wp.sin(q[0])
            R = F * mat33(c, -s, zero, s, c, zero, zero, zero, one)
            spin = z * v[0]
        if kind == BALL:
            R = F * wp.quat_to_matrix(q)
            spin = R * v
        if kind == PRISMATIC:
            r = r + z * q[0]
            shift = wp.cross(w, z) * (two * v[0])
        turn = wp.cross(w, spin)
        shift = shift + wp.cross(w, wp.cross(w, r))
        w1 = w + spin
        h = R * get3(joint, MOMENT, e)
        Io = R * inertia_of(joint, e) * wp.transpose(R)
        set33(scratch, P.R, e, R)
        set3(scratch, P.r, e, r)
        set3(scratch, P.w, e, w1)
        set3(scratch, P.turn, e, turn)
        set3(scratch, P.shift, e, shift)
        set3(scratch, P.h, e, h)
        set33(scratch, P.Io, e, Io)
        set33(scratch, P.A, e, Io)
        set33(scratch, P.M, e, wp.identity(3, real) * joint[MASS, e])
        set33(scratch, P.H, e, wp.skew(h))
        set3(scratch, P.n, e, wp.cross(w1, Io * w1) - get3(scratch, P.twist, e))
        set3(scratch, P.f, e, wp.cross(w1, wp.cross(w1, h)) - get3(scratch, P.push, e))

    @wp.func
    def factor(kind: int, p: int, e: int, joint: table, q: quat, v: vec3, scratch: table):
        A = get33(scratch, P.A, e)
        M = get33(scratch, P.M, e)
        H = get33(scratch, P.H, e)
        bias_n = get3(scratch, P.n, e)
        bias_f = get3(scratch, P.f, e)
        n = bias_n
        f = bias_f
        if kind == REVOLUTE or kind == PRISMATIC:
            z = axis_of(scratch, e)
            Uw = A * z
            Uv = wp.transpose(H) * z
            own_inertia = wp.dot(z, Uw)
            bias = wp.dot(z, bias_n)
            if kind == PRISMATIC:
                Uw = H * z
                Uv = M * z
                own_inertia = wp.dot(z, Uv)
                bias = wp.dot(z, bias_f)
            d = one / (own_inertia + joint[ARMATURE, e])
            u = joint_force(joint, e, q[0], v[0]) - bias
            scratch[P.d, e] = d
            set3(scratch, P.Uw, e, Uw)
            set3(scratch, P.Uv, e, Uv)
            set3(scratch, P.u, e, vec3(u, zero, zero))
            A = A - wp.outer(Uw, Uw) * d
            M = M - wp.outer(Uv, Uv) * d
            H = H - wp.outer(Uw, Uv) * d
            n = n + Uw * (u * d)
            f = f + Uv * (u * d)
        if kind == BALL:
            D = wp.inverse(A + wp.identity(3, real) * joint[ARMATURE, e])
            u3 = get33(scratch, P.R, e) * ball_torque(joint, e, q, v) - bias_n
            set33(scratch, P.D, e, D)
            set3(scratch, P.u, e, u3)
            n = n + A * (D * u3)
            f = f + wp.transpose(H) * (D * u3)
            M = M - wp.transpose(H) * D * H
            H = H - A * D * H
            A = A - A * D * A
        if p >= 0:
            r = get3(scratch, P.r, e)
            turn = get3(scratch, P.turn, e)
            shift = get3(scratch, P.shift, e)
            n = n + A * turn + H * shift
            f = f + wp.transpose(H) * turn + M * shift
            X = wp.skew(r)
            shifted = H + X * M
            set33(scratch, P.A, p, get33(scratch, P.A, p) + A + X * wp.transpose(H) - shifted * X)
            set33(scratch, P.H, p, get33(scratch, P.H, p) + shifted)
            set33(scratch, P.M, p, get33(scratch, P.M, p) + M)
            add3(scratch, P.n, p, n + wp.cross(r, f))
            add3(scratch, P.f, p, f)

    @wp.func
    def solve(kind: int, e: int, scratch: table, u: vec3, alpha: vec3, a: vec3):
        """The acceleration of a joint whose parent's, at the link's origin, is (alpha, a)."""
        found = vec3()
        if kind == REVOLUTE or kind == PRISMATIC:
            pull = wp.dot(get3(scratch, P.Uw, e), alpha) + wp.dot(get3(scratch, P.Uv, e), a)
            found = vec3((u[0] - pull) * scratch[P.d, e], zero, zero)
        if kind == BALL:
            A = get33(scratch, P.A, e)
            turned = get33(scratch, P.D, e) * (u - A * alpha - get33(scratch, P.H, e) * a)
            found = wp.transpose(get33(scratch, P.R, e)) * turned
        return found

    @wp.func
    def turning(kind: int, e: int, scratch: table, x: vec3):
        """Part of a joint's motion that turns the link."""
        result = vec3()
        if kind == REVOLUTE:
            result = axis_of(scratch, e) * x[0]
        if kind == BALL:
            result = get33(scratch, P.R, e) * x
        return result

    @wp.func
    def sliding(kind: int, e: int, scratch: table, x: vec3):
        """Part of a joint's motion that moves the link's origin."""
        result = vec3()
        if kind == PRISMATIC:
            result = axis_of(scratch, e) * x[0]
        return result

    @wp.func
    def evaluate(world: int, count: int, kinds: ints, parents: ints, joint: table, q: quats, v: vec3s, scratch: table):
        first = world * count
        for i in range(count):
            e = first + i
            p = parents[i]
            if p >= 0:
                p = first + p
            kinematics(kinds[i], p, e, joint, q[e], v[e], scratch)
        for k in range(count):
            i = count - 1 - k
            e = first + i
            p = parents[i]
            if p >= 0:
                p = first + p
            factor(kinds[i], p, e, joint, q[e], v[e], scratch)
        for i in range(count):
            e = first + i
            alpha = vec3()
            a = -get3(joint, GRAVITY, e)
            if parents[i] >= 0:
                alpha = get3(scratch, P.alpha, first + parents[i])
                a = get3(scratch, P.a, first + parents[i])
            a = a + wp.cross(alpha, get3(scratch, P.r, e)) + get3(scratch, P.shift, e)
            alpha = alpha + get3(scratch, P.turn, e)
            found = solve(kinds[i], e, scratch, get3(scratch, P.u, e), alpha, a)
            set3(scratch, P.acceleration, e, found)
            set3(scratch, P.alpha, e, alpha + turning(kinds[i], e, scratch, found))
            set3(scratch, P.a, e, a + sliding(kinds[i], e, scratch, found))

    @wp.func
    def virtual_motion(world: int, count: int, kinds: ints, parents: ints, adjoint: vec3s, scratch: table):
        first = world * count
        for i in range(count):
            for row in range(P.virtual_n, P.d):
                scratch[row, first + i] = zero
        for k in range(count):
            i = count - 1 - k
            e = first + i
            n = get3(scratch, P.virtual_n, e)
            f = get3(scratch, P.virtual_f, e)
            if kinds[i] == REVOLUTE or kinds[i] == PRISMATIC:
                z = axis_of(scratch, e)
                bias = wp.dot(z, n)
                if kinds[i] == PRISMATIC:
                    bias = wp.dot(z, f)
                u = adjoint[e][0] - bias
                set3(scratch, P.virtual_u, e, vec3(u, zero, zero))
                n = n + get3(scratch, P.Uw, e) * (u * scratch[P.d, e])
                f = f + get3(scratch, P.Uv, e) * (u * scratch[P.d, e])
            if kinds[i] == BALL:
                u3 = get33(scratch, P.R, e) * adjoint[e] - n
                solved = get33(scratch, P.D, e) * u3
                set3(scratch, P.virtual_u, e, u3)
                n = n + get33(scratch, P.A, e) * solved
                f = f + wp.transpose(get33(scratch, P.H, e)) * solved
            if parents[i] >= 0:
                add3(scratch, P.virtual_n, first + parents[i], n + wp.cross(get3(scratch, P.r, e), f))
                add3(scratch, P.virtual_f, first + parents[i], f)
        for i in range(count):
            e = first + i
            w = vec3()
            x = vec3()
            if parents[i] >= 0:
                w = get3(scratch, P.nu_w, first + parents[i])
                x = get3(scratch, P.nu_v, first + parents[i]) + wp.cross(w, get3(scratch, P.r, e))
            mu = solve(kinds[i], e, scratch, get3(scratch, P.virtual_u, e), w, x)
            set3(scratch, P.mu, e, mu)
            set3(scratch, P.nu_w, e, w + turning(kinds[i], e, scratch, mu))
            set3(scratch, P.nu_v, e, x + sliding(kinds[i], e, scratch, mu))

    return {"evaluate": evaluate, "virtual_motion": virtual_motion, "axis_of": axis_of}


@functools.cache
def articulated_dynamics(real: Any) -> ForceKernels:
    """Returns the kernels of the joints' accelerations; a thread takes one world."""
    types = types_of(real)
    vec3, table, ints, vec3s, quats, quat = types.vec3, types.table, types.ints, types.vec3s, types.quats, types.quat
    module = kernel_module("articulated_dynamics", real)
    functions = joint_functions(real) | evaluation_functions(real)
    get3, set3, add3, get33, frame_of, axis_of = (
        functions[n] for n in ("get3", "set3", "add3", "get33", "frame_of", "axis_of")
    )
    rows = wp.array(dtype=vec3, ndim=2)
    evaluate, virtual_motion = functions["evaluate"], functions["virtual_motion"]
    joint_force_adjoint = functions["joint_force_adjoint"]
    ball_torque_adjoint_q, ball_torque_adjoint_v = (functions[f"ball_torque_adjoint_{x}"] for x in "qv")
    zero, two = real(0.0), real(2.0)

    @wp.func
    def link_adjoint(e: int, joint: table, scratch: table, joint_adj: table):
        """Adjoints of the power of a link's inertial forces in the virtual motion."""
        mass = joint[MASS, e]
        R = get33(scratch, P.R, e)
        Io = get33(scratch, P.Io, e)
        h = get3(scratch, P.h, e)
        w = get3(scratch, P.w, e)
        alpha = get3(scratch, P.alpha, e)
        a = get3(scratch, P.a, e)
        nu_w = get3(scratch, P.nu_w, e)
        nu_v = get3(scratch, P.nu_v, e)
        spun = Io * w
        slide = wp.cross(w, h)
        across = wp.cross(nu_v, w)
        twist = wp.cross(nu_w, w)
        n = Io * alpha + wp.cross(w, spun) + wp.cross(h, a)
        f = a * mass + wp.cross(alpha, h) + wp.cross(w, slide)
        a_adj = nu_v * mass + wp.cross(nu_w, h)
        alpha_adj = Io * nu_w + wp.cross(h, nu_v)
        w_adj = wp.cross(spun, nu_w) + Io * twist + wp.cross(slide, nu_v) + wp.cross(h, across)
        joint_adj[MASS, e] = joint_adj[MASS, e] - wp.dot(nu_v, a)
        T = wp.transpose(R)
        add3(joint_adj, MOMENT, e, T * -(wp.cross(a, nu_w) + wp.cross(nu_v, alpha) + wp.cross(across, w)))
        I = wp.outer(T * nu_w, T * alpha) + wp.outer(T * twist, T * w)
        add3(joint_adj, INERTIA, e, vec3(-I[0, 0], -I[1, 1], -I[2, 2]))
        add3(joint_adj, INERTIA + 3, e, vec3(-I[1, 2] - I[2, 1], -I[2, 0] - I[0, 2], -I[0, 1] - I[1, 0]))
        turn = wp.cross(a, a_adj) + wp.cross(alpha, alpha_adj) + wp.cross(w, w_adj)
        add3(scratch, P.turn_adj, e, turn + wp.cross(nu_w, n) + wp.cross(nu_v, f))
        add3(scratch, P.a_adj, e, -a_adj)
        add3(scratch, P.alpha_adj, e, -alpha_adj)
        add3(scratch, P.w_adj, e, -w_adj)
        add3(scratch, P.nu_w_adj, e, get3(scratch, P.twist, e) - n)
        add3(scratch, P.nu_v_adj, e, get3(scratch, P.push, e) - f)

    @wp.func
    def joint_adjoint(
        kind: int, p: int, e: int, joint: table, q: quat, v: vec3, scratch: table,
        joint_adj: table, q_adj: quats, v_adj: vec3s,
    ):  # fmt: skip
        """Takes the adjoints of a link to its joint and its parent."""
        w = vec3()
        alpha = vec3()
        nu_w = vec3()
        if p >= 0:
            w = get3(scratch, P.w, p)
            alpha = get3(scratch, P.alpha, p)
            nu_w = get3(scratch, P.nu_w, p)
        R = get33(scratch, P.R, e)
        r = get3(scratch, P.r, e)
        z = axis_of(scratch, e)
        mu = get3(scratch, P.mu, e)
        found = get3(scratch, P.acceleration, e)
        own_w = get3(scratch, P.w_adj, e)
        own_alpha = get3(scratch, P.alpha_adj, e)
        own_a = get3(scratch, P.a_adj, e)
        own_nu_w = get3(scratch, P.nu_w_adj, e)
        own_nu_v = get3(scratch, P.nu_v_adj, e)
        turn_adj = get3(scratch, P.turn_adj, e)
        across = wp.cross(own_a, w)
        w_adj = own_w + wp.cross(wp.cross(w, r), own_a) + wp.cross(r, across)
        origin_adj = wp.cross(own_a, alpha) + wp.cross(across, w) + wp.cross(own_nu_v, nu_w)
        arm = r
        if kind == REVOLUTE:
            z_adj = own_w * v[0] + own_alpha * found[0] + wp.cross(own_alpha, w) * v[0] + own_nu_w * mu[0]
            w_adj = w_adj + wp.cross(z, own_alpha) * v[0]
            turn_adj = turn_adj + wp.cross(z, z_adj)
            by_v = wp.dot(z, own_w) + wp.dot(own_alpha, wp.cross(w, z))
            v_adj[e] = v_adj[e] + vec3(by_v, zero, zero)
            q_adj[e] = q_adj[e] + quat(wp.dot(z, turn_adj), zero, zero, zero)
        if kind == PRISMATIC:
            z_adj = wp.cross(own_a, w) * (two * v[0]) + own_a * found[0] + own_nu_v * mu[0] + origin_adj * q[0]
            w_adj = w_adj + wp.cross(z, own_a) * (two * v[0])
            turn_adj = turn_adj + wp.cross(z, z_adj)
            v_adj[e] = v_adj[e] + vec3(two * wp.dot(own_a, wp.cross(w, z)), zero, zero)
            q_adj[e] = q_adj[e] + quat(wp.dot(z, origin_adj), zero, zero, zero)
            arm = r - z * q[0]
        if kind == BALL:
            spin = R * v
            spin_adj = own_w + wp.cross(own_alpha, w)
            w_adj = w_adj + wp.cross(spin, own_alpha)
            turn_adj = turn_adj + wp.cross(spin, spin_adj) + wp.cross(R * found, own_alpha) + wp.cross(R * mu, own_nu_w)
            v_adj[e] = v_adj[e] + wp.transpose(R) * spin_adj
            t = wp.transpose(R) * turn_adj * two
            q_adj[e] = q_adj[e] + q * quat(t[0], t[1], t[2], zero)
        if kind == REVOLUTE or kind == PRISMATIC:
            by_force = joint_force_adjoint(joint, e, q[0], v[0], mu[0], joint_adj)
            q_adj[e] = q_adj[e] + quat(by_force[0], zero, zero, zero)
            v_adj[e] = v_adj[e] + vec3(by_force[1], zero, zero)
        if kind == BALL:
            q_adj[e] = q_adj[e] + ball_torque_adjoint_q(joint, e, q, v, mu, joint_adj)
            v_adj[e] = v_adj[e] + ball_torque_adjoint_v(joint, e, q, v, mu, joint_adj)
        joint_adj[ARMATURE, e] = joint_adj[ARMATURE, e] - wp.dot(mu, found)
        frame = frame_of(joint, e)
        F = wp.quat_to_matrix(frame)
        if p >= 0:
            Rp = get33(scratch, P.R, p)
            F = Rp * F
            add3(joint_adj, OFFSET, e, wp.transpose(Rp) * origin_adj)
            add3(scratch, P.w_adj, p, w_adj)
            add3(scratch, P.alpha_adj, p, own_alpha + wp.cross(r, own_a))
            add3(scratch, P.a_adj, p, own_a)
            add3(scratch, P.nu_w_adj, p, own_nu_w + wp.cross(r, own_nu_v))
            add3(scratch, P.nu_v_adj, p, own_nu_v)
            add3(scratch, P.turn_adj, p, turn_adj + wp.cross(arm, origin_adj))
        if p < 0:
            add3(joint_adj, OFFSET, e, origin_adj)
            add3(joint_adj, GRAVITY, e, -own_a)
        t1 = wp.transpose(F) * turn_adj * two
        frame_adj = frame * quat(t1[0], t1[1], t1[2], zero)
        for k in range(4):
            joint_adj[FRAME + k, e] = joint_adj[FRAME + k, e] + frame_adj[k]

    @wp.kernel(enable_backward=False, module=module)
    def articulated_acceleration(
        count: int, kinds: ints, parents: ints, bodies: ints, scratch: table, joint: table, q: quats, v: vec3s,
        f: vec3s, t: vec3s, a: vec3s,
    ):  # fmt: skip
        world = wp.tid()
        for i in range(count):
            e = world * count + i
            push = vec3()
            twist = vec3()
            if bodies[e] >= 0:
                push = f[bodies[e]]
                twist = t[bodies[e]]
            set3(scratch, P.push, e, push)
            set3(scratch, P.twist, e, twist)
        evaluate(world, count, kinds, parents, joint, q, v, scratch)
        for i in range(count):
            e = world * count + i
            a[e] = a[e] + get3(scratch, P.acceleration, e)

    @wp.kernel(enable_backward=False, module=module)
    def articulated_acceleration_adjoint(
        count: int, kinds: ints, parents: ints, bodies: ints, scratch: table, joint: table, q: quats, v: vec3s,
        clock: ints, row: int, fs: rows, ts: rows, a_adj: vec3s,
        joint_adj: table, q_adj: quats, v_adj: vec3s, f_adj: vec3s, t_adj: vec3s,
    ):  # fmt: skip
        world = wp.tid()
        for i in range(count):
            e = world * count + i
            push = vec3()
            twist = vec3()
            if bodies[e] >= 0:
                push = fs[clock[1] + row, bodies[e]]
                twist = ts[clock[1] + row, bodies[e]]
            set3(scratch, P.push, e, push)
            set3(scratch, P.twist, e, twist)
        evaluate(world, count, kinds, parents, joint, q, v, scratch)
        virtual_motion(world, count, kinds, parents, a_adj, scratch)
        for i in range(count):
            e = world * count + i
            if bodies[e] >= 0:
                f_adj[bodies[e]] = f_adj[bodies[e]] + get3(scratch, P.nu_v, e)
                t_adj[bodies[e]] = t_adj[bodies[e]] + get3(scratch, P.nu_w, e)
        for k in range(count):
            i = count - 1 - k
            e = world * count + i
            p = parents[i]
            if p >= 0:
                p = world * count + p
            link_adjoint(e, joint, scratch, joint_adj)
            joint_adjoint(kinds[i], p, e, joint, q[e], v[e], scratch, joint_adj, q_adj, v_adj)

    return ForceKernels(articulated_acceleration, articulated_acceleration_adjoint)
