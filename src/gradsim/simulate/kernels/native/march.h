// Rigid bodies through many steps in one go, and back: what moves stays in registers.
// The equations stand in ../rigid.py, whose portable kernels are the reference. Two differences of form, none of value:
// contact and spin are computed in the body's axes, and the adjoint of a rotation is a vector, the gradient in a turning
// of it about the world's axes.
#pragma once
#include "body.h"

namespace gradsim {

// --- turning ---------------------------------------------------------------------------------------------------------

// `start` turned by what q turns in half the time b stands for: the direction of start + q b.
template <class S> LANES_INLINE Quaternion<S> turned(const Quaternion<S>& start, const Quaternion<S>& q,
                                                     const Vector<S>& b) {
    return normalized(start + q * b);
}
// Its adjoint, from that of a turning of the result to those of start and q and to that of b.
template <class S>
LANES_INLINE void turned_adjoint(const Vector<S>& turn, const Quaternion<S>& start, const Quaternion<S>& q,
                                 const Vector<S>& b, Vector<S>& start_turn, Vector<S>& q_turn, Vector<S>& b_adj) {
    const Quaternion<S> moved = q * b, y = start + moved;
    const Quaternion<S> z = scaled(turn * y, 1 / (dot(y.a, y.a) + y.w * y.w));
    start_turn = (z * conjugate(start)).a;
    q_turn = (z * conjugate(moved)).a;
    b_adj = (conjugate(q) * (z + z)).a;
}
// The same where start is q: a turning of q turns the result alike, and only b is left.
template <class S> LANES_INLINE Vector<S> own_turn_adjoint(const Vector<S>& turn, const Vector<S>& b) {
    return (turn + cross(turn, b)) * (2 / (dot(b, b) + 1));
}

// Numbers too small to be normal count as zero while this lives: they slow a body at rest down by half, as its slip and
// its adjoints fade away.
struct FlushedToZero {
#ifdef __SSE__
    unsigned before;
    LANES_MEMBER FlushedToZero() : before(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(before | 0x8040); }
    LANES_MEMBER ~FlushedToZero() { __builtin_ia32_ldmxcsr(before); }
#endif
};

// --- time ------------------------------------------------------------------------------------------------------------

template <class T, class S> LANES_INLINE void euler_step(const Body<T, S>& body, State<S>& s, int step) {
    const T dt = body.all.dt;
    const Rotation<S> R(s.q);
    Vector<S> f, t;
    body.record(step, s);
    body.forces(s, R, step, f, t);
    s.v += (f * body.inverse_mass + body.gravity) * dt;
    s.l += t * dt;
    s.p += s.v * dt;
    const Quaternion<S> middle = turned(s.q, s.q, (body.inverse_inertia * R.back(s.l)) * (T(0.25) * dt));
    s.q = turned(s.q, middle, (body.inverse_inertia * Rotation<S>(middle).back(s.l)) * (T(0.5) * dt));
}

template <class T, class S>
LANES_INLINE void euler_step_adjoint(Body<T, S>& body, const State<S>& s, const Vector<S>& l1, int step,
                                     typename Body<T, S>::Adjoint& adj) {
    const T dt = body.all.dt, half = T(0.5) * dt, quarter = T(0.25) * dt;
    const Rotation<S> R(s.q);
    adj.v += adj.p * dt;
    const Vector<S> first = (body.inverse_inertia * R.back(l1)) * quarter;
    const Quaternion<S> middle = turned(s.q, s.q, first);
    const Rotation<S> M(middle);
    const Vector<S> second = (body.inverse_inertia * M.back(l1)) * half;
    Vector<S> start_turn, middle_turn, second_adj;
    turned_adjoint(adj.turn, s.q, middle, second, start_turn, middle_turn, second_adj);
    adj.turn = middle_turn;
    body.add_spin_adjoint(second_adj * half, M, l1, adj);
    const Vector<S> first_adj = own_turn_adjoint(R.back(adj.turn), first);
    adj.turn += start_turn;
    body.add_spin_adjoint(first_adj * quarter, R, l1, adj);
    body.add_forces_adjoint(s, R, step, adj.v * dt, adj.l * dt, adj);
}

template <class T, class S> LANES_INLINE void midpoint_step(const Body<T, S>& body, State<S>& s, int step) {
    const T dt = body.all.dt;
    const State<S> start = s;
    for (int stage = 0; stage < 2; stage++) {
        const T h = stage == 0 ? T(0.5) * dt : dt;
        const Rotation<S> R(s.q);
        Vector<S> f, t;
        body.record(2 * step + stage, s);
        body.forces(s, R, step, f, t);
        s.q = turned(start.q, s.q, (body.inverse_inertia * R.back(s.l)) * (T(0.5) * h));
        s.p = start.p + s.v * h;
        s.v = start.v + (f * body.inverse_mass + body.gravity) * h;
        s.l = start.l + t * h;
    }
}

template <class T, class S>
LANES_INLINE void midpoint_step_adjoint(Body<T, S>& body, int step, typename Body<T, S>::Adjoint& adj) {
    typedef typename Body<T, S>::Adjoint Adjoint;
    const T dt = body.all.dt;
    const State<S> start = body.recorded(2 * step), middle = body.recorded(2 * step + 1);
    Adjoint whole = {}, here = adj;
    for (int stage = 1; stage >= 0; stage--) {
        const T h = stage == 0 ? T(0.5) * dt : dt;
        const State<S> s = stage == 0 ? start : middle;
        const Rotation<S> R(s.q);
        const Vector<S> b = (body.inverse_inertia * R.back(s.l)) * (T(0.5) * h), v_adj = here.v * h, l_adj = here.l * h;
        Vector<S> start_turn, turn, b_adj;
        turned_adjoint(here.turn, start.q, s.q, b, start_turn, turn, b_adj);
        whole.p += here.p, whole.v += here.v, whole.l += here.l, whole.turn += start_turn;
        here = {{}, turn, here.p * h, {}};
        body.add_spin_adjoint(b_adj * (T(0.5) * h), R, s.l, here);
        body.add_forces_adjoint(s, R, step, v_adj, l_adj, here);
    }
    adj = {whole.p + here.p, whole.turn + here.turn, whole.v + here.v, whole.l + here.l};
}

template <class T, class S, bool midpoint> LANES_INLINE void march(int thread, const Rigids<T>& all) {
    const FlushedToZero flushed;
    const Body<T, S> body(all, thread);
    State<S> s = body.load_state();
    for (int step = 0; step < all.step_count; step++) {
        if constexpr (midpoint)
            midpoint_step<T, S>(body, s, step);
        else
            euler_step<T, S>(body, s, step);
    }
    body.record(all.step_count * (midpoint ? 2 : 1), s);
    body.save_state(s);
}

template <class T, class S, bool midpoint>
LANES_INLINE void march_adjoint(int thread, const Rigids<T>& all, const RigidGradients<T>& gradients) {
    const FlushedToZero flushed;
    Body<T, S> body(all, thread);
    State<S> s = body.recorded(all.step_count * (midpoint ? 2 : 1));
    typename Body<T, S>::Adjoint adj = body.load_adjoint(gradients, s);
    for (int step = all.step_count - 1; step >= 0; step--) {
        if constexpr (midpoint) {
            midpoint_step_adjoint<T, S>(body, step, adj);
        } else {
            const Vector<S> l1 = s.l;
            s = body.recorded(step);
            euler_step_adjoint<T, S>(body, s, l1, step, adj);
        }
    }
    if constexpr (midpoint) s = body.recorded(0);
    body.save_adjoint(gradients, s, adj);
    body.add_gradients(gradients);
}

}  // namespace gradsim
