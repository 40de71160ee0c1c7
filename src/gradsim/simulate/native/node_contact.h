// Contact of nodes with static shapes and its adjoint, `width` pairs at a time.
// The portable kernels of ../forces/node_contact.py are the reference.
#pragma once
#include "contact_law.h"
#include "nodes.h"
#include "shapes.h"

namespace gradsim {

// A block of pairs of a node and a shape. Shape indices count through all worlds; -1 marks an unused lane.
template <class T> struct PairBlock {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const int *id, *shape, *kinds, *flags;
    long long first;
    const Table<T>&laws, &shapes;
    LANES_MEMBER PairBlock(const ForceArrays<T>& force, long long block)
        : id(force.ints(0) + block * width), shape(force.ints(1) + block * width), kinds(force.ints(2)),
          flags(force.ints(3)), first(block * width), laws(force.tables[0]), shapes(force.tables[1]) {}

    LANES_MEMBER L row(int k) const { return load(laws.value + first + k * laws.stride); }
    LANES_MEMBER ContactLaw<L> law() const {
        const L delta = row(contact_row::delta);
        const auto smooth = delta > T(0);
        const L per_delta = smooth ? T(1) / delta : splat(T(1e30));
        return {row(contact_row::ke), row(contact_row::kd), row(contact_row::kf), row(contact_row::mu), delta, per_delta,
                any(~smooth)};
    }

    LANES_MEMBER void read_column(int j, T* column) const {
        const int rows = flags[j] & shape_flag::moves ? shape_row::count : shape_row::vx;
        for (int q = 0; q < rows; q++) column[q] = shapes.value[q * shapes.stride + j];
        if (kinds[j] == shape_kind::sphere)
            for (int q = 0; q < 3; q++) column[shape_row::bx + q] = column[q];
    }
    // Velocity of the nodes relative to shape j.
    LANES_MEMBER Vector<L> relative_velocity(int j, const Vector<L>& x, const Vector<L>& v) const {
        if (!(flags[j] & shape_flag::moves)) return v;
        T column[shape_row::count];
        read_column(j, column);
        return v - broadcast(ShapeMotion<T>(column)).velocity(x);
    }

    // The law where friction sticks: with its stiffness, and its damping from the mass of the nodes.
    LANES_MEMBER ContactLaw<L> sticking_law(L inverse_mass, T dt) const {
        ContactLaw<L> own = law();
        own.stick = row(node_contact_row::stick_stiffness);
        own.sticking = true;
        const L zero = {}, damping = row(node_contact_row::stick_damping);
        own.kf = inverse_mass > 0 ? damping / (inverse_mass * dt) : zero;
        return own;
    }
    LANES_MEMBER L inverse_mass(const Nodes<T>& nodes) const {
        L w = {};
        for (int k = 0; k < width; k++) w[k] = nodes.table.value[node_row::inverse_mass * nodes.table.stride + id[k] / 4];
        return w;
    }

    // Calls visit(j, shape, depth) for every shape j in contact with some lanes; depth is zero in the other lanes.
    template <class F> LANES_MEMBER void for_each_contact(const Vector<L>& x, F visit) const {
        for (int k = 0, end; k < width; k = end) {
            const int j = shape[k];
            for (end = k + 1; end < width && shape[end] == j; end++) {
            }
            if (j < 0) continue;
            T column[shape_row::count];
            read_column(j, column);
            const Frame<T> frame = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {}, {}};
            if (kinds[j] == shape_kind::plane)
                visit_shape(j, Plane<T>(column, frame), x, k, end, visit);
            else if (kinds[j] == shape_kind::box)
                visit_shape(j, Box<T>(column, frame), x, k, end, visit);
            else
                visit_shape(j, Capsule<T>(column, frame), x, k, end, visit);
        }
    }

private:
    template <class Shape, class F>
    LANES_MEMBER void visit_shape(int j, const Shape& one, const Vector<L>& x, int begin, int end, F visit) const {
        const auto lanes = broadcast(one);
        L depth = -lanes.distance(x);
        for (int k = 0; k < width; k++) depth[k] = k >= begin && k < end ? depth[k] : T(0);
        if (any(depth > T(0))) visit(j, lanes, larger(depth, L{}));
    }
};

