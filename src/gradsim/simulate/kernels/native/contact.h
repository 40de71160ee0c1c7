// Contact of nodes with static shapes and its adjoint, `width` pairs at a time.
// ../contact.py has the portable kernels, which are the reference.
#pragma once
#include "law.h"
#include "shapes.h"

namespace gradsim {

template <class T> LANES_INLINE Vector<Lanes<T>> gather_vector(const T* x, const int* id) {
    const Vec<T> a = gather(x, id);
    return {a.c[0], a.c[1], a.c[2]};
}
template <class T> LANES_INLINE void scatter_vector(T* x, const int* id, const Vector<Lanes<T>>& a) {
    scatter_add(x, id, Vec<T>{a.x, a.y, a.z});
}

// Parameters [rows, elements] with their gradients, as ../node_march.py fills it in.
template <class T> struct ForceTable {
    const T* value;
    T* grad;
    long long stride;
};

// A block of pairs of a node and a shape; shapes are numbered through all worlds, and -1 where a lane is none.
template <class T> struct PairBlock {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const int *id, *shape, *kinds;
    long long first;
    const ForceTable<T>&laws, &shapes;
    LANES_MEMBER PairBlock(long long block, const int* nodes, const int* shape_ids, const int* kinds_,
                           const ForceTable<T>& laws_, const ForceTable<T>& shapes_)
        : id(nodes + block * width), shape(shape_ids + block * width), kinds(kinds_), first(block * width),
          laws(laws_), shapes(shapes_) {}

    LANES_MEMBER Law<L> law() const {
        const T* p = laws.value + first;
        const long long stride = laws.stride;
        const L delta = load(p + 4 * stride);
        const auto smooth = delta > T(0);
        const L per_delta = smooth ? T(1) / delta : splat(T(1e30));
        return {load(p), load(p + stride), load(p + 2 * stride), load(p + 3 * stride), delta, per_delta, any(~smooth)};
    }

    // Calls visit(j, shape, depth) for every shape j that some lanes touch; depth is zero in all others.
    template <class F> LANES_MEMBER void each_touched(const Vector<L>& x, F visit) const {
        for (int k = 0, end; k < width; k = end) {
            const int j = shape[k];
            for (end = k + 1; end < width && shape[end] == j; end++) {
            }
            if (j < 0) continue;
            T column[11];
            for (int q = 0; q < 11; q++) column[q] = shapes.value[q * shapes.stride + j];
            if (kinds[j] == SPHERE)
                for (int q = 0; q < 3; q++) column[4 + q] = column[q];
            const View<T> view = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {}, {}};
            if (kinds[j] == PLANE)
                touch(j, Plane<T>(column, view), x, k, end, visit);
            else if (kinds[j] == BOX)
                touch(j, Box<T>(column, view), x, k, end, visit);
            else
                touch(j, Round<T>(column, view), x, k, end, visit);
        }
    }

private:
    template <class Shape, class F>
    LANES_MEMBER void touch(int j, const Shape& one, const Vector<L>& x, int begin, int end, F visit) const {
        const auto lanes = lift(one);
        L depth = -lanes.gap(x);
        for (int k = 0; k < width; k++) depth[k] = k >= begin && k < end ? depth[k] : T(0);
        if (any(depth > T(0))) visit(j, lanes, larger(depth, L{}));
    }
};

template <class T>
LANES_INLINE void contact_force(const PairBlock<T>& pairs, const T* px, const T* pv, T* pf) {
    typedef Lanes<T> L;
    const Vector<L> x = gather_vector(px, pairs.id);
    pairs.each_touched(x, [&](int, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = gather_vector(pv, pairs.id);
        scatter_vector(pf, pairs.id, law_force<T>(pairs.law(), depth, shape.normal(x), v));
    });
}

template <class T>
LANES_INLINE void contact_force_adjoint(const PairBlock<T>& pairs, const T* px, const T* pv, const T* paf, T* pax,
                                        T* pav) {
    typedef Lanes<T> L;
    const Vector<L> x = gather_vector(px, pairs.id);
    pairs.each_touched(x, [&](int j, const auto& shape, L depth) LANES_LAMBDA {
        const Vector<L> v = gather_vector(pv, pairs.id), b = gather_vector(paf, pairs.id), n = shape.normal(x);
        const LawAdjoint<L> adj = law_adjoint<T>(pairs.law(), b, depth, n, v);
        const L five[5] = {adj.ke, adj.kd, adj.kf, adj.mu, adj.delta};
        for (int q = 0; q < 5; q++) accumulate(pairs.laws.grad + pairs.first + q * pairs.laws.stride, five[q]);
        if (pairs.kinds[j] == PLANE) {
            Vector<T> normal;
            T offset;
            fold(adj.n - x * adj.c, normal);
            fold(adj.c, offset);
            T* a = pairs.shapes.grad + j;
            const long long stride = pairs.shapes.stride;
            a[0] += normal.x, a[stride] += normal.y, a[2 * stride] += normal.z, a[3 * stride] += offset;
        }
        scatter_vector(pax, pairs.id, shape.turning(x, n, adj.n) - n * adj.c);
        scatter_vector(pav, pairs.id, adj.v);
    });
}

}  // namespace gradsim
