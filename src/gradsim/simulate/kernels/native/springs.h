// Damped springs and their adjoint, `width` springs at a time.
// The law stands in ../springs.py, whose portable kernel is the reference.
#pragma once
#include "lanes.h"

namespace gradsim {

template <class T> struct SpringBlock {
    static constexpr int width = LaneTypes<T>::width;
    const int* id;
    Lanes<T> stiffness, damping, rest, length, inverse, rate, pull;
    Vec<T> n, u;  // direction and relative velocity
    LANES_MEMBER SpringBlock(long long block, const int* nodes, const T* values, long long stride, const T* x,
                             const T* v) {
        id = nodes + block * 2 * width;
        values += block * width;
        stiffness = load(values), damping = load(values + stride), rest = load(values + 2 * stride);
        const Vec<T> d = difference(x);
        length = root(dot(d, d));
        inverse = length > T(0) ? T(1) / length : Lanes<T>{};  // no direction where the ends meet
        n = d * inverse;
        u = difference(v);
        rate = dot(u, n);
        pull = stiffness * (length - rest) + damping * rate;
    }
    LANES_MEMBER Vec<T> difference(const T* x) const { return gather(x, id + width) - gather(x, id); }
    LANES_MEMBER void add_difference(T* x, const Vec<T>& d) const {
        scatter_add(x, id, d * splat(T(-1)));
        scatter_add(x, id + width, d);
    }
};

template <class T>
LANES_INLINE void spring_force(long long block, const int* nodes, const T* values, long long stride, const T* x,
                               const T* v, T* f) {
    const SpringBlock<T> s(block, nodes, values, stride, x, v);
    s.add_difference(f, s.n * -s.pull);
}

template <class T>
LANES_INLINE void spring_force_adjoint(long long block, const int* nodes, const T* values, long long stride, const T* x,
                                       const T* v, const T* af, T* avalues, T* ax, T* av) {
    const SpringBlock<T> s(block, nodes, values, stride, x, v);
    const Vec<T> b = s.difference(af) * splat(T(-1));
    const Lanes<T> apull = dot(b, s.n), arate = apull * s.damping;
    T* a = avalues + block * s.width;
    accumulate(a, apull * (s.length - s.rest));
    accumulate(a + stride, apull * s.rate);
    accumulate(a + 2 * stride, -apull * s.stiffness);
    const Vec<T> an = b * s.pull + s.u * arate;
    s.add_difference(ax, (an - s.n * dot(s.n, an)) * s.inverse + s.n * (apull * s.stiffness));
    s.add_difference(av, s.n * arate);
}

}  // namespace gradsim
