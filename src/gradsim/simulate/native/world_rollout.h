// Rollout of worlds over many steps in one launch, and its adjoint. Each stage evaluates signals, forces on nodes,
// forces on rigid bodies and coupling forces, then updates all parts. One thread per world.
#pragma once
#include "nodes.h"
#include "rigid_rollout.h"

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
    int force_count, coupling_count, signal_count, index;
    const int* clock;  // step, row of the history, steps of the rollout, whether to record the history
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

// The samples around a time, and the weight of the second.
template <class T> struct Sample {
    long long at;
    T w;
    LANES_MEMBER Sample(const World<T>& world, const SignalArrays<T>& s, int step, T stage) {
        const T position = (T(world.time.step + step) + stage) * T(s.sample_count - 1) / T(world.clock[2]);
        const long long last = s.sample_count - 2, k = (long long)position < last ? (long long)position : last;
        at = (world.index * s.sample_count + k) * s.count;
        w = position - T(k);
    }
};
template <class T> LANES_INLINE void sample_signals(const World<T>& world, int step, T stage) {
    for (const SignalArrays<T>* s = world.signals; s < world.signals + world.signal_count; s++) {
        const Sample<T> sample(world, *s, step, stage);
        const T *a = s->samples + sample.at, *b = a + s->count;
        T* value = s->value + world.index * s->stride + s->first;
        for (long long k = 0; k < s->count; k++) value[k] = a[k] * (T(1) - sample.w) + b[k] * sample.w;
    }
}
template <class T> LANES_INLINE void add_signal_adjoints(const World<T>& world, int step, T stage) {
    for (const SignalArrays<T>* s = world.signals; s < world.signals + world.signal_count; s++) {
        const Sample<T> sample(world, *s, step, stage);
        T *a = s->samples_grad + sample.at, *b = a + s->count, *grad = s->grad + world.index * s->stride + s->first;
        for (long long k = 0; k < s->count; k++) {
            a[k] += grad[k] * (T(1) - sample.w);
            b[k] += grad[k] * sample.w;
            grad[k] = 0;
        }
    }
}

// --- forces ----------------------------------------------------------------------------------------------------------

template <class T, class F> LANES_INLINE void for_each_block(const ForceArrays<T>& force, int world, F visit) {
    for (long long b = world * force.count, end = b + force.count; b < end; b++) visit(b);
}

template <class T>
static __attribute__((noinline)) void add_forces(const ForceArrays<T>& force, const Nodes<T>& nodes, int world) {
#define CASE(name) case force_kind::name: return name##_force(force, block, nodes);
    for_each_block(force, world, [&](long long block) LANES_LAMBDA {
        switch (force.kind) { FOR_NODE_FORCES(CASE) }
    });
#undef CASE
}
template <class T>
static __attribute__((noinline)) void add_force_adjoints(const ForceArrays<T>& force, const Nodes<T>& nodes, int world) {
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

// Anchors of the nodes' sticking friction: `set_anchor_stage` before the forces of a stage, `move_anchors` after the last
// stage, and `restore_anchors` before the adjoints of the first one in the backward pass.
template <int stage, class T> LANES_INLINE void set_anchor_stage(const World<T>& world) {
    if (!world.nodes || !world.nodes->anchor_blocks) return;
    T* at = world.nodes->anchor_stage;
    at[0] = T(Tableau::anchor_time[stage]) * world.time.dt, at[1] = world.time.dt, at[2] = stage == Tableau::anchor_stage;
}
template <class T, class F> LANES_INLINE void for_each_anchor(const World<T>& world, int step, F visit) {
    if (!world.nodes) return;
    const Nodes<T>& nodes = *world.nodes;
    const long long count = nodes.anchor_blocks * LaneTypes<T>::width, first = world.index * count;
    T* row = nodes.xis + (world.time.row / Tableau::stages + step) * nodes.anchor_row;
    for (long long k = first; k < first + count; k++) visit(4 * k, row + 3 * k);
}
template <class T> LANES_INLINE void move_anchors(const World<T>& world, int step) {
    const bool record = world.time.record;
    for_each_anchor(world, step, [&](long long k, T* recorded) LANES_LAMBDA {
        T *xi = world.nodes->xi + k, *next = world.nodes->next + k;
        for (int c = 0; c < 3; c++) {
            if (record) recorded[c] = xi[c];
            xi[c] = next[c], next[c] = 0;
        }
    });
}
template <class T> LANES_INLINE void restore_anchors(const World<T>& world, int step) {
    for_each_anchor(world, step, [&](long long k, const T* recorded) LANES_LAMBDA {
        const Nodes<T>& nodes = *world.nodes;
        for (int c = 0; c < 3; c++) {
            nodes.xi[k + c] = recorded[c];
            nodes.next_adj[k + c] = nodes.xi_adj[k + c], nodes.xi_adj[k + c] = 0;
        }
    });
}

template <int stage, class T> LANES_INLINE void world_forces(const World<T>& world, int step) {
    set_anchor_stage<stage>(world);
    sample_signals(world, step, T(Tableau::time[stage]));
    for (int k = 0; k < world.force_count; k++) add_forces(world.forces[k], *world.nodes, world.index);
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.template begin_stage<stage>(b.body, step); });
    add_coupling_forces(world);
}

template <int stage, class T> LANES_INLINE void world_forces_adjoint(const World<T>& world, int step) {
    set_anchor_stage<stage>(world);
    sample_signals(world, step, T(Tableau::time[stage]));
    for (int k = 0; k < world.force_count; k++) add_force_adjoints(world.forces[k], *world.nodes, world.index);
    for (int b = 0; b < world.body_count(); b++) world.coupling_forces[b] = {};
    add_coupling_force_adjoints(world);
    for (int b = 0; b < world.body_count(); b++)
        world.bodies[b].step.template forces_adjoint<stage>(world.bodies[b].body, step, world.coupling_forces[b]);
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
        move_anchors(world, step);
    }
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA {
        b.body.record(Tableau::stages * steps, b.step.s);
        b.body.save_state(b.step.s, steps);
    });
}

template <class T> LANES_INLINE void world_rollout_adjoint(World<T>& world, int steps) {
    make_bodies(world);
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA {
        b.step.s = b.body.recorded(Tableau::stages * steps);
        b.step.adj = b.body.load_adjoint(b.step.s);
    });
    for (int step = steps - 1; step >= 0; step--) {
        world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA { b.step.begin_step_adjoint(b.body, step, b.step.s); });
        restore_anchors(world, step);
        world_stages_adjoint(world, step);
    }
    world.for_each_body([&](CoupledBody<T>& b) LANES_LAMBDA {
        b.body.save_adjoint(b.step.s, b.step.adj);
        b.body.add_gradients();
    });
}

}  // namespace gradsim
