// The nodes of a world through many steps in one go, and back: signals, forces, updates.
// The portable kernels of ../integrate.py and of the forces are the reference; ../node_march.py fills in the structures.
#pragma once
#include "bending.h"
#include "contact.h"
#include "nodes.h"
#include "shells.h"
#include "solids.h"
#include "springs.h"

namespace gradsim {

enum { EXTERNAL, SPRING, TRIANGLE, BEND, TET, CONTACT };  // as FORCES of ../../topology.py

template <class T> struct NodeForce {
    long long kind, blocks;  // blocks of a world
    const void* constants[3];
    ForceTable<T> tables[2];
    LANES_MEMBER const int* ints(int k) const { return (const int*)constants[k]; }
    LANES_MEMBER const T* reals(int k) const { return (const T*)constants[k]; }
};
// Samples [worlds, samples, elements] that drive a stretch of a row of some table.
template <class T> struct NodeSignal {
    T *value, *grad;  // of the row
    const T* samples;
    T* samples_grad;
    long long sample_count, count, first, stride;  // count elements from `first` in each world, of `stride`
};

template <class T> struct NodeSystem {
    const Nodes<T>* nodes;
    const NodeForce<T>* forces;
    const NodeSignal<T>* signals;
    int force_count, signal_count;
    const int* clock;  // step, row of the history, steps of the rollout, whether to keep the history
    T dt;
};

// --- signals ---------------------------------------------------------------------------------------------------------

// The samples around a moment, and how far it is from the first to the second.
template <class T> struct Sample {
    long long at;
    T w;
    LANES_MEMBER Sample(const NodeSystem<T>& all, const NodeSignal<T>& s, int world, int step, T stage) {
        const T place = (T(all.clock[0] + step) + stage) * T(s.sample_count - 1) / T(all.clock[2]);
        const long long last = s.sample_count - 2, k = (long long)place < last ? (long long)place : last;
        at = (world * s.sample_count + k) * s.count;
        w = place - T(k);
    }
};
template <class T> LANES_INLINE void sample_signals(const NodeSystem<T>& all, int world, int step, T stage) {
    for (const NodeSignal<T>* s = all.signals; s < all.signals + all.signal_count; s++) {
        const Sample<T> sample(all, *s, world, step, stage);
        const T *a = s->samples + sample.at, *b = a + s->count;
        T* value = s->value + world * s->stride + s->first;
        for (long long k = 0; k < s->count; k++) value[k] = a[k] * (T(1) - sample.w) + b[k] * sample.w;
    }
}
template <class T> LANES_INLINE void add_signal_adjoints(const NodeSystem<T>& all, int world, int step, T stage) {
    for (const NodeSignal<T>* s = all.signals; s < all.signals + all.signal_count; s++) {
        const Sample<T> sample(all, *s, world, step, stage);
        T *a = s->samples_grad + sample.at, *b = a + s->count, *grad = s->grad + world * s->stride + s->first;
        for (long long k = 0; k < s->count; k++) {
            a[k] += grad[k] * (T(1) - sample.w);
            b[k] += grad[k] * sample.w;
            grad[k] = 0;
        }
    }
}

// --- forces ----------------------------------------------------------------------------------------------------------

template <class T> LANES_INLINE void external_force(const Nodes<T>& all, long long block, const ForceTable<T>& t) {
    const NodeBlock<T> b(all, block, 0);
    const T* p = t.value + b.first;
    b.write(all.f, b.read(all.f) + interleaved(load(p), load(p + t.stride), load(p + 2 * t.stride)));
}
template <class T>
LANES_INLINE void external_force_adjoint(const Nodes<T>& all, long long block, const ForceTable<T>& t) {
    const NodeBlock<T> b(all, block, 0);
    const Vec<T> a = separated(b.read(all.af));
    for (int k = 0; k < 3; k++) accumulate(t.grad + b.first + k * t.stride, a.c[k]);
}

template <class T, class F> LANES_INLINE void each_block(const NodeForce<T>& force, int world, F visit) {
    for (long long b = world * force.blocks, end = b + force.blocks; b < end; b++) visit(b);
}

template <class T>
static __attribute__((noinline)) void add_forces(const NodeForce<T>& force, const Nodes<T>& all, int world) {
    const ForceTable<T>&t = force.tables[0], &u = force.tables[1];
    const int *ids = force.ints(0), *others = force.ints(1);
    const T *x = all.x, *v = all.v;
    T* f = all.f;
    each_block(force, world, [&](long long b) LANES_LAMBDA {
        switch (force.kind) {
            case EXTERNAL: return external_force(all, b, t);
            case SPRING: return spring_force(b, ids, t.value, t.stride, x, v, f);
            case TRIANGLE: return triangle_force(b, ids, force.reals(1), t.value, t.stride, x, v, f);
            case BEND: return bend_force(b, ids, others, force.reals(2), t.value, t.stride, u.value, x, v, f);
            case TET: return tet_force(b, ids, force.reals(1), t.value, t.stride, x, v, f);
            case CONTACT: return contact_force(PairBlock<T>(b, ids, others, force.ints(2), t, u), x, v, f);
        }
    });
}

template <class T>
static __attribute__((noinline)) void add_force_adjoints(const NodeForce<T>& force, const Nodes<T>& all, int world) {
    const ForceTable<T>&t = force.tables[0], &u = force.tables[1];
    const int *ids = force.ints(0), *others = force.ints(1);
    const T *x = all.x, *v = all.v, *af = all.af;
    T *ax = all.ax, *av = all.av;
    each_block(force, world, [&](long long b) LANES_LAMBDA {
        switch (force.kind) {
            case EXTERNAL: return external_force_adjoint(all, b, t);
            case SPRING: return spring_force_adjoint(b, ids, t.value, t.stride, x, v, af, t.grad, ax, av);
            case TRIANGLE:
                return triangle_force_adjoint(b, ids, force.reals(1), t.value, t.stride, x, v, af, t.grad, ax, av);
            case BEND:
                return bend_force_adjoint(b, ids, others, force.reals(2), t.value, t.stride, u.value, x, v, af, t.grad,
                                          u.grad, ax, av);
            case TET: return tet_force_adjoint(b, ids, force.reals(1), t.value, t.stride, x, v, af, t.grad, ax, av);
            case CONTACT:
                return contact_force_adjoint(PairBlock<T>(b, ids, others, force.ints(2), t, u), x, v, af, ax, av);
        }
    });
}

// All forces at the present state, `stage` (0 to 1) into a step; and from their adjoint to those of state and
// parameters.
template <class T> LANES_INLINE void node_forces(int world, int step, T stage, const NodeSystem<T>& all) {
    sample_signals(all, world, step, stage);
    for (int k = 0; k < all.force_count; k++) add_forces(all.forces[k], *all.nodes, world);
}
template <class T> LANES_INLINE void node_forces_adjoint(int world, int step, T stage, const NodeSystem<T>& all) {
    sample_signals(all, world, step, stage);
    for (int k = 0; k < all.force_count; k++) add_force_adjoints(all.forces[k], *all.nodes, world);
    add_signal_adjoints(all, world, step, stage);
}

// --- time ------------------------------------------------------------------------------------------------------------

// Calls visit(block) for the nodes of a world; `row` is that of the history, from where the graph starts.
template <class T, class F> LANES_INLINE void each_nodes(const NodeSystem<T>& all, int world, int row, F visit) {
    const Nodes<T>& nodes = *all.nodes;
    for (long long k = world * nodes.blocks, end = k + nodes.blocks; k < end; k++)
        visit(NodeBlock<T>(nodes, k, all.clock[1] + row));
}

template <class T> LANES_INLINE void node_march(int world, int steps, bool midpoint, const NodeSystem<T>& all) {
    const bool keep = all.clock[3] != 0;
    const T dt = all.dt;
    for (int step = 0; step < steps; step++) {
        node_forces(world, step, T(0), all);
        if (midpoint) {
            each_nodes(all, world, 2 * step, [&](const NodeBlock<T>& b) LANES_LAMBDA { node_half(b, dt, keep); });
            node_forces(world, step, T(0.5), all);
            each_nodes(all, world, 2 * step + 1, [&](const NodeBlock<T>& b) LANES_LAMBDA { node_full(b, dt, keep); });
        } else {
            each_nodes(all, world, step, [&](const NodeBlock<T>& b) LANES_LAMBDA { node_euler(b, dt, keep); });
        }
    }
}

template <class T> LANES_INLINE void node_march_adjoint(int world, int steps, bool midpoint, const NodeSystem<T>& all) {
    const T dt = all.dt;
    for (int step = steps - 1; step >= 0; step--) {
        if (midpoint) {
            each_nodes(all, world, 2 * step + 1, [&](const NodeBlock<T>& b) LANES_LAMBDA { node_full_adjoint(b, dt); });
            node_forces_adjoint(world, step, T(0.5), all);
            each_nodes(all, world, 2 * step, [&](const NodeBlock<T>& b) LANES_LAMBDA { node_half_adjoint(b, dt); });
        } else {
            each_nodes(all, world, step, [&](const NodeBlock<T>& b) LANES_LAMBDA { node_euler_adjoint(b, dt); });
        }
        node_forces_adjoint(world, step, T(0), all);
    }
}

}  // namespace gradsim
