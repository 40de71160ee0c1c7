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

// The motion of a shape: velocity of its first point, and angular velocity.
template <class S> struct ShapeMotion {
    Vector<S> origin, v, w;
    Quaternion<S> q, rate;
    LANES_MEMBER ShapeMotion(const S* c) {
        origin = first_vector(c);
        v = Vector<S>{c[shape_row::vx], c[shape_row::vy], c[shape_row::vz]} +
            Vector<S>{c[shape_row::sx], c[shape_row::sy], c[shape_row::sz]};
        q = {{c[shape_row::qx], c[shape_row::qy], c[shape_row::qz]}, c[shape_row::qw]};
        rate = {{c[shape_row::rx], c[shape_row::ry], c[shape_row::rz]}, c[shape_row::rw]};
        w = (rate * conjugate(q)).a * (2 / (dot(q.a, q.a) + q.w * q.w));
    }
    LANES_MEMBER ShapeMotion(const Vector<S>& o, const Vector<S>& v_, const Vector<S>& w_) : origin(o), v(v_), w(w_) {}
    LANES_MEMBER Vector<S> velocity(const Vector<S>& x) const { return v + cross(w, x - origin); }
};
template <class S> LANES_INLINE auto broadcast(const ShapeMotion<S>& a) -> ShapeMotion<decltype(broadcast(a.v.x))> {
    return {broadcast(a.origin), broadcast(a.v), broadcast(a.w)};
}

// Sums of the adjoints of a shape's parameters: vectors and radius as in the table, a rotation about the first point,
// its velocity, and the angular velocity.
template <class S> struct ShapeAdjoint {
    Vector<S> first, second, rotation, v, w;
    S radius;
    // Adds the adjoint of a velocity at x.
    LANES_MEMBER void add_velocity(const ShapeMotion<S>& motion, const Vector<S>& x, const Vector<S>& a) {
        v += a;
        w += cross(x - motion.origin, a);
        first -= cross(a, motion.w);
    }
    // Calls add(row, value) for every row of the table; `c` is the shape's column.
    template <class F> LANES_MEMBER void for_each_row(const S* c, int kind, bool moves, F add) const {
        auto add3 = [&](int row, const Vector<S>& a) LANES_LAMBDA { add(row, a.x), add(row + 1, a.y), add(row + 2, a.z); };
        auto add4 = [&](int row, const Quaternion<S>& a) LANES_LAMBDA { add3(row, a.a), add(row + 3, a.w); };
        add3(shape_row::x, first), add(shape_row::radius, radius);
        if (kind == shape_kind::plane && !moves) return;
        add3(shape_row::bx, second);
        const ShapeMotion<S> motion(c);
        const S per = 2 / (dot(motion.q.a, motion.q.a) + motion.q.w * motion.q.w);
        Quaternion<S> q = scaled(rotation * motion.q, per);
        if (moves) {
            add3(shape_row::vx, v), add3(shape_row::sx, v);
            add4(shape_row::rx, scaled(w * motion.q, per));
            q = q + scaled(w * motion.rate, -per) + scaled(motion.q, -per * dot(w, motion.w));
        }
        add4(shape_row::qx, q);
    }
};
template <class L, class S> LANES_INLINE void sum_lanes(const ShapeAdjoint<L>& a, ShapeAdjoint<S>& sum) {
    sum_lanes(a.first, sum.first), sum_lanes(a.second, sum.second), sum_lanes(a.rotation, sum.rotation);
    sum_lanes(a.v, sum.v), sum_lanes(a.w, sum.w), sum_lanes(a.radius, sum.radius);
}

// Each kind has the signed `distance` and, where that is negative, its gradient `normal` and the product `hessian` of
// its Hessian with a; `outer_normal` and `outer_hessian` are the same at all points. `add_adjoint` adds the adjoints of
// its parameters, for those of depth c, normal n and point x.
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
    LANES_MEMBER void add_adjoint(const Vector<S>& x, const Vector<S>&, S c_adj, const Vector<S>& n_adj,
                                  const Vector<S>&, ShapeAdjoint<S>& sum) const {
        sum.first += n_adj - x * c_adj;
        sum.radius += c_adj;
    }
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
    LANES_MEMBER void add_adjoint(const Vector<S>& x, const Vector<S>& n, S c_adj, const Vector<S>& n_adj,
                                  const Vector<S>& x_adj, ShapeAdjoint<S>& sum) const {
        const S t = axis_parameter(x), turn = dot(axis, n_adj) * per_axis2;
        const Vector<S> lever = n * (((t > 0) & (t < 1)) ? turn : S{});
        sum.first += lever - x_adj * (1 - t);
        sum.second -= lever + x_adj * t;
        sum.radius += c_adj;
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
        axes = transpose(frame.R) * rotation_matrix(normalized(q));
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
    LANES_MEMBER void add_adjoint(const Vector<S>& x, const Vector<S>& n, S, const Vector<S>& n_adj,
                                  const Vector<S>& x_adj, ShapeAdjoint<S>& sum) const {
        const Vector<S> arm = x - center, a = transpose(axes) * arm, local = transpose(axes) * x_adj;
        sum.first -= x_adj;
        sum.second -= Vector<S>{a.x < 0 ? -local.x : local.x, a.y < 0 ? -local.y : local.y, a.z < 0 ? -local.z : local.z};
        sum.rotation += cross(n, n_adj) - cross(arm, x_adj);
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
    LANES_MEMBER void add_adjoint(const Vector<S>& x, const Vector<S>& n, S c_adj, const Vector<S>& n_adj,
                                  const Vector<S>& x_adj, ShapeAdjoint<S>& sum) const {
        with([&](const auto& s) LANES_LAMBDA { s.add_adjoint(x, n, c_adj, n_adj, x_adj, sum); });
    }
};

}  // namespace gradsim
