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
    const int *id, *shape, *kinds;
    long long first;
    const Table<T>&laws, &shapes;
    LANES_MEMBER PairBlock(const ForceArrays<T>& force, long long block)
        : id(force.ints(0) + block * width), shape(force.ints(1) + block * width), kinds(force.ints(2)),
          first(block * width), laws(force.tables[0]), shapes(force.tables[1]) {}

    LANES_MEMBER ContactLaw<L> law() const {
        auto row = [&](int k) LANES_LAMBDA { return load(laws.value + first + k * laws.stride); };
        const L delta = row(contact_row::delta);
        const auto smooth = delta > T(0);
        const L per_delta = smooth ? T(1) / delta : splat(T(1e30));
        return {row(contact_row::ke), row(contact_row::kd), row(contact_row::kf), row(contact_row::mu), delta, per_delta,
                any(~smooth)};
    }

    // Calls visit(j, shape, depth) for every shape j in contact with some lanes; depth is zero in the other lanes.
    template <class F> LANES_MEMBER void for_each_contact(const Vector<L>& x, F visit) const {
        for (int k = 0, end; k < width; k = end) {
            const int j = shape[k];
            for (end = k + 1; end < width && shape[end] == j; end++) {
            }
            if (j < 0) continue;
            T column[shape_row::count];
            for (int q = 0; q < shape_row::count; q++) column[q] = shapes.value[q * shapes.stride + j];
            if (kinds[j] == shape_kind::sphere)
                for (int q = 0; q < 3; q++) column[shape_row::bx + q] = column[q];
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

template <class T>
LANES_INLINE void node_contact_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const PairBlock<T> pairs(force, block);
    const Vector<L> x = gather(nodes.x, pairs.id);
    pairs.for_each_contact(x, [&](int, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = gather(nodes.v, pairs.id);
        scatter_add(nodes.f, pairs.id, contact_force<T>(pairs.law(), depth, shape.normal(x), v));
    });
}

template <class T>
LANES_INLINE void node_contact_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const PairBlock<T> pairs(force, block);
    const Vector<L> x = gather(nodes.x, pairs.id);
    pairs.for_each_contact(x, [&](int j, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = gather(nodes.v, pairs.id), b = gather(nodes.f_adj, pairs.id);
        const Vector<L> n = shape.normal(x);
        const ContactAdjoint<L> adj = contact_force_adjoint<T>(pairs.law(), b, depth, n, v);
        for (int q = 0; q < contact_row::count; q++)
            accumulate(pairs.laws.grad + pairs.first + q * pairs.laws.stride, adj.law[q]);
        if (pairs.kinds[j] == shape_kind::plane) {
            Vector<T> normal;
            T offset;
            sum_lanes(adj.n - x * adj.c, normal);
            sum_lanes(adj.c, offset);
            T* a = pairs.shapes.grad + j;
            const long long stride = pairs.shapes.stride;
            a[shape_row::x * stride] += normal.x, a[shape_row::y * stride] += normal.y;
            a[shape_row::z * stride] += normal.z, a[shape_row::radius * stride] += offset;
        }
        scatter_add(nodes.x_adj, pairs.id, shape.hessian(x, n, adj.n) - n * adj.c);
        scatter_add(nodes.v_adj, pairs.id, adj.v);
    });
}

}  // namespace gradsim
