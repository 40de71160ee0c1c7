// Rollout of worlds over many steps in one launch, and its adjoint. Each stage evaluates signals, forces on nodes,
// forces on rigid bodies and coupling forces, then updates all parts. One thread per world.
#pragma once
#include "nodes.h"
#include "rigid_rollout.h"
#include "signals.h"

namespace gradsim {
struct InPlace {
    void* memory;
};
}  // namespace gradsim
inline void* operator new(__SIZE_TYPE__, gradsim::InPlace at) noexcept { return at.memory; }

namespace gradsim {

template <class T> struct World {
    const Nodes<T>* nodes;
    const RigidBodies<T>* rigid;  // those with coupling forces; null if there are none
    const ForceArrays<T>*forces, *couplings;
    const SignalArrays<T>* signals;
    const PrescribedNodes<T>* prescribed;  // null if there are none
    int force_count, coupling_count, signal_count, index;
    RolloutClock<T> time;
    CoupledBody<T>* bodies;
    Vector<T>* coupling_forces;  // sums for each rigid body, in the adjoint

    LANES_MEMBER int body_count() const { return rigid ? (int)rigid->body_count : 0; }
    template <class F> LANES_MEMBER void for_each_body(F visit) const {
        for (int b = 0; b < body_count(); b++) visit(bodies[b]);
    }
    // `row` is a row of the history, relative to the first row of the launch.
    template <class F> LANES_MEMBER void for_each_node_block(int row, F visit) const {
        if (!nodes) return;
        for (long long k = index * nodes->blocks, end = k + nodes->blocks; k < end; k++)
            visit(NodeBlock<T>(*nodes, k, time.row + row));
    }
};

// Memory of one world's rigid bodies: the steps, the sums of coupling forces, then pairs and pushes of each body.
constexpr int step_scratch = sizes::body_scratch + sizes::stage_scratch * Tableau::stages;

template <class T> LANES_INLINE void make_bodies(World<T>& world) {
    if (!world.rigid) return;
    const RigidBodies<T>& all = *world.rigid;
    static_assert(sizeof(CoupledBody<T>) <= step_scratch * sizeof(T), "scratch memory of a rigid body");
    T* memory = all.scratch;
    world.bodies = (CoupledBody<T>*)memory;
    memory += all.body_count * step_scratch;
    world.coupling_forces = (Vector<T>*)memory;
    memory += all.body_count * 4;
    for (int b = 0; b < all.body_count; b++) {
        const int thread = b * (int)all.world_count + world.index;
        new (InPlace{world.bodies + b}) CoupledBody<T>{{all, world.time, thread, memory}, {}};
        memory += all.shape_count * sizes::pair_scratch + all.push_count * sizes::push_scratch;
    }
}

// --- signals ---------------------------------------------------------------------------------------------------------

template <class T> LANES_INLINE void sample_signals(const World<T>& world, int step, T stage) {
    for (const SignalArrays<T>* s = world.signals; s < world.signals + world.signal_count; s++) {
        const SignalWeights<T> weights(*s, world.time, step, stage);
        const T* a = s->samples + (world.index * s->sample_count + weights.first) * s->count;
        T* value = s->value + world.index * s->stride + s->first;
        for (long long k = 0; k < s->count; k++) value[k] = a[k] * weights.w[0] + a[k + s->count] * weights.w[1];
        for (int m = 2; m < weights.count; m++)
            for (long long k = 0; k < s->count; k++) value[k] += a[k + m * s->count] * weights.w[m];
    }
}
template <class T> LANES_INLINE void add_signal_adjoints(const World<T>& world, int step, T stage) {
    for (const SignalArrays<T>* s = world.signals; s < world.signals + world.signal_count; s++) {
        const SignalWeights<T> weights(*s, world.time, step, stage);
        T* a = s->samples_grad + (world.index * s->sample_count + weights.first) * s->count;
        T* grad = s->grad + world.index * s->stride + s->first;
        for (int m = 0; m < weights.count; m++)
            for (long long k = 0; k < s->count; k++) a[k + m * s->count] += grad[k] * weights.w[m];
        for (long long k = 0; k < s->count; k++) grad[k] = 0;
    }
}

// Sets the nodes that follow a prescribed motion to their present positions and velocities.
template <class T> LANES_INLINE void set_prescribed_nodes(const World<T>& world) {
    if (!world.prescribed) return;
    const PrescribedNodes<T>& all = *world.prescribed;
    for (long long e = world.index * all.count, end = e + all.count; e < end; e++) {
        const T* row = all.table.value + e;
        for (int k = 0; k < 3; k++) {
            world.nodes->x[all.nodes[e] + k] = row[(node_motion_row::x + k) * all.table.stride];
            world.nodes->v[all.nodes[e] + k] = row[(node_motion_row::vx + k) * all.table.stride];
        }
    }
}
// Its adjoint; the state before does not matter.
template <class T> LANES_INLINE void set_prescribed_nodes_adjoint(const World<T>& world) {
    if (!world.prescribed) return;
    const PrescribedNodes<T>& all = *world.prescribed;
    for (long long e = world.index * all.count, end = e + all.count; e < end; e++) {
        T* row = all.table.grad + e;
        for (int k = 0; k < 3; k++) {
            T &x = world.nodes->x_adj[all.nodes[e] + k], &v = world.nodes->v_adj[all.nodes[e] + k];
            row[(node_motion_row::x + k) * all.table.stride] += x;
            row[(node_motion_row::vx + k) * all.table.stride] += v;
            x = v = 0;
        }
    }
}

// --- forces ----------------------------------------------------------------------------------------------------------

template <class T, class F> LANES_INLINE void for_each_block(const ForceArrays<T>& force, int world, F visit) {
    for (long long b = world * force.count, end = b + force.count; b < end; b++) visit(b);
}

template <class T>
static __attribute__((noinline)) void add_forces(const ForceArrays<T>& force, const Nodes<T>& nodes, int world) {
#define CASE(name) case force_kind::name: return name##_force(force, world, nodes);
    switch (force.kind) { FOR_WORLD_FORCES(CASE) }
#undef CASE
#define CASE(name) case force_kind::name: return name##_force(force, block, nodes);
    for_each_block(force, world, [&](long long block) LANES_LAMBDA {
        switch (force.kind) { FOR_NODE_FORCES(CASE) }
    });
#undef CASE
}
template <class T>
static __attribute__((noinline)) void add_force_adjoints(const ForceArrays<T>& force, const Nodes<T>& nodes, int world) {
#define CASE(name) case force_kind::name: return name##_force_adjoint(force, world, nodes);
    switch (force.kind) { FOR_WORLD_FORCES(CASE) }
#undef CASE
#define CASE(name) case force_kind::name: return name##_force_adjoint(force, block, nodes);
    for_each_block(force, world, [&](long long block) LANES_LAMBDA {
        switch (force.kind) { FOR_NODE_FORCES(CASE) }
    });
#undef CASE
}

// Coupling forces between nodes and rigid bodies of the world.
template <class T> LANES_INLINE void add_coupling_forces(const World<T>& world) {
#define CASE(name) case force_kind::name: name##_force(force, e, *world.nodes, world.bodies); break;
    for (int k = 0; k < world.coupling_count; k++) {
        const ForceArrays<T>& force = world.couplings[k];
        for (long long e = world.index * force.count, end = e + force.count; e < end; e++)
            switch (force.kind) { FOR_COUPLING_FORCES(CASE) }
    }
#undef CASE
}
template <class T> LANES_INLINE void add_coupling_force_adjoints(const World<T>& world) {
#define CASE(name) \
    case force_kind::name: name##_force_adjoint(force, e, *world.nodes, world.bodies, world.coupling_forces); break;
    for (int k = 0; k < world.coupling_count; k++) {
        const ForceArrays<T>& force = world.couplings[k];
        for (long long e = world.index * force.count, end = e + force.count; e < end; e++)
            switch (force.kind) { FOR_COUPLING_FORCES(CASE) }
    }
#undef CASE
}

// --- time ------------------------------------------------------------------------------------------------------------

template <int stage, class T> LANES_INLINE void world_forces(const World<T>& world, int step) {
    sample_signals(world, step, T(Tableau::time[stage]));
    set_prescribed_nodes(world);
    for (int k = 0; k < world.force_count; k++) add_forces(world.forces[k], *world.nodes, world.index);
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.template begin_stage<stage>(b.body, step); });
    add_coupling_forces(world);
}

