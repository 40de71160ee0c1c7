// Rollout of rigid bodies over many steps in one launch, and its adjoint: one step of a body in stages, and the rollout
// of bodies without coupling forces, with the state in registers.
#pragma once
#include "rigid_body.h"

namespace gradsim {

// --- rotation --------------------------------------------------------------------------------------------------------

// The normalized sum start + q b: `start` rotated by the spin of q over an interval h, where b = h/2 times the spin.
template <class S>
LANES_INLINE Quaternion<S> rotated(const Quaternion<S>& start, const Quaternion<S>& q, const Vector<S>& b) {
    return normalized(start + q * b);
}
// Adjoint of the normalization of a sum y of quaternions, for the adjoint `rotation` of a rotation of the result: the
// quaternion z such that (z conjugate(m)).a is the adjoint of a rotation of the term m.
template <class S> LANES_INLINE Quaternion<S> normalized_adjoint(const Vector<S>& rotation, const Quaternion<S>& y) {
    return scaled(rotation * y, 1 / (dot(y.a, y.a) + y.w * y.w));
}
// Adjoint of `rotated`: the adjoints of rotations of start and of q, and of b.
template <class S>
LANES_INLINE void rotated_adjoint(const Vector<S>& rotation, const Quaternion<S>& start, const Quaternion<S>& q,
                                  const Vector<S>& b, Vector<S>& start_adj, Vector<S>& q_adj, Vector<S>& b_adj) {
    const Quaternion<S> moved = q * b;
    const Quaternion<S> z = normalized_adjoint(rotation, start + moved);
    start_adj = (z * conjugate(start)).a;
    q_adj = (z * conjugate(moved)).a;
    b_adj = (conjugate(q) * (z + z)).a;
}
// Its adjoint of b where start is q: a rotation of q then rotates the result equally.
template <class S> LANES_INLINE Vector<S> own_rotated_adjoint(const Vector<S>& rotation, const Vector<S>& b) {
    return (rotation + cross(rotation, b)) * (2 / (dot(b, b) + 1));
}

// Flushes denormals to zero in this scope: they slow down a body at rest by half, as its slip and its adjoints decay.
struct FlushDenormals {
#ifdef __SSE__
    unsigned before;
    LANES_MEMBER FlushDenormals() : before(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(before | 0x8040); }
    LANES_MEMBER ~FlushDenormals() { __builtin_ia32_ldmxcsr(before); }
#endif
};

// --- one step in stages ----------------------------------------------------------------------------------------------

constexpr bool uses_velocities(int stage) {
    for (int j = 0; j <= stage; j++)
        if (Tableau::velocity[stage][j] != 0) return true;
    return false;
}

// The state of a body during a step. Forces are added to f and t between `begin_stage` and `update`. It is separate
// from RigidBody, so that the compiler can hold it in registers.
template <class T, class S> struct RigidStep {
    typedef RigidBody<T, S> Body;
    RigidState<S> s, start;
    Matrix<S> R;
    Vector<S> f, t;
    struct Derivative {
        Quaternion<S> q;  // dq/dt
        Vector<S> v, a, t;
    } derivatives[Tableau::stages];

    // Records the state at a stage.
    template <int stage> LANES_MEMBER void place(const Body& body, int step) {
        if (body.motion >= 0) s = body.prescribed_state(step, T(Tableau::time[stage]));
        R = rotation_matrix(s.q);
        body.record(Tableau::stages * step + stage, s);
    }
    // Records the state and computes the body's own forces.
    template <int stage> LANES_MEMBER void begin_stage(const Body& body, int step) {
        place<stage>(body, step);
        if (body.all.shape_signal_count) body.sample_shapes(step, T(Tableau::time[stage]));
        body.forces(s, R, step, stage, f, t);
    }

    // Spin in the body's axes times half an interval [rad].
    static LANES_MEMBER Vector<S> half_spin(const Body& body, const Matrix<S>& R, const Vector<S>& l, T interval) {
        return (body.inverse_inertia * (transpose(R) * l)) * (T(0.5) * interval);
    }

    // Computes the state of the next stage, or of the end of the step, from the forces at a stage.
    template <int stage> LANES_MEMBER void update(const Body& body) {
        const T dt = body.clock.dt;
        Derivative& own = derivatives[stage];
        own.v = s.v, own.t = t;
        own.a = f * body.inverse_mass + body.gravity;
        if constexpr (needs_rate(stage)) own.q = s.q * half_spin(body, R, s.l, T(1));
        RigidState<S> next = start;
        if constexpr (holds_position(stage)) next.p = s.p, next.q = s.q;
        add_derivatives<stage>(next, dt);
        if constexpr (uses_velocities(stage)) next.q = normalized(next.q);
        if constexpr (Tableau::new_velocity[stage] != 0) {
            const T h = T(Tableau::new_velocity[stage]) * dt;
            next.p += next.v * h;
            const Matrix<S> Q = starts_at_stage(stage) ? R : rotation_matrix(next.q);
            const Quaternion<S> middle = rotated(next.q, next.q, half_spin(body, Q, next.l, T(0.5) * h));
            next.q = rotated(next.q, middle, half_spin(body, rotation_matrix(middle), next.l, h));
        }
        if constexpr (Tableau::prediction[stage] != 0) {
            const T h = T(Tableau::prediction[stage]) * dt;
            next.v += own.a * h, next.l += own.t * h;
        }
        s = next;
    }

    // Whether the position after a stage is that of its evaluation.
    static constexpr bool holds_position(int stage) { return Tableau::carries && stage == Tableau::stages - 1; }
    // Whether the update with the new velocity starts from the rotation of the stage.
    static constexpr bool starts_at_stage(int stage) { return stage == 0 && !uses_velocities(stage); }
    static constexpr bool needs_rate(int stage) { return is_used(Tableau::velocity, stage); }
    static constexpr bool is_used_later(int stage) { return !is_last(Tableau::velocity, stage, stage); }
    static constexpr bool is_used(const double (&weights)[Tableau::stages][Tableau::stages], int stage) {
        for (int row = stage; row < Tableau::stages; row++)
            if (weights[row][stage] != 0) return true;
        return false;
    }
    // Whether no row after this one uses stage j: the backward pass starts its sum with this row.
    static constexpr bool is_last(const double (&weights)[Tableau::stages][Tableau::stages], int row, int j) {
        for (int later = row + 1; later < Tableau::stages; later++)
            if (weights[later][j] != 0) return false;
        return true;
    }
    template <int stage, int j = 0> LANES_MEMBER void add_derivatives(RigidState<S>& next, T dt) const {
        if constexpr (j <= stage) {
            if constexpr (Tableau::acceleration[stage][j] != 0) {
                const T h = T(Tableau::acceleration[stage][j]) * dt;
                next.v += derivatives[j].a * h;
                next.l += derivatives[j].t * h;
            }
            if constexpr (Tableau::velocity[stage][j] != 0) {
                const T h = T(Tableau::velocity[stage][j]) * dt;
                next.p += derivatives[j].v * h;
                next.q = next.q + scaled(derivatives[j].q, S{} + h);
            }
            add_derivatives<stage, j + 1>(next, dt);
        }
    }

    // --- adjoint ---------------------------------------------------------------------------------------------------
    // `adj` is the adjoint of the state after a stage, then of the state at it. `derivatives` holds recorded rates of
    // the rotation, and adjoints of velocities, accelerations and torques summed over the stages; z sums those of the
    // rates.

    RigidAdjoint<S> adj, start_adj;
    Vector<S> a_adj, t_adj;
    Quaternion<S> z[Tableau::stages];

    // Reads the recorded states of a step; `end` is the state after it.
    LANES_MEMBER void begin_step_adjoint(const Body& body, int step, const RigidState<S>& end) {
        start = body.recorded(Tableau::stages * step);
        s = end;
        read_rates<0>(body, step);
    }
    // Computes the rates that later rows of the tableau use.
    template <int stage> LANES_MEMBER void read_rates(const Body& body, int step) {
        if constexpr (stage < Tableau::stages) {
            if constexpr (is_used_later(stage)) {
                const RigidState<S> at = stage == 0 ? start : body.recorded(Tableau::stages * step + stage);
                derivatives[stage].q = at.q * half_spin(body, rotation_matrix(at.q), at.l, T(1));
            }
            read_rates<stage + 1>(body, step);
        }
    }

    // Computes a_adj, t_adj and the adjoint of the state at a stage from that of the next state. `forces_adjoint` then
    // adds the terms of the forces.
    template <int stage> LANES_MEMBER void update_adjoint(Body& body, int step) {
        const T dt = body.clock.dt;
        const RigidState<S> next = s;
        s = stage == 0 ? start : body.recorded(Tableau::stages * step + stage);
        R = rotation_matrix(s.q);
        if constexpr (needs_rate(stage) && !is_used_later(stage))
            derivatives[stage].q = s.q * half_spin(body, R, s.l, T(1));
        Quaternion<S> sum = start.q;
        if constexpr (uses_velocities(stage)) add_rates<stage>(sum, dt);
        const Vector<S> v_out = adj.v, l_out = adj.l;
        Vector<S> l = next.l;
        if constexpr (Tableau::prediction[stage] != 0) {  // the momentum of the update, of which `next` has more
            constexpr double own = Tableau::acceleration[stage][stage], share = own / (own + Tableau::prediction[stage]);
            l = start.l + (next.l - start.l) * T(share);
        }
        if constexpr (Tableau::new_velocity[stage] != 0) new_velocity_adjoint<stage>(body, sum, l, dt);
        if constexpr (uses_velocities(stage)) {
            const Quaternion<S> y_adj = normalized_adjoint(adj.rotation, sum);
            add_derivatives_adjoint<stage>(y_adj, dt);
            adj.rotation = (y_adj * conjugate(start.q)).a;
        } else {
            add_derivatives_adjoint<stage>(Quaternion<S>{}, dt);
        }
        if constexpr (Tableau::prediction[stage] != 0) {
            const T h = T(Tableau::prediction[stage]) * dt;
            derivatives[stage].a += v_out * h, derivatives[stage].t += l_out * h;
        }
        if constexpr (holds_position(stage)) {
            start_adj = {{}, {}, adj.v, adj.l};
            a_adj = carried_a + derivatives[stage].a;
            t_adj = carried_t + derivatives[stage].t;
            adj.v = adj.l = {};
            return;
        }
        if constexpr (stage == Tableau::stages - 1)
            start_adj = adj;
        else
            start_adj.p += adj.p, start_adj.rotation += adj.rotation, start_adj.v += adj.v, start_adj.l += adj.l;
        constexpr bool uses_force = is_used(Tableau::acceleration, stage), uses_velocity = needs_rate(stage);
        a_adj = uses_force ? derivatives[stage].a : Vector<S>{};
        t_adj = uses_force ? derivatives[stage].t : Vector<S>{};
        adj = stage == 0 ? start_adj : RigidAdjoint<S>{};
        if constexpr (uses_velocity) {
            const Vector<S> rotation = (z[stage] * conjugate(derivatives[stage].q)).a;
            adj.v = stage == 0 ? adj.v + derivatives[stage].v : derivatives[stage].v;
            adj.rotation = stage == 0 ? adj.rotation + rotation : rotation;
            body.add_spin_adjoint((conjugate(s.q) * (z[stage] + z[stage])).a * T(0.5), R, s.l, adj);
        }
    }
    // Adds the adjoints of the body's own forces; `coupling` is the sum of the coupling forces on it.
    template <int stage> LANES_MEMBER void forces_adjoint(Body& body, int step, const Vector<S>& coupling = {}) {
        const T time = T(Tableau::time[stage]);
        if (body.all.shape_signal_count) body.sample_shapes(step, time);
        const Vector<S> own = body.add_forces_adjoint(s, R, step, stage, a_adj, t_adj, adj);
        if (body.all.shape_signal_count) body.add_shape_adjoints(step, time);
        if (!body.follows) body.add_mass_adjoint(a_adj, own + coupling);
        if (body.motion >= 0) body.add_prescribed_adjoint(step, time, adj);
    }

    // --- forces carried from step to step ----------------------------------------------------------------------------
    // f and t stay as they are between two steps. Between two launches they are in buffers, as are the adjoints of the
    // acceleration and the torque.

    Vector<S> carried_a = {}, carried_t = {};  // adjoints of those that the next step uses

    LANES_MEMBER void carry(const RigidStep& other) {
        if constexpr (Tableau::carries)
            f = other.f, t = other.t, carried_a = other.carried_a, carried_t = other.carried_t;
    }
    LANES_MEMBER void load_carried(const Body& body) {
        if constexpr (Tableau::carries) f = read_carried(body, body.all.f), t = read_carried(body, body.all.t);
    }
    LANES_MEMBER void save_carried(const Body& body) const {
        if constexpr (Tableau::carries) write_carried(body, body.all.f, f), write_carried(body, body.all.t, t);
    }
    // Of the step after the last of `steps`; zero if that starts a frame.
    LANES_MEMBER void load_carried_adjoint(const Body& body, int steps) {
        if constexpr (Tableau::carries) {
            carried_a = carried_t = {};
            if (body.clock.starts_frame(steps)) return;
            carried_a = read_carried(body, body.all.f_adj), carried_t = read_carried(body, body.all.t_adj);
        }
    }
    LANES_MEMBER void save_carried_adjoint(const Body& body) const {
        if constexpr (Tableau::carries)
            write_carried(body, body.all.f_adj, carried_a), write_carried(body, body.all.t_adj, carried_t);
    }
    static LANES_MEMBER Vector<S> read_carried(const Body& body, const T* p) {
        return body.worlds.read3(p + 3 * body.index, 3 * body.all.body_count);
    }
    static LANES_MEMBER void write_carried(const Body& body, T* p, const Vector<S>& value) {
        body.worlds.write3(p + 3 * body.index, 3 * body.all.body_count, value);
    }
    // Adjoint of the first stage of a step that uses the force of the step before.
    LANES_MEMBER void carried_adjoint(Body& body, int step) {
        carried_a = a_adj, carried_t = t_adj;
        if (body.motion >= 0) body.add_prescribed_adjoint(step, T(0), adj);
    }

    template <int stage, int j = 0> LANES_MEMBER void add_rates(Quaternion<S>& sum, T dt) const {
        if constexpr (j <= stage) {
            if constexpr (Tableau::velocity[stage][j] != 0)
                sum = sum + scaled(derivatives[j].q, S{} + T(Tableau::velocity[stage][j]) * dt);
            add_rates<stage, j + 1>(sum, dt);
        }
    }
    template <int stage, int j = 0> LANES_MEMBER void add_derivatives_adjoint(const Quaternion<S>& y_adj, T dt) {
        if constexpr (j <= stage) {
            if constexpr (Tableau::acceleration[stage][j] != 0) {
                const T h = T(Tableau::acceleration[stage][j]) * dt;
                constexpr bool first = is_last(Tableau::acceleration, stage, j);
                derivatives[j].a = first ? adj.v * h : derivatives[j].a + adj.v * h;
                derivatives[j].t = first ? adj.l * h : derivatives[j].t + adj.l * h;
            }
            if constexpr (Tableau::velocity[stage][j] != 0) {
                const T h = T(Tableau::velocity[stage][j]) * dt;
                constexpr bool first = is_last(Tableau::velocity, stage, j);
                derivatives[j].v = first ? adj.p * h : derivatives[j].v + adj.p * h;
                z[j] = first ? scaled(y_adj, S{} + h) : z[j] + scaled(y_adj, S{} + h);
            }
            add_derivatives_adjoint<stage, j + 1>(y_adj, dt);
        }
    }
    // Adjoint of the update with the new velocity and angular momentum l; leaves the adjoint of the rotation before
    // that update in adj.rotation.
    template <int stage>
    LANES_MEMBER void new_velocity_adjoint(Body& body, const Quaternion<S>& sum, const Vector<S>& l, T dt) {
        const T h = T(Tableau::new_velocity[stage]) * dt, half = T(0.5) * h, quarter = T(0.25) * h;
        const Quaternion<S> q = uses_velocities(stage) ? normalized(sum) : sum;
        adj.v += adj.p * h;
        const Matrix<S> Q = starts_at_stage(stage) ? R : rotation_matrix(q);
        const Vector<S> first = (body.inverse_inertia * (transpose(Q) * l)) * quarter;
        const Quaternion<S> middle = rotated(q, q, first);
        const Matrix<S> M = rotation_matrix(middle);
        const Vector<S> second = (body.inverse_inertia * (transpose(M) * l)) * half;
        Vector<S> q_adj, middle_adj, second_adj;
        rotated_adjoint(adj.rotation, q, middle, second, q_adj, middle_adj, second_adj);
        adj.rotation = middle_adj;
        body.add_spin_adjoint(second_adj * half, M, l, adj);
        const Vector<S> first_adj = own_rotated_adjoint(transpose(Q) * adj.rotation, first);
        adj.rotation += q_adj;
        body.add_spin_adjoint(first_adj * quarter, Q, l, adj);
    }
};

// A rigid body with coupling forces.
template <class T, class S = T> struct CoupledBody {
    RigidBody<T, S> body;
    RigidStep<T, S> step;
};

// --- rollout ---------------------------------------------------------------------------------------------------------

template <int stage = 0, class T, class S>
LANES_INLINE void rigid_stages(const RigidBody<T, S>& body, RigidStep<T, S>& state, int step) {
    if constexpr (stage < Tableau::stages) {
        if (body.clock.template evaluates<stage>(step))
            state.template begin_stage<stage>(body, step);
        else
            state.template place<stage>(body, step);
        state.template update<stage>(body);
        rigid_stages<stage + 1>(body, state, step);
    }
}
template <int stage = Tableau::stages - 1, class T, class S>
LANES_INLINE void rigid_stages_adjoint(RigidBody<T, S>& body, RigidStep<T, S>& state, int step) {
    if constexpr (stage >= 0) {
        state.template update_adjoint<stage>(body, step);
        if (body.clock.template evaluates<stage>(step))
            state.template forces_adjoint<stage>(body, step);
        else
            state.carried_adjoint(body, step);
        rigid_stages_adjoint<stage - 1>(body, state, step);
    }
}

template <class T, class S>
LANES_INLINE void rigid_rollout(int thread, int steps, const int* clock, const T* dt, const RigidBodies<T>& all) {
    const FlushDenormals flushed;
    const RolloutClock<T> time(clock, dt);
    const RigidBody<T, S> body(all, time, thread, all.scratch);
    RigidState<S> s = body.load_state();
    RigidStep<T, S> carrying;
    carrying.load_carried(body);
    for (int step = 0; step < steps; step++) {
        RigidStep<T, S> state;
        state.carry(carrying);
        state.s = state.start = s;
        rigid_stages(body, state, step);
        s = state.s;
        carrying.carry(state);
    }
    carrying.save_carried(body);
    if (body.motion >= 0) s = body.prescribed_state(steps - 1, T(1));
    body.record(Tableau::stages * steps, s);
    body.save_state(s, steps);
}

template <class T, class S>
LANES_INLINE void rigid_rollout_adjoint(int thread, int steps, const int* clock, const T* dt, const RigidBodies<T>& all) {
    const FlushDenormals flushed;
    const RolloutClock<T> time(clock, dt);
    RigidBody<T, S> body(all, time, thread, all.scratch);
    RigidState<S> s = body.recorded(Tableau::stages * steps);
    RigidAdjoint<S> adj = body.load_adjoint(s);
    if (body.motion >= 0) body.add_prescribed_adjoint(steps - 1, T(1), adj);
    RigidStep<T, S> carrying;
    carrying.load_carried_adjoint(body, steps);
    for (int step = steps - 1; step >= 0; step--) {
        RigidStep<T, S> state;
        state.carry(carrying);
        state.adj = adj;
        state.begin_step_adjoint(body, step, s);
        rigid_stages_adjoint(body, state, step);
        adj = state.adj;
        s = state.s;
        carrying.carry(state);
    }
    carrying.save_carried_adjoint(body);
    body.save_adjoint(s, adj);
    body.add_gradients();
}

}  // namespace gradsim
