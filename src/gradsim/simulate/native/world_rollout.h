// Rollout of worlds over many steps in one launch, and its adjoint. Each stage evaluates signals, forces on nodes,
// forces on rigid bodies and coupling forces, then updates all parts. One thread per world, or a team of threads for
// several worlds of nodes or a large one. A module for worlds without
// rigid bodies (world_parts::bodies is 0) leaves out what concerns them.
#pragma once
#include "nodes.h"
#include "pairs.h"
#include "signals.h"
#include "team.h"

namespace gradsim {

template <class T> struct World {
    const Nodes<T>* nodes;
    const RigidBodies<T>* rigid;  // those with coupling forces; null if there are none
    const ForceArrays<T>*forces, *couplings;
    const SignalArrays<T>* signals;
    const PrescribedNodes<T>* prescribed;  // null if there are none
    int force_count, coupling_count, signal_count, index;
    RolloutClock<T> time;
    const PairArrays<T>* pair_arrays;  // null if no bodies touch each other
    Team team;
    CoupledBodies<T, T> bodies;
    Pairs<T, T> pairs;

    // Visits the nodes of this thread. `row` is a row of the history, relative to the first row of the launch.
    template <class F> LANES_MEMBER void for_each_node_block(int row, F visit) const {
        if (!nodes) return;
        for (int subdomain = team.first_subdomain(); subdomain < nodes->subdomain_count; subdomain += team.subdomain_step()) {
            const long long first = index * nodes->blocks, end = first + nodes->subdomain_bounds[subdomain + 1];
            for (long long k = first + nodes->subdomain_bounds[subdomain]; k < end; k++)
                visit(NodeBlock<T>(*nodes, k, time.row + row));
        }
    }
    // Calls visit(range) for the blocks of forces of this thread. Those that act on several subdomains follow, on one thread.
    template <class F> LANES_MEMBER void for_each_subdomain(F visit) const {
        const int count = nodes ? (int)nodes->subdomain_count : 1;
        if (count == 1) return visit(SubdomainRange{0, 1, 1, true});
        visit(SubdomainRange{team.first_subdomain(), count, team.subdomain_step(), false});
        team.wait();
        if (team.first_subdomain() == 0) visit(SubdomainRange{count, count + 1, 1, true});
        team.wait();
    }
};

template <class T> LANES_INLINE void make_bodies(World<T>& world) {
    if (!world.rigid) return;
    world.bodies = CoupledBodies<T, T>(*world.rigid, world.time, world.index);
    if (world.pair_arrays) world.pairs = Pairs<T, T>(*world.pair_arrays, world.bodies);
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

// Visits the blocks of some subdomains of a world; a world that is one has them in their own order.
template <class T, class F>
LANES_INLINE void for_each_block(const ForceArrays<T>& force, int world, const SubdomainRange& range, F visit) {
    const long long before = world * force.count;
    for (int subdomain = range.first; subdomain < range.end; subdomain += range.step) {
        const long long end = force.order ? force.subdomain_bounds[subdomain + 1] : force.count;
        for (long long k = force.order ? force.subdomain_bounds[subdomain] : 0; k < end; k++)
            visit(before + (force.order ? force.order[k] : k));
    }
}

template <class T>
static __attribute__((noinline)) void add_forces(const ForceArrays<T>& force, const Nodes<T>& nodes, int world,
                                                 const SubdomainRange& range) {
#define CASE(name) case force_kind::name: return range.shared ? name##_force(force, world, nodes) : void();
    switch (force.kind) { FOR_WORLD_FORCES(CASE) }
#undef CASE
#define CASE(name) case force_kind::name: return name##_force(force, block, nodes);
    for_each_block(force, world, range, [&](long long block) LANES_LAMBDA {
        switch (force.kind) { FOR_NODE_FORCES(CASE) }
    });
#undef CASE
}
template <class T>
static __attribute__((noinline)) void add_force_adjoints(const ForceArrays<T>& force, const Nodes<T>& nodes, int world,
                                                         const SubdomainRange& range) {
#define CASE(name) case force_kind::name: return range.shared ? name##_force_adjoint(force, world, nodes) : void();
    switch (force.kind) { FOR_WORLD_FORCES(CASE) }
#undef CASE
#define CASE(name) case force_kind::name: return name##_force_adjoint(force, block, nodes);
    for_each_block(force, world, range, [&](long long block) LANES_LAMBDA {
        switch (force.kind) { FOR_NODE_FORCES(CASE) }
    });
#undef CASE
}
// All blocks of a force in a world that is not divided.
template <class T> LANES_INLINE void add_force_adjoints(const ForceArrays<T>& force, const Nodes<T>& nodes, int world) {
    add_force_adjoints(force, nodes, world, SubdomainRange{0, 1, 1, true});
}

// Coupling forces between nodes and rigid bodies of the world.
template <class T> LANES_INLINE void add_coupling_forces(const World<T>& world) {
#define CASE(name) case force_kind::name: name##_force(force, e, *world.nodes, world.bodies.all); break;
    for (int k = 0; k < world.coupling_count; k++) {
        const ForceArrays<T>& force = world.couplings[k];
        for (long long e = world.index * force.count, end = e + force.count; e < end; e++)
            switch (force.kind) { FOR_COUPLING_FORCES(CASE) }
    }
#undef CASE
}
template <class T> LANES_INLINE void add_coupling_force_adjoints(const World<T>& world) {
#define CASE(name) \
    case force_kind::name: name##_force_adjoint(force, e, *world.nodes, world.bodies.all, world.bodies.forces); break;
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

template <int stage, class T> LANES_INLINE void world_forces(World<T>& world, int step) {
    set_anchor_stage<stage>(world);
    sample_signals(world, step, T(Tableau::time[stage]));
    set_prescribed_nodes(world);
    world.for_each_subdomain([&](const SubdomainRange& range) LANES_LAMBDA {
        for (int k = 0; k < world.force_count; k++) add_forces(world.forces[k], *world.nodes, world.index, range);
    });
    if constexpr (world_parts::bodies) {
        world.bodies.template begin_stage<stage>(step);
        if (world.pair_arrays) world.pairs.add_forces(step, stage);
        add_coupling_forces(world);
    }
}

template <int stage, class T> LANES_INLINE void world_forces_adjoint(World<T>& world, int step) {
    set_anchor_stage<stage>(world);
    sample_signals(world, step, T(Tableau::time[stage]));
    world.for_each_subdomain([&](const SubdomainRange& range) LANES_LAMBDA {
        for (int k = 0; k < world.force_count; k++) add_force_adjoints(world.forces[k], *world.nodes, world.index, range);
    });
    if constexpr (world_parts::bodies) {
        world.bodies.clear_forces();
        add_coupling_force_adjoints(world);
        if (world.pair_arrays) world.pairs.add_adjoints(step, stage);
        world.bodies.template forces_adjoint<stage>(step);
    }
    set_prescribed_nodes_adjoint(world);
    add_signal_adjoints(world, step, T(Tableau::time[stage]));
}

// Updates the nodes after a stage. A rule that carries its force ends a step and starts the next one in one pass.
template <int stage, class T> LANES_INLINE void update_nodes(const World<T>& world, int step, int steps) {
    const T dt = world.time.dt;
    const bool record = world.time.record, evaluated = world.time.template evaluates<stage>(step);
    if (Tableau::carries && stage == 0 && step > 0) return;
    world.for_each_node_block(Tableau::stages * step + stage, [&](const NodeBlock<T>& b) LANES_LAMBDA {
        if constexpr (!Tableau::carries)
            node_update<stage>(b, dt, record);
        else if constexpr (stage == 0)
            node_begin(b, dt, record && evaluated);
        else
            node_end(b, dt, record, step + 1 < steps);
    });
}
template <int stage, class T> LANES_INLINE void update_nodes_adjoint(const World<T>& world, int step) {
    const T dt = world.time.dt;
    const bool continues = !world.time.starts_frame(step + 1);
    if (!world.time.template evaluates<stage>(step)) return;
    world.for_each_node_block(Tableau::stages * step + stage, [&](const NodeBlock<T>& b) LANES_LAMBDA {
        if constexpr (!Tableau::carries)
            node_update_adjoint<stage>(b, dt);
        else if constexpr (stage == 0)
            node_begin_adjoint(b, dt);
        else
            node_end_adjoint(b, dt, continues);
    });
}

template <int stage = 0, class T> LANES_INLINE void world_stages(World<T>& world, int step, int steps) {
    if constexpr (stage < Tableau::stages) {
        if (world.time.template evaluates<stage>(step))
            world_forces<stage>(world, step);
        else if constexpr (world_parts::bodies)
            world.bodies.begin_carried_stage(step);
        update_nodes<stage>(world, step, steps);
        if constexpr (world_parts::bodies) world.bodies.template update<stage>();
        world_stages<stage + 1>(world, step, steps);
    }
}

template <int stage = Tableau::stages - 1, class T>
LANES_INLINE void world_stages_adjoint(World<T>& world, int step) {
    if constexpr (stage >= 0) {
        update_nodes_adjoint<stage>(world, step);
        if constexpr (world_parts::bodies) world.bodies.template update_adjoint<stage>(step);
        if (world.time.template evaluates<stage>(step))
            world_forces_adjoint<stage>(world, step);
        else if constexpr (world_parts::bodies)
            world.bodies.carried_stage_adjoint(step);
        world_stages_adjoint<stage - 1>(world, step);
    }
}

template <class T> LANES_INLINE void begin_bodies(World<T>& world) {
    make_bodies(world);
    world.bodies.begin();
    world.pairs.anchors.begin();
}
template <class T> LANES_INLINE void end_bodies(World<T>& world, int steps) {
    world.bodies.end(steps);
    world.pairs.anchors.end(steps);
}

template <class T> LANES_INLINE void world_rollout(World<T>& world, int steps) {
    if constexpr (world_parts::bodies) begin_bodies(world);
    for (int step = 0; step < steps && !world.team.stopped(); step++) {
        if constexpr (world_parts::bodies) world.bodies.begin_step();
        world_stages(world, step, steps);
        move_anchors(world, step);
    }
    if (world.prescribed) {  // at the end of the last step
        sample_signals(world, steps - 1, T(1));
        set_prescribed_nodes(world);
    }
    if constexpr (world_parts::bodies) end_bodies(world, steps);
}

template <class T> LANES_INLINE void begin_bodies_adjoint(World<T>& world, int steps) {
    make_bodies(world);
    world.bodies.begin_adjoint(steps);
    world.pairs.anchors.begin_adjoint();
}
template <class T> LANES_INLINE void end_bodies_adjoint(World<T>& world) {
    world.bodies.end_adjoint();
    world.pairs.anchors.end_adjoint();
    if (world.pair_arrays) world.pairs.add_gradients();
}

template <class T> LANES_INLINE void world_rollout_adjoint(World<T>& world, int steps) {
    if constexpr (world_parts::bodies) begin_bodies_adjoint(world, steps);
    if (world.prescribed) {
        set_prescribed_nodes_adjoint(world);
        add_signal_adjoints(world, steps - 1, T(1));
    }
    for (int step = steps - 1; step >= 0 && !world.team.stopped(); step--) {
        if constexpr (world_parts::bodies) world.bodies.begin_step_adjoint(step);
        restore_anchors(world, step);
        world_stages_adjoint(world, step);
    }
    if constexpr (world_parts::bodies) end_bodies_adjoint(world);
}

}  // namespace gradsim