// Lanes of `a` where `mask` is set, of b elsewhere.
template <class M, class L> LANES_INLINE Vector<L> select(M mask, const Vector<L>& a, const Vector<L>& b) {
    return {mask ? a.x : b.x, mask ? a.y : b.y, mask ? a.z : b.z};
}

// Anchors of a block of pairs, one for each, in rows of four scalars.
template <class T> struct AnchorBlock {
    static constexpr int width = LaneTypes<T>::width;
    int id[width];
    T h, dt;
    bool moves;
    LANES_MEMBER AnchorBlock(const Nodes<T>& nodes, long long block)
        : h(nodes.anchor_stage[0]), dt(nodes.anchor_stage[1]), moves(nodes.anchor_stage[2] != 0) {
        for (int k = 0; k < width; k++) id[k] = (int)(4 * (block * width + k));
    }
};

// Contact where some nodes of the scene have sticking friction.
template <class T>
static __attribute__((noinline)) void anchored_node_force(const ForceArrays<T>& force, long long block,
                                                          const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const PairBlock<T> pairs(force, block);
    const AnchorBlock<T> anchors(nodes, block);
    const Vector<L> x = gather(nodes.x, pairs.id);
    pairs.for_each_contact(x, [&](int j, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = pairs.relative_velocity(j, x, gather(nodes.v, pairs.id)), n = shape.normal(x);
        const ContactLaw<L> law = pairs.law(), sticking = pairs.sticking_law(pairs.inverse_mass(nodes), anchors.dt);
        const auto sticks = sticking.stick > 0;
        const Vector<L> xi = gather(nodes.xi, anchors.id);
        Vector<L> moved;
        const Vector<L> f = anchored_force<T>(sticking, depth, n, v, L{}, xi, anchors.h, anchors.dt, &moved);
        scatter_add(nodes.f, pairs.id, select(sticks, f, contact_force<T>(law, depth, n, v)));
        if (anchors.moves) scatter_add(nodes.next, anchors.id, select(sticks & (depth > 0), moved, Vector<L>{}));
    });
}
template <class T>
LANES_INLINE void node_contact_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    if (nodes.anchor_blocks) return anchored_node_force(force, block, nodes);
    const PairBlock<T> pairs(force, block);
    const Vector<L> x = gather(nodes.x, pairs.id);
    pairs.for_each_contact(x, [&](int j, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = pairs.relative_velocity(j, x, gather(nodes.v, pairs.id));
        scatter_add(nodes.f, pairs.id, contact_force<T>(pairs.law(), depth, shape.normal(x), v));
    });
}

// Adds the adjoints of shape j, and to x_adj that of its velocity at the nodes.
template <class T, class Shape>
LANES_INLINE void add_shape_adjoint(const PairBlock<T>& pairs, int j, const Shape& shape, const Vector<Lanes<T>>& x,
                                    const Vector<Lanes<T>>& n, const ContactAdjoint<Lanes<T>>& adj,
                                    Vector<Lanes<T>>& x_adj) {
    typedef Lanes<T> L;
    T column[shape_row::count];
    pairs.read_column(j, column);
    const bool moves = pairs.flags[j] & shape_flag::moves;
    ShapeAdjoint<L> lanes = {};
    shape.add_adjoint(x, n, adj.c, adj.n, x_adj, lanes);
    if (moves) {
        const ShapeMotion<L> motion = broadcast(ShapeMotion<T>(column));
        lanes.add_velocity(motion, x, -adj.v);
        x_adj -= cross(adj.v, motion.w);
    }
    ShapeAdjoint<T> sum;
    sum_lanes(lanes, sum);
    sum.for_each_row(column, pairs.kinds[j], moves, [&](int row, T value) LANES_LAMBDA {
        pairs.shapes.grad[row * pairs.shapes.stride + j] += value;
    });
}

