// Rollout of articulated bodies whose links touch static shapes, rigid bodies and each other, and its adjoint. Links are
// rigid bodies whose state follows from the joints; the forces on them act in the articulated-body algorithm. One thread
// takes a world, or as many worlds as a vector has lanes.
#pragma once
#include "articulated_rollout.h"
#include "pairs.h"

namespace gradsim {

template <class T, class S> struct LinkedWorld {
    enum { stages = Tableau::stages };
    typedef CoupledBody<T, S> Body;
    JointRollout<T, S>& joints;
    const CoupledBodies<T, S>& bodies;
    const Joints<T>& all;
    Pairs<T, S>* pairs;  // null if nothing but static shapes is touched
    int count;

    LANES_MEMBER LinkedWorld(JointRollout<T, S>& joints_, const CoupledBodies<T, S>& bodies_, Pairs<T, S>* pairs_)
        : joints(joints_), bodies(bodies_), all(joints_.all), pairs(pairs_), count((int)joints_.all.link_count) {
        for (int k = 0; k < count; k++) body(k).body.follows = true;
    }
    LANES_MEMBER Body& body(int k) const { return bodies.all[all.link_bodies[k]]; }
    LANES_MEMBER Quaternion<S> align(int k) const {
        S a[4];
        for (int row = 0; row < 4; row++) a[row] = joints.worlds.read(all.link.value + row * all.link.stride + k, count);
        return {{a[0], a[1], a[2]}, a[3]};
    }
    LANES_MEMBER Quaternion<S> base(int i) const {  // rotation of a joint's frame
        const int parent = all.parents[i];
        return parent < 0 ? joints.parameters[i].frame : joints.poses[parent].q * joints.parameters[i].frame;
    }

    // Sets the links to the poses that follow from these states of the joints and their kinematics.
    LANES_MEMBER void set_links(const JointState<S>* states, const JointDynamics<S>* dynamics) const {
        for (int i = 0; i < joints.count; i++) {
            const JointDynamics<S>& k = dynamics[i];
            const int parent = all.parents[i], kind = all.kinds[i];
            LinkPose<S>& pose = joints.poses[i];
            pose.p = k.r, pose.q = base(i), pose.v = {};
            if (parent >= 0) {
                const LinkPose<S>& from = joints.poses[parent];
                pose.p = from.p + k.r, pose.v = from.v + cross(dynamics[parent].w, k.r);
            }
            if (kind == joint_kind::revolute) {
                S sine, cosine;
                sine_cosine<T>(states[i].q.a.x / 2, sine, cosine);
                pose.q = pose.q * Quaternion<S>{{S{}, S{}, sine}, cosine};
            } else if (kind == joint_kind::ball) {
                pose.q = pose.q * states[i].q;
            } else if (kind == joint_kind::prismatic) {
                pose.v += k.R.z * states[i].v.x;
            }
        }
        for (int k = 0; k < count; k++) {
            const int i = all.link_joints[k];
            const LinkPose<S>& pose = joints.poses[i];
            body(k).step.s = {pose.p, pose.q * conjugate(align(k)), pose.v, dynamics[i].w};
        }
    }
    // Moves the adjoints of the links' states to the joints, after `set_links` with the same arguments.
    LANES_MEMBER void set_links_adjoint(const JointState<S>* states, const JointDynamics<S>* dynamics) const {
        for (int i = 0; i < joints.count; i++) {
            LinkPose<S>& pose = joints.poses[i];
            pose.p_adj = pose.turn_adj = pose.v_adj = pose.w_adj = {};
        }
        for (int k = 0; k < count; k++) {
            RigidAdjoint<S>& adj = body(k).step.adj;
            const int i = all.link_joints[k];
            LinkPose<S>& pose = joints.poses[i];
            pose.p_adj += adj.p, pose.turn_adj += adj.rotation, pose.v_adj += adj.v, pose.w_adj += adj.l;
            const Vector<S> turned = transposed_product(rotation_matrix(pose.q), adj.rotation) * (S{} - 2);
            const Quaternion<S> grad = align(k) * turned;
            const S rows[4] = {grad.a.x, grad.a.y, grad.a.z, grad.w};
            for (int row = 0; row < 4; row++)
                joints.worlds.add(all.link.grad + row * all.link.stride + k, count, rows[row]);
            adj = {};
        }
        for (int i = joints.count - 1; i >= 0; i--) pose_adjoint(i, states[i], dynamics);
    }
    LANES_MEMBER void pose_adjoint(int i, const JointState<S>& s, const JointDynamics<S>* dynamics) const {
        const JointDynamics<S>& k = dynamics[i];
        const JointParameters<S>& p = joints.parameters[i];
        const LinkPose<S>& own = joints.poses[i];
        JointState<S>& adj = joints.adjoint[i];
        const int parent = all.parents[i], kind = all.kinds[i];
        const Vector<S> z = k.R.z;
        Vector<S> turn = own.turn_adj, arm_adj = own.p_adj, arm = k.r;
        if (parent >= 0) arm_adj += cross(own.v_adj, dynamics[parent].w);
        if (kind == joint_kind::revolute) {
            adj.v.x += dot(z, own.w_adj);
            adj.q.a.x += dot(z, turn);
            turn += cross(z, own.w_adj) * s.v.x;
        } else if (kind == joint_kind::ball) {
            adj.v += transposed_product(k.R, own.w_adj);
            turn += cross(k.R * s.v, own.w_adj);
            adj.q = adj.q + s.q * (transposed_product(k.R, turn) * (S{} + 2));
        } else if (kind == joint_kind::prismatic) {
            adj.v.x += dot(z, own.v_adj);
            adj.q.a.x += dot(z, arm_adj);
            turn += cross(z, arm_adj * s.q.a.x + own.v_adj * s.v.x);
            arm = arm - z * s.q.a.x;
        }
        JointParameters<S>& grad = joints.grads[i];
        const Matrix<S> F = rotation_matrix(base(i));
        grad.frame = grad.frame + p.frame * (transposed_product(F, turn) * (S{} + 2));
        if (parent < 0) {
            grad.offset += arm_adj;
            return;
        }
        grad.offset += transposed_product(dynamics[parent].R, arm_adj);
        LinkPose<S>& to = joints.poses[parent];
        to.p_adj += own.p_adj, to.v_adj += own.v_adj, to.w_adj += own.w_adj + cross(k.r, own.v_adj);
        to.turn_adj += turn + cross(arm, arm_adj);
    }

    // Takes the forces on the links to the joints, and records them.
    LANES_MEMBER void take_wrenches(int step, int stage) const {
        for (int k = 0; k < count; k++) {
            const Wrench<S> wrench = {body(k).step.f, body(k).step.t};
            joints.stage_[stage].wrenches[all.link_joints[k]] = wrench;
            if (joints.clock.record) joints.recorded_wrenches(step)[stage * count + k] = wrench;
        }
    }
    LANES_MEMBER void read_wrenches(int step) const {
        for (int stage = 0; stage < stages; stage++)
            for (int k = 0; k < count; k++)
                joints.stage_[stage].wrenches[all.link_joints[k]] = joints.recorded_wrenches(step)[stage * count + k];
    }

    // Recomputes the stages of a recorded step and the state at its end.
    LANES_MEMBER void repeat_step(int step) const {
        for (int i = 0; i < joints.count; i++) joints.stage_[0].states[i] = joints.recorded(step)[i];
        read_wrenches(step);
        joints.take_stages(step, joints.state);
    }
    // Moves the adjoints of the links' states after the last of `steps` steps to the joints.
    LANES_MEMBER void final_links_adjoint(int steps) const {
        if (steps)
            repeat_step(steps - 1);
        else
            joints.transfer(all.q, all.v, joints.state);
        JointDynamics<S>* dynamics = joints.stage_[0].dynamics;
        forward_kinematics<T>(joints.tree(0), joints.state, dynamics);
        set_links(joints.state, dynamics);
        set_links_adjoint(joints.state, dynamics);
    }

    template <int stage = 0> LANES_MEMBER void take_stages(int step, JointState<S>* end) const {
        if constexpr (stage < stages) {
            const auto& own = joints.stage_[stage];
            joints.begin_stage(step, stage);
            set_links(own.states, own.dynamics);
            bodies.template begin_stage<stage>(step);
            if (pairs) pairs->add_forces(step, stage);
            take_wrenches(step, stage);
            joints.end_stage(stage, end);
            bodies.template update<stage>();
            take_stages<stage + 1>(step, end);
        }
    }
    template <int stage = stages - 1> LANES_MEMBER void stages_adjoint(int step) const {
        if constexpr (stage >= 0) {
            const auto& own = joints.stage_[stage];
            bodies.template update_adjoint<stage>(step);
            joints.stage_adjoint(step, stage);
            for (int k = 0; k < count; k++) {
                Body& link = body(k);
                const JointAdjoint<S>& motion = joints.work[all.link_joints[k]];
                link.step.a_adj = motion.nu_v * (1 / link.body.inverse_mass), link.step.t_adj = motion.nu_w;
                link.step.adj = link.step.start_adj = {};
            }
            bodies.clear_forces();
            if (pairs) pairs->add_adjoints(step, stage);
            bodies.template forces_adjoint<stage>(step);
            set_links(own.states, own.dynamics);
            set_links_adjoint(own.states, own.dynamics);
            stages_adjoint<stage - 1>(step);
        }
    }
};

template <class T, class S>
LANES_INLINE void linked_rollout(int thread, int steps, const int* clock, const T* dt, const Joints<T>& all,
                                 const RigidBodies<T>& rigid, const PairArrays<T>* arrays) {
    const FlushDenormals flushed;
    const RolloutClock<T> time(clock, dt);
    const CoupledBodies<T, S> bodies(rigid, time, thread);
    JointRollout<T, S> joints(all, clock, dt, thread);
    Pairs<T, S> pairs;
    if (arrays) pairs = Pairs<T, S>(*arrays, bodies);
    const LinkedWorld<T, S> world(joints, bodies, arrays ? &pairs : nullptr);
    joints.load();
    JointState<S>* start = joints.stage_[0].states;
    joints.transfer(all.q, all.v, start);
    bodies.begin();
    if (arrays) pairs.anchors.begin();
    for (int step = 0; step < steps; step++) {
        if (joints.clock.record)
            for (int i = 0; i < joints.count; i++) joints.recorded(step)[i] = start[i];
        bodies.begin_step();
        world.take_stages(step, joints.state);
        for (int i = 0; i < joints.count; i++) start[i] = joints.state[i];
    }
    joints.put(start, all.q, all.v);
    forward_kinematics<T>(joints.tree(0), start, joints.stage_[0].dynamics);
    world.set_links(start, joints.stage_[0].dynamics);
    bodies.end(steps);
    if (arrays) pairs.anchors.end(steps);
}

template <class T, class S>
LANES_INLINE void linked_rollout_adjoint(int thread, int steps, const int* clock, const T* dt, const Joints<T>& all,
                                         const RigidBodies<T>& rigid, const PairArrays<T>* arrays) {
    const FlushDenormals flushed;
    const RolloutClock<T> time(clock, dt);
    const CoupledBodies<T, S> bodies(rigid, time, thread);
    JointRollout<T, S> joints(all, clock, dt, thread);
    Pairs<T, S> pairs;
    if (arrays) pairs = Pairs<T, S>(*arrays, bodies);
    const LinkedWorld<T, S> world(joints, bodies, arrays ? &pairs : nullptr);
    joints.load();
    for (int i = 0; i < joints.count; i++) joints.grads[i] = {};
    joints.transfer(all.q_adj, all.v_adj, joints.adjoint);
    bodies.begin_adjoint(steps);
    world.final_links_adjoint(steps);
    if (arrays) pairs.anchors.begin_adjoint();
    for (int step = steps - 1; step >= 0; step--) {
        world.repeat_step(step);
        joints.begin_step_adjoint();
        bodies.begin_step_adjoint(step);
        world.stages_adjoint(step);
        joints.end_step_adjoint();
    }
    joints.save_gradients();
    bodies.end_adjoint();
    if (arrays) pairs.anchors.end_adjoint(), pairs.add_gradients();
}

}  // namespace gradsim
