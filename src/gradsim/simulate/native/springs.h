// Damped springs and their adjoint, `width` springs at a time.
// ../forces/springs.py defines the law; its portable kernel is the reference.
#pragma once
#include "nodes.h"

namespace gradsim {

template <class T> struct SpringBlock {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const int* id;
    L stiffness, damping, rest, length, inverse, rate, pull;
    Vector<L> n, u;  // direction and relative velocity
    LANES_MEMBER SpringBlock(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
        id = force.ints(0) + block * 2 * width;
        const T* values = force.tables[0].value + block * width;
        const long long stride = force.tables[0].stride;
        stiffness = load(values + spring_row::stiffness * stride), damping = load(values + spring_row::damping * stride);
        rest = load(values + spring_row::rest_length * stride);
        const Vector<L> d = difference(nodes.x);
        length = square_root(dot(d, d));
        inverse = length > T(0) ? T(1) / length : L{};  // zero where the ends coincide: no direction
        n = d * inverse;
        u = difference(nodes.v);
        rate = dot(u, n);
        pull = stiffness * (length - rest) + damping * rate;
    }
    LANES_MEMBER Vector<L> difference(const T* x) const { return gather(x, id + width) - gather(x, id); }
    LANES_MEMBER void add_difference(T* x, const Vector<L>& d) const {
        scatter_add(x, id, -d);
        scatter_add(x, id + width, d);
    }
};

template <class T> LANES_INLINE void spring_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    const SpringBlock<T> s(force, block, nodes);
    s.add_difference(nodes.f, s.n * -s.pull);
}

template <class T>
LANES_INLINE void spring_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const SpringBlock<T> s(force, block, nodes);
    const Vector<L> b = -s.difference(nodes.f_adj);
    const L pull_adj = dot(b, s.n), rate_adj = pull_adj * s.damping;
    T* grad = force.tables[0].grad + block * s.width;
    const long long stride = force.tables[0].stride;
    accumulate(grad + spring_row::stiffness * stride, pull_adj * (s.length - s.rest));
    accumulate(grad + spring_row::damping * stride, pull_adj * s.rate);
    accumulate(grad + spring_row::rest_length * stride, -pull_adj * s.stiffness);
    const Vector<L> n_adj = b * s.pull + s.u * rate_adj;
    s.add_difference(nodes.x_adj, (n_adj - s.n * dot(s.n, n_adj)) * s.inverse + s.n * (pull_adj * s.stiffness));
    s.add_difference(nodes.v_adj, s.n * rate_adj);
}

}  // namespace gradsim