template <int stage, class T> LANES_INLINE void world_forces_adjoint(const World<T>& world, int step) {
    sample_signals(world, step, T(Tableau::time[stage]));
    for (int k = 0; k < world.force_count; k++) add_force_adjoints(world.forces[k], *world.nodes, world.index);
    for (int b = 0; b < world.body_count(); b++) world.coupling_forces[b] = {};
    add_coupling_force_adjoints(world);
    for (int b = 0; b < world.body_count(); b++)
        world.bodies[b].step.template forces_adjoint<stage>(world.bodies[b].body, step, world.coupling_forces[b]);
    set_prescribed_nodes_adjoint(world);
    add_signal_adjoints(world, step, T(Tableau::time[stage]));
}

template <int stage = 0, class T> LANES_INLINE void world_stages(const World<T>& world, int step) {
    if constexpr (stage < Tableau::stages) {
        const T dt = world.time.dt;
        const bool record = world.time.record;
        world_forces<stage>(world, step);
        world.for_each_node_block(Tableau::stages * step + stage, [&](const NodeBlock<T>& b)
                                      LANES_LAMBDA { node_update<stage>(b, dt, record); });
        world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.template update<stage>(b.body); });
        world_stages<stage + 1>(world, step);
    }
}

template <int stage = Tableau::stages - 1, class T>
LANES_INLINE void world_stages_adjoint(const World<T>& world, int step) {
    if constexpr (stage >= 0) {
        const T dt = world.time.dt;
        world.for_each_node_block(Tableau::stages * step + stage, [&](const NodeBlock<T>& b)
                                      LANES_LAMBDA { node_update_adjoint<stage>(b, dt); });
        world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.template update_adjoint<stage>(b.body, step); });
        world_forces_adjoint<stage>(world, step);
        world_stages_adjoint<stage - 1>(world, step);
    }
}

