// Static shapes as signed distances, seen from a body; ../shapes.py has the portable functions and the parameters.
#pragma once
#include "space.h"

namespace gradsim {

enum { PLANE, SPHERE, CAPSULE, BOX };  // as in ../shapes.py

// How a body sees the world: x in the world's axes is R'(x - p) + center in its own.
template <class S> struct View {
    Rotation<S> R;
    Vector<S> p, center;
    LANES_MEMBER Vector<S> point(const Vector<S>& x) const { return R.back(x - p) + center; }
};

// Each kind gives the signed distance `gap`, and `normal` and `turning`, the product of its Hessian with a, where the
// distance is negative.
template <class S> struct Plane {
    Vector<S> n;
    S offset;
    LANES_MEMBER Plane(const Vector<S>& n_, S offset_) : n(n_), offset(offset_) {}
    LANES_MEMBER Plane(const S* c, const View<S>& view) {
        const Vector<S> up = {c[0], c[1], c[2]};
        n = view.R.back(up);
        offset = c[3] - dot(up, view.p) + dot(n, view.center);
    }
    LANES_MEMBER S gap(const Vector<S>& x) const { return dot(n, x) - offset; }
    LANES_MEMBER Vector<S> normal(const Vector<S>&) const { return n; }
    LANES_MEMBER Vector<S> turning(const Vector<S>&, const Vector<S>&, const Vector<S>&) const { return {}; }
};
template <class S> LANES_INLINE auto lift(const Plane<S>& a) -> Plane<decltype(lift(a.offset))> {
    return {lift(a.n), lift(a.offset)};
}

// A ball around a point or a segment.
template <class S> struct Round {
    Vector<S> first, axis;
    S per_axis2, radius;
    LANES_MEMBER Round(const Vector<S>& f, const Vector<S>& a, S s, S r) : first(f), axis(a), per_axis2(s), radius(r) {}
    LANES_MEMBER Round(const S* c, const View<S>& view) {
        first = view.point({c[0], c[1], c[2]});
        axis = view.R.back({c[4] - c[0], c[5] - c[1], c[6] - c[2]});
        per_axis2 = 1 / (dot(axis, axis) + (S{} + 1e-30f));
        radius = c[3];
    }
    LANES_MEMBER S place(const Vector<S>& x) const {
        const S t = dot(x - first, axis) * per_axis2, one = S{} + 1;
        return __builtin_elementwise_min(__builtin_elementwise_max(t, S{}), one);
    }
    LANES_MEMBER Vector<S> away(const Vector<S>& x) const { return x - first - axis * place(x); }
    LANES_MEMBER S gap(const Vector<S>& x) const { return length(away(x)) - radius; }
    LANES_MEMBER Vector<S> normal(const Vector<S>& x) const {
        const Vector<S> a = away(x);
        return a * (1 / (length(a) + (S{} + 1e-30f)));
    }
    LANES_MEMBER Vector<S> turning(const Vector<S>& x, const Vector<S>& n, const Vector<S>& a) const {
        const S t = place(x), along = dot(axis, a) * per_axis2;
        const Vector<S> flat = n * dot(n, a) + axis * (((t > 0) & (t < 1)) ? along : S{});
        return (a - flat) * (1 / (length(away(x)) + (S{} + 1e-30f)));
    }
};
template <class S> LANES_INLINE auto lift(const Round<S>& a) -> Round<decltype(lift(a.radius))> {
    return {lift(a.first), lift(a.axis), lift(a.per_axis2), lift(a.radius)};
}

template <class S> struct Box {
    Vector<S> center, half;
    Rotation<S> axes;
    LANES_MEMBER Box(const Vector<S>& c, const Vector<S>& h, const Rotation<S>& r) : center(c), half(h), axes(r) {}
    LANES_MEMBER Box(const S* c, const View<S>& view) {
        center = view.point({c[0], c[1], c[2]});
        half = {c[4], c[5], c[6]};
        const Rotation<S> r(Quaternion<S>{{c[7], c[8], c[9]}, c[10]});
        axes = {view.R.back(r.x), view.R.back(r.y), view.R.back(r.z)};
    }
    LANES_MEMBER Vector<S> beyond(const Vector<S>& a) const {  // the faces, where positive
        return {magnitude(a.x) - half.x, magnitude(a.y) - half.y, magnitude(a.z) - half.z};
    }
    LANES_MEMBER S gap(const Vector<S>& x) const {
        const Vector<S> q = beyond(axes.back(x - center));
        const S most = larger(larger(q.x, q.y), q.z), zero = {};
        return most > 0 ? length(Vector<S>{larger(q.x, zero), larger(q.y, zero), larger(q.z, zero)}) : most;
    }
    LANES_MEMBER Vector<S> normal(const Vector<S>& x) const {
        const Vector<S> a = axes.back(x - center), q = beyond(a);
        const auto on_x = (q.x >= q.y) & (q.x >= q.z);
        const S zero = {}, one = zero + 1, minus = zero - 1;
        const S sx = a.x < 0 ? minus : one, sy = a.y < 0 ? minus : one, sz = a.z < 0 ? minus : one;
        return axes * Vector<S>{on_x ? sx : zero, on_x ? zero : q.y >= q.z ? sy : zero,
                                on_x ? zero : q.y >= q.z ? zero : sz};
    }
    LANES_MEMBER Vector<S> turning(const Vector<S>&, const Vector<S>&, const Vector<S>&) const { return {}; }
};
template <class S> LANES_INLINE auto lift(const Box<S>& a) -> Box<decltype(lift(a.half.x))> {
    return {lift(a.center), lift(a.half), lift(a.axes)};
}

}  // namespace gradsim
