// Rollout of trees of joints over many steps in one launch, and its adjoint; one thread for the joints of a world, or of
// as many worlds as a vector has lanes. The history has the state at the start of every step; the adjoint of a step
// repeats its stages from there.
#pragma once
#include "articulated.h"
#include "lane_worlds.h"
#include "signals.h"

namespace gradsim {

template <class S> LANES_INLINE Quaternion<S> joint_rate(int kind, const JointState<S>& s) {
    if (kind == joint_kind::ball) return scaled(s.q * s.v, (S{} + 1) / 2);
    return {{s.v.x, S{}, S{}}, S{}};
}
// Adds the adjoints of a state that follow from that of its rate.
template <class S>
LANES_INLINE void joint_rate_adjoint(int kind, const JointState<S>& s, const Quaternion<S>& b, JointState<S>& adj) {
    if (kind == joint_kind::ball) {
        const S half = (S{} + 1) / 2;
        adj.v += (conjugate(s.q) * b).a * half;
        adj.q = adj.q + b * (s.v * -half);
    } else {
        adj.v.x += b.a.x;
    }
}
template <class S> LANES_INLINE Quaternion<S> unit(int kind, const Quaternion<S>& q) {
    return kind == joint_kind::ball ? normalized(q) : q;
}
template <class S> LANES_INLINE Quaternion<S> unit_adjoint(int kind, const Quaternion<S>& q, const Quaternion<S>& b) {
    if (kind != joint_kind::ball) return b;
    const S inverse = inverse_root(dot(q.a, q.a) + q.w * q.w);
    const Quaternion<S> n = scaled(q, inverse);
    const S along = dot(n.a, b.a) + n.w * b.w;
    return {(b.a - n.a * along) * inverse, (b.w - n.w * along) * inverse};
}

// Pose and velocity of a link in the world, and the adjoints of a position, rotations about world axes, and velocities.
template <class S> struct LinkPose {
    Vector<S> p;
    Quaternion<S> q;
    Vector<S> v;
    Vector<S> p_adj, turn_adj, v_adj, w_adj;
};

template <class T, class S> struct JointRollout {
    enum { stages = Tableau::stages, scalars = sizeof(S) / sizeof(T) };
    struct Stage {
        Wrench<S>* wrenches;
        JointState<S>* states;       // at the stage
        JointDynamics<S>* dynamics;
        Quaternion<S>*rates, *rates_adj;
        Vector<S>* accelerations_adj;
    };
    const Joints<T>& all;
    RolloutClock<T> clock;
    LaneWorlds<T, S> worlds;
    int count;
    JointParameters<S>*parameters, *grads;
    JointState<S>*state, *adjoint, *start_adjoint;
    JointAdjoint<S>* work;
    LinkPose<S>* poses;
    Stage stage_[stages];
    S* history;
    long long row;  // scalars of the history per step

    LANES_MEMBER JointRollout(const Joints<T>& joints, const int* clock_, const T* dt, int thread)
        : all(joints), clock(clock_, dt), worlds(joints.world_count, thread), count((int)joints.joint_count) {
        static_assert(sizeof(JointParameters<T>) == joint_row::count * sizeof(T), "rows of the joints' parameters");
        S* next = (S*)all.scratch;
        auto take = [&](auto*& p) LANES_LAMBDA {
            p = (decltype(p + 0))next;
            next += count * (sizeof(*p) / sizeof(S));
        };
        take(parameters), take(grads), take(state), take(adjoint), take(start_adjoint), take(work), take(poses);
        for (Stage& s : stage_)
            take(s.states), take(s.dynamics), take(s.rates), take(s.rates_adj), take(s.accelerations_adj), take(s.wrenches);
        static_assert(2 * sizeof(JointParameters<T>) + 3 * sizeof(JointState<T>) + sizeof(JointAdjoint<T>) +
                          sizeof(LinkPose<T>) <= sizes::joint_scratch * sizeof(T), "scratch of a joint");
        static_assert(sizeof(JointState<T>) + sizeof(JointDynamics<T>) + 11 * sizeof(T) + sizeof(Wrench<T>) <=
                          sizes::joint_stage_scratch * sizeof(T), "scratch of a joint and a stage");
        row = 7 * count + 6 * stages * all.link_count;
        history = (S*)all.history + (long long)thread * all.step_count * row;
        for (int i = 0; i < (all.link_count ? count : 0); i++)
            for (Stage& s : stage_) s.wrenches[i] = {};
    }
    LANES_MEMBER Tree<S> tree(int stage) const {
        return {count, all.kinds, all.parents, parameters, all.link_count ? stage_[stage].wrenches : nullptr};
    }

    LANES_MEMBER void load() {
        for (int k = 0; k < joint_row::count; k++)
            for (int i = 0; i < count; i++)
                ((S*)(parameters + i))[k] = worlds.read(all.table.value + k * all.table.stride + i, count);
    }
    LANES_MEMBER void transfer(T* q, T* v, JointState<S>* to) const {
        for (int i = 0; i < count; i++) {
            S* s = (S*)(to + i);
            for (int k = 0; k < 4; k++) s[k] = worlds.read(q + 4 * i + k, 4 * count);
            for (int k = 0; k < 3; k++) s[4 + k] = worlds.read(v + 3 * i + k, 3 * count);
        }
    }
    LANES_MEMBER void put(const JointState<S>* from, T* q, T* v) const {
        for (int i = 0; i < count; i++) {
            const S* s = (const S*)(from + i);
            for (int k = 0; k < 4; k++) worlds.write(q + 4 * i + k, 4 * count, s[k]);
            for (int k = 0; k < 3; k++) worlds.write(v + 3 * i + k, 3 * count, s[4 + k]);
        }
    }
    LANES_MEMBER JointState<S>* recorded(int step) const {
        return (JointState<S>*)(history + (long long)(clock.row / stages + step) * row);
    }
    // Of a step, [stages, links].
    LANES_MEMBER Wrench<S>* recorded_wrenches(int step) const { return (Wrench<S>*)(recorded(step) + count); }

    LANES_MEMBER void sample_signals(int step, T time) {
        for (const SignalArrays<T>* s = all.signals; s < all.signals + all.signal_count; s++) {
            const SignalWeights<T> weights(*s, clock, step, time);
            for (int k = 0; k < s->count; k++) {
                S value = S{};
                const T* a = s->samples + weights.first * s->count + k;
                for (int m = 0; m < weights.count; m++)
                    value += worlds.read(a + m * s->count, s->sample_count * s->count) * weights.w[m];
                ((S*)(parameters + s->first + k))[s->row] = value;
            }
        }
    }
    LANES_MEMBER void add_signal_adjoints(int step, T time) {
        for (const SignalArrays<T>* s = all.signals; s < all.signals + all.signal_count; s++) {
            const SignalWeights<T> weights(*s, clock, step, time);
            for (int k = 0; k < s->count; k++) {
                S& grad = ((S*)(grads + s->first + k))[s->row];
                T* a = s->samples_grad + weights.first * s->count + k;
                for (int m = 0; m < weights.count; m++)
                    worlds.add(a + m * s->count, s->sample_count * s->count, grad * weights.w[m]);
                grad = S{};
            }
        }
    }

    // Sum of the rates up to a stage, and the state after it.
    LANES_MEMBER Quaternion<S> rate_sum(int stage, int i) const {
        Quaternion<S> q = stage_[0].states[i].q;
        for (int j = 0; j <= stage; j++)
            if (Tableau::velocity[stage][j] != 0)
                q = q + scaled(stage_[j].rates[i], S{} + T(Tableau::velocity[stage][j]) * clock.dt);
        return q;
    }
    LANES_MEMBER Vector<S> next_velocity(int stage, int i) const {
        Vector<S> v = stage_[0].states[i].v;
        for (int j = 0; j <= stage; j++)
            if (Tableau::acceleration[stage][j] != 0)
                v += stage_[j].dynamics[i].acceleration * (T(Tableau::acceleration[stage][j]) * clock.dt);
        return v;
    }
    LANES_MEMBER void begin_stage(int step, int stage) {
        sample_signals(step, T(Tableau::time[stage]));
        forward_kinematics<T>(tree(stage), stage_[stage].states, stage_[stage].dynamics);
    }
    // Computes the accelerations at a stage and the state after it, which is that of the next stage or `end`.
    LANES_MEMBER void end_stage(int stage, JointState<S>* end) {
        forward_dynamics(tree(stage), stage_[stage].states, stage_[stage].dynamics);
        JointState<S>* next = stage + 1 < stages ? stage_[stage + 1].states : end;
        for (int i = 0; i < count; i++) {
            const int kind = all.kinds[i];
            stage_[stage].rates[i] = joint_rate(kind, stage_[stage].states[i]);
            JointState<S> s = {unit(kind, rate_sum(stage, i)), next_velocity(stage, i)};
            if (Tableau::new_velocity[stage] != 0)
                s.q = unit(kind, s.q + scaled(joint_rate(kind, s), S{} + T(Tableau::new_velocity[stage]) * clock.dt));
            next[i] = s;
        }
    }
    // Takes the stages of a step from `stage_[0].states`; the state at its end is written to `end`.
    LANES_MEMBER void take_stages(int step, JointState<S>* end) {
        for (int stage = 0; stage < stages; stage++) {
            begin_stage(step, stage);
            end_stage(stage, end);
        }
    }

    // Takes `adjoint` from the state after a stage to the state at it, without the forces.
    LANES_MEMBER void update_adjoint(int stage) {
        const T dt = clock.dt;
        for (int i = 0; i < count; i++) {
            const int kind = all.kinds[i];
            JointState<S> b = adjoint[i];
            const Quaternion<S> sum = rate_sum(stage, i);
            if (Tableau::new_velocity[stage] != 0) {
                const S h = S{} + T(Tableau::new_velocity[stage]) * dt;
                const JointState<S> s = {unit(kind, sum), next_velocity(stage, i)};
                const Quaternion<S> moved = unit_adjoint(kind, s.q + scaled(joint_rate(kind, s), h), b.q);
                b.q = moved;
                joint_rate_adjoint(kind, s, scaled(moved, h), b);
            }
            const Quaternion<S> q = unit_adjoint(kind, sum, b.q);
            start_adjoint[i].q = start_adjoint[i].q + q;
            start_adjoint[i].v += b.v;
            for (int j = 0; j <= stage; j++) {
                if (Tableau::velocity[stage][j] != 0)
                    stage_[j].rates_adj[i] = stage_[j].rates_adj[i] + scaled(q, S{} + T(Tableau::velocity[stage][j]) * dt);
                if (Tableau::acceleration[stage][j] != 0)
                    stage_[j].accelerations_adj[i] += b.v * (T(Tableau::acceleration[stage][j]) * dt);
            }
            adjoint[i] = {};
            joint_rate_adjoint(kind, stage_[stage].states[i], stage_[stage].rates_adj[i], adjoint[i]);
        }
    }
    LANES_MEMBER void begin_step_adjoint() {
        for (int i = 0; i < count; i++) {
            start_adjoint[i] = {};
            for (Stage& s : stage_) s.rates_adj[i] = {}, s.accelerations_adj[i] = {};
        }
    }
    LANES_MEMBER void step_adjoint(int step) {
        begin_step_adjoint();
        for (int stage = stages - 1; stage >= 0; stage--) stage_adjoint(step, stage);
        end_step_adjoint();
    }
    LANES_MEMBER void stage_adjoint(int step, int stage) {
        update_adjoint(stage);
        sample_signals(step, T(Tableau::time[stage]));
        forward_dynamics_adjoint<T>(
            tree(stage), stage_[stage].states, stage_[stage].dynamics, stage_[stage].accelerations_adj, work, grads, adjoint);
        add_signal_adjoints(step, T(Tableau::time[stage]));
    }
    LANES_MEMBER void end_step_adjoint() {
        for (int i = 0; i < count; i++) {
            adjoint[i].q = adjoint[i].q + start_adjoint[i].q;
            adjoint[i].v += start_adjoint[i].v;
        }
    }
    LANES_MEMBER void save_gradients() const {
        put(adjoint, all.q_adj, all.v_adj);
        for (int k = 0; k < joint_row::count; k++)
            for (int i = 0; i < count; i++)
                worlds.add(all.table.grad + k * all.table.stride + i, count, ((S*)(grads + i))[k]);
    }
};

template <class T, class S>
LANES_INLINE void articulated_rollout(int thread, int steps, const int* clock, const T* dt, const Joints<T>& joints) {
    JointRollout<T, S> rollout(joints, clock, dt, thread);
    rollout.load();
    JointState<S>* start = rollout.stage_[0].states;
    rollout.transfer(joints.q, joints.v, start);
    for (int step = 0; step < steps; step++) {
        if (rollout.clock.record)
            for (int i = 0; i < rollout.count; i++) rollout.recorded(step)[i] = start[i];
        rollout.take_stages(step, rollout.state);
        for (int i = 0; i < rollout.count; i++) start[i] = rollout.state[i];
    }
    rollout.put(start, joints.q, joints.v);
}

template <class T, class S>
LANES_INLINE void articulated_rollout_adjoint(int thread, int steps, const int* clock, const T* dt, const Joints<T>& joints) {
    JointRollout<T, S> rollout(joints, clock, dt, thread);
    rollout.load();
    for (int i = 0; i < rollout.count; i++) rollout.grads[i] = {};
    rollout.transfer(joints.q_adj, joints.v_adj, rollout.adjoint);
    for (int step = steps - 1; step >= 0; step--) {
        for (int i = 0; i < rollout.count; i++) rollout.stage_[0].states[i] = rollout.recorded(step)[i];
        rollout.take_stages(step, rollout.state);
        rollout.step_adjoint(step);
    }
    rollout.save_gradients();
}

}  // namespace gradsim