template <class T> LANES_INLINE void world_rollout(World<T>& world, int steps) {
    make_bodies(world);
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.s = b.body.load_state(); });
    for (int step = 0; step < steps; step++) {
        world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.start = b.step.s; });
        world_stages(world, step);
    }
    if (world.prescribed) {  // at the end of the last step
        sample_signals(world, steps - 1, T(1));
        set_prescribed_nodes(world);
    }
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA {
        if (b.body.motion >= 0) b.step.s = b.body.prescribed_state(steps - 1, T(1));
        b.body.record(Tableau::stages * steps, b.step.s);
        b.body.save_state(b.step.s);
    });
}

template <class T> LANES_INLINE void world_rollout_adjoint(World<T>& world, int steps) {
    make_bodies(world);
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA {
        b.step.s = b.body.recorded(Tableau::stages * steps);
        b.step.adj = b.body.load_adjoint(b.step.s);
        if (b.body.motion >= 0) b.body.add_prescribed_adjoint(steps - 1, T(1), b.step.adj);
    });
    if (world.prescribed) {
        set_prescribed_nodes_adjoint(world);
        add_signal_adjoints(world, steps - 1, T(1));
    }
    for (int step = steps - 1; step >= 0; step--) {
        world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.begin_step_adjoint(b.body, step, b.step.s); });
        world_stages_adjoint(world, step);
    }
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA {
        b.body.save_adjoint(b.step.s, b.step.adj);
        b.body.add_gradients();
    });
}

}  // namespace gradsim
