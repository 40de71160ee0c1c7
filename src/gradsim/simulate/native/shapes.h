// Static shapes as signed distances in the frame of a body; ../forces/shapes.py defines the parameters and the portable
// functions, which are the reference.
#pragma once
#include "space.h"

namespace gradsim {

// The frame of a body: a point x in world coordinates is R'(x - p) + center in body coordinates.
template <class S> struct Frame {
    Matrix<S> R;
    Vector<S> p, center;
    LANES_MEMBER Vector<S> point(const Vector<S>& x) const { return transpose(R) * (x - p) + center; }
};

// The first and the second_vector vector of a shape's parameters.
template <class S> LANES_INLINE Vector<S> first_vector(const S* c) {
    return {c[shape_row::x], c[shape_row::y], c[shape_row::z]};
}
template <class S> LANES_INLINE Vector<S> second_vector(const S* c) {
    return {c[shape_row::bx], c[shape_row::by], c[shape_row::bz]};
}

// Each kind has the signed `distance` and, where that is negative, its gradient `normal` and the product `hessian` of
// its Hessian with a; `outer_normal` and `outer_hessian` are the same at all points.
template <class S> struct Plane {
    enum { kind = shape_kind::plane };
    Vector<S> n;
    S offset;
    LANES_MEMBER Plane(const Vector<S>& n_, S offset_) : n(n_), offset(offset_) {}
    LANES_MEMBER Plane(const S* c, const Frame<S>& frame) {
        const Vector<S> up = first_vector(c);
        n = transpose(frame.R) * up;
        offset = c[shape_row::radius] - dot(up, frame.p) + dot(n, frame.center);
    }
    LANES_MEMBER S distance(const Vector<S>& x) const { return dot(n, x) - offset; }
    LANES_MEMBER Vector<S> normal(const Vector<S>&) const { return n; }
    LANES_MEMBER Vector<S> hessian(const Vector<S>&, const Vector<S>&, const Vector<S>&) const { return {}; }
    LANES_MEMBER Vector<S> outer_normal(const Vector<S>&) const { return n; }
    LANES_MEMBER Vector<S> outer_hessian(const Vector<S>&, const Vector<S>&, const Vector<S>&) const { return {}; }
};
template <class S> LANES_INLINE auto broadcast(const Plane<S>& a) -> Plane<decltype(broadcast(a.offset))> {
    return {broadcast(a.n), broadcast(a.offset)};
}

// A capsule; a sphere is a capsule whose axis is zero.
template <class S> struct Capsule {
    enum { kind = shape_kind::capsule };
    Vector<S> first, axis;
    S per_axis2, radius;
    LANES_MEMBER Capsule(const Vector<S>& f, const Vector<S>& a, S s, S r)
        : first(f), axis(a), per_axis2(s), radius(r) {}
    LANES_MEMBER Capsule(const S* c, const Frame<S>& frame) {
        first = frame.point(first_vector(c));
        axis = transpose(frame.R) * (second_vector(c) - first_vector(c));
        per_axis2 = 1 / (dot(axis, axis) + (S{} + 1e-30f));
        radius = c[shape_row::radius];
    }
    LANES_MEMBER S axis_parameter(const Vector<S>& x) const {
        return saturate(dot(x - first, axis) * per_axis2);
    }
    LANES_MEMBER Vector<S> offset_from_axis(const Vector<S>& x) const { return x - first - axis * axis_parameter(x); }
    LANES_MEMBER S distance(const Vector<S>& x) const { return length(offset_from_axis(x)) - radius; }
    LANES_MEMBER Vector<S> normal(const Vector<S>& x) const {
        const Vector<S> a = offset_from_axis(x);
        return a * (1 / (length(a) + (S{} + 1e-30f)));
    }
    LANES_MEMBER Vector<S> hessian(const Vector<S>& x, const Vector<S>& n, const Vector<S>& a) const {
        const S t = axis_parameter(x), along = dot(axis, a) * per_axis2;
        const Vector<S> flat = n * dot(n, a) + axis * (((t > 0) & (t < 1)) ? along : S{});
        return (a - flat) * (1 / (length(offset_from_axis(x)) + (S{} + 1e-30f)));
    }
    LANES_MEMBER Vector<S> outer_normal(const Vector<S>& x) const { return normal(x); }
    LANES_MEMBER Vector<S> outer_hessian(const Vector<S>& x, const Vector<S>& n, const Vector<S>& a) const {
        return hessian(x, n, a);
    }
};
template <class S> LANES_INLINE auto broadcast(const Capsule<S>& a) -> Capsule<decltype(broadcast(a.radius))> {
    return {broadcast(a.first), broadcast(a.axis), broadcast(a.per_axis2), broadcast(a.radius)};
}

template <class S> struct Box {
    enum { kind = shape_kind::box };
    Vector<S> center, half;
    Matrix<S> axes;
    LANES_MEMBER Box(const Vector<S>& c, const Vector<S>& h, const Matrix<S>& r) : center(c), half(h), axes(r) {}
    LANES_MEMBER Box(const S* c, const Frame<S>& frame) {
        center = frame.point(first_vector(c));
        half = second_vector(c);
        const Quaternion<S> q = {{c[shape_row::qx], c[shape_row::qy], c[shape_row::qz]}, c[shape_row::qw]};
        axes = transpose(frame.R) * rotation_matrix(q);
    }
    // Signed distances to the planes of the nearest faces.
    LANES_MEMBER Vector<S> face_distances(const Vector<S>& a) const {
        return {magnitude(a.x) - half.x, magnitude(a.y) - half.y, magnitude(a.z) - half.z};
    }
    LANES_MEMBER S distance(const Vector<S>& x) const {
        const Vector<S> q = face_distances(transpose(axes) * (x - center));
        const S largest = larger(larger(q.x, q.y), q.z), zero = {};
        return largest > 0 ? length(Vector<S>{larger(q.x, zero), larger(q.y, zero), larger(q.z, zero)}) : largest;
    }
    LANES_MEMBER Vector<S> normal(const Vector<S>& x) const {
        const Vector<S> a = transpose(axes) * (x - center), q = face_distances(a);
        const auto on_x = (q.x >= q.y) & (q.x >= q.z);
        const S zero = {}, one = zero + 1, minus = zero - 1;
        const S sx = a.x < 0 ? minus : one, sy = a.y < 0 ? minus : one, sz = a.z < 0 ? minus : one;
        return axes * Vector<S>{on_x ? sx : zero, on_x ? zero : q.y >= q.z ? sy : zero,
                                on_x ? zero : q.y >= q.z ? zero : sz};
    }
    LANES_MEMBER Vector<S> hessian(const Vector<S>&, const Vector<S>&, const Vector<S>&) const { return {}; }
    LANES_MEMBER Vector<S> outer_normal(const Vector<S>& x) const {
        const Vector<S> a = transpose(axes) * (x - center), q = face_distances(a), inner = normal(x);
        const S zero = {}, px = larger(q.x, zero), py = larger(q.y, zero), pz = larger(q.z, zero);
        const S gap = length(Vector<S>{px, py, pz}), per_gap = 1 / (gap + (S{} + 1e-30f));
        const Vector<S> outer = axes * Vector<S>{(a.x < 0 ? -px : px) * per_gap, (a.y < 0 ? -py : py) * per_gap,
                                                 (a.z < 0 ? -pz : pz) * per_gap};
        return {gap > 0 ? outer.x : inner.x, gap > 0 ? outer.y : inner.y, gap > 0 ? outer.z : inner.z};
    }
    LANES_MEMBER Vector<S> outer_hessian(const Vector<S>& x, const Vector<S>& n, const Vector<S>& b) const {
        const Vector<S> q = face_distances(transpose(axes) * (x - center)), local = transpose(axes) * b;
        const S zero = {}, gap = length(Vector<S>{larger(q.x, zero), larger(q.y, zero), larger(q.z, zero)});
        const Vector<S> outward = {q.x > 0 ? local.x : zero, q.y > 0 ? local.y : zero, q.z > 0 ? local.z : zero};
        const S per_gap = gap > 0 ? 1 / (gap + (S{} + 1e-30f)) : zero;
        return (axes * outward - n * dot(n, b)) * per_gap;
    }
};
template <class S> LANES_INLINE auto broadcast(const Box<S>& a) -> Box<decltype(broadcast(a.half.x))> {
    return {broadcast(a.center), broadcast(a.half), broadcast(a.axes)};
}

// A shape whose kind is chosen at run time, for code that is compiled once for all kinds.
template <class S> struct AnyShape {
    const void* shape;
    int kind;
    template <class Shape> LANES_MEMBER AnyShape(const Shape& s) : shape(&s), kind(Shape::kind) {}
    template <class F> LANES_MEMBER auto with(F call) const {
        if (kind == shape_kind::plane) return call(*(const Plane<S>*)shape);
        if (kind == shape_kind::box) return call(*(const Box<S>*)shape);
        return call(*(const Capsule<S>*)shape);
    }
    LANES_MEMBER S distance(const Vector<S>& x) const {
        return with([&](const auto& s) LANES_LAMBDA { return s.distance(x); });
    }
    LANES_MEMBER Vector<S> normal(const Vector<S>& x) const {
        return with([&](const auto& s) LANES_LAMBDA { return s.normal(x); });
    }
    LANES_MEMBER Vector<S> hessian(const Vector<S>& x, const Vector<S>& n, const Vector<S>& a) const {
        return with([&](const auto& s) LANES_LAMBDA { return s.hessian(x, n, a); });
    }
    LANES_MEMBER Vector<S> outer_normal(const Vector<S>& x) const {
        return with([&](const auto& s) LANES_LAMBDA { return s.outer_normal(x); });
    }
    LANES_MEMBER Vector<S> outer_hessian(const Vector<S>& x, const Vector<S>& n, const Vector<S>& a) const {
        return with([&](const auto& s) LANES_LAMBDA { return s.outer_hessian(x, n, a); });
    }
};

}  // namespace gradsim