// Adds the adjoints of a block of pairs with the shape j.
template <class T, class Shape>
LANES_INLINE void add_pair_adjoints(const PairBlock<T>& pairs, const Nodes<T>& nodes, int j, const Shape& shape,
                                    const Vector<Lanes<T>>& x, const Vector<Lanes<T>>& n,
                                    const ContactAdjoint<Lanes<T>>& adj) {
    for (int q = 0; q < contact_row::count; q++)
        accumulate(pairs.laws.grad + pairs.first + q * pairs.laws.stride, adj.law[q]);
    Vector<Lanes<T>> x_adj = shape.hessian(x, n, adj.n) - n * adj.c;
    if (pairs.flags[j]) add_shape_adjoint(pairs, j, shape, x, n, adj, x_adj);
    scatter_add(nodes.x_adj, pairs.id, x_adj);
    scatter_add(nodes.v_adj, pairs.id, adj.v);
}
template <class T>
static __attribute__((noinline)) void anchored_node_force_adjoint(const ForceArrays<T>& force, long long block,
                                                                  const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const PairBlock<T> pairs(force, block);
    const AnchorBlock<T> anchors(nodes, block);
    const Vector<L> x = gather(nodes.x, pairs.id);
    pairs.for_each_contact(x, [&](int j, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = pairs.relative_velocity(j, x, gather(nodes.v, pairs.id)), b = gather(nodes.f_adj, pairs.id);
        const Vector<L> n = shape.normal(x);
        const L w = pairs.inverse_mass(nodes), zero = {};
        const ContactLaw<L> sticking = pairs.sticking_law(w, anchors.dt);
        const auto sticks = (sticking.stick > 0) & (depth > 0);
        const Vector<L> xi = gather(nodes.xi, anchors.id), y = gather(nodes.next_adj, anchors.id);
        Vector<L> xi_adj, moved;
        ContactAdjoint<L> adj = anchored_force_adjoint<T>(sticking, b, anchors.moves ? &y : nullptr, depth, n, v, L{}, xi,
                                                          anchors.h, anchors.dt, xi_adj, moved);
        scatter_add(nodes.xi_adj, anchors.id, select(sticks, xi_adj, Vector<L>{}));
        const L w_adj = (sticks & (w > 0)) ? -adj.law[contact_row::kf] * sticking.kf / w : zero;
        for (int k = 0; k < pairs.width; k++)
            nodes.table.grad[node_row::inverse_mass * nodes.table.stride + pairs.id[k] / 4] += w_adj[k];
        adj.law[contact_row::kf] = zero;
        const ContactAdjoint<L> other = contact_force_adjoint<T>(pairs.law(), b, depth, n, v);
        for (int q = 0; q < contact_row::count; q++) adj.law[q] = sticks ? adj.law[q] : other.law[q];
        adj.n = select(sticks, adj.n, other.n), adj.v = select(sticks, adj.v, other.v);
        adj.c = sticks ? adj.c : other.c;
        add_pair_adjoints(pairs, nodes, j, shape, x, n, adj);
    });
}
template <class T>
LANES_INLINE void node_contact_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    if (nodes.anchor_blocks) return anchored_node_force_adjoint(force, block, nodes);
    const PairBlock<T> pairs(force, block);
    const Vector<L> x = gather(nodes.x, pairs.id);
    pairs.for_each_contact(x, [&](int j, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = pairs.relative_velocity(j, x, gather(nodes.v, pairs.id)), b = gather(nodes.f_adj, pairs.id);
        const Vector<L> n = shape.normal(x);
        add_pair_adjoints(pairs, nodes, j, shape, x, n, contact_force_adjoint<T>(pairs.law(), b, depth, n, v));
    });
}

}  // namespace gradsim
