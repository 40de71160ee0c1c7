// Contact of a rigid body's points with static shapes, seen from the body, and its adjoint, `width` contacts at a time.
// The law, the shapes and their parameters stand in ../law.py and ../shapes.py, whose portable functions are the
// reference. Points that do not touch have depth 0 here, where force and gradients vanish.
#pragma once
#include "space.h"

namespace gradsim {

#define TOUCH_LAMBDA __attribute__((always_inline))

enum { PLANE, SPHERE, CAPSULE, BOX };  // as in ../shapes.py

// --- the law ---------------------------------------------------------------------------------------------------------

template <class S> struct Law {
    S ke, kd, kf, mu, delta, per_delta;
    bool printed;  // some have delta = 0
};
template <class S> LANES_INLINE auto lift(const Law<S>& a) -> Law<decltype(lift(a.ke))> {
    return {lift(a.ke), lift(a.kd), lift(a.kf), lift(a.mu), lift(a.delta), lift(a.per_delta), a.printed};
}

// Normal force: elastic lever ke (the law's parabola and line in one, with t = min(c / delta, 1)) and damping.
template <class L> struct Normal {
    L t, lever, blend, vn, elastic, drag, part, force;
    template <class T> LANES_MEMBER Normal(const Law<L>& law, L c, const Vector<L>& n, const Vector<L>& u, T) {
        t = __builtin_elementwise_min(c * law.per_delta, splat(T(1)));
        lever = t * (c - T(0.5) * law.delta * t);
        blend = t * t * (T(3) - T(2) * t);
        vn = dot(n, u);
        elastic = law.ke * lever;
        drag = -law.kd * blend * vn;
        auto out = drag < 0;
        if (law.printed) out &= law.delta > 0;
        part = out ? elastic / (elastic - drag) : splat(T(1));
        force = out ? elastic * part : elastic + drag;
        if (law.printed) force = larger(force, L{});
    }
};

template <class T> LANES_INLINE Vector<Lanes<T>> law_force(const Law<Lanes<T>>& law, Lanes<T> c,
                                                           const Vector<Lanes<T>>& n, const Vector<Lanes<T>>& v) {
    typedef Lanes<T> L;
    const Normal<L> normal(law, c, n, v, T(0));
    const Vector<L> u = v - n * normal.vn;
    const L slip2 = dot(u, u), a = law.mu * normal.force;
    L k = a * law.kf * inverse_root(law.kf * law.kf * slip2 + a * a + T(1e-30));
    if (law.printed) {
        const L slip = square_root(slip2 + T(1e-30));
        k = law.delta > 0 ? k : law.kf * slip > a ? a / slip : law.kf;
    }
    return n * normal.force - u * k;
}

// What an adjoint b of the force means for all it depends on; also the force itself.
template <class L> struct LawAdjoint {
    Vector<L> force, n, v;
    L c, ke, kd, kf, mu, delta;
};
template <class T>
LANES_INLINE LawAdjoint<Lanes<T>> law_adjoint(const Law<Lanes<T>>& law, const Vector<Lanes<T>>& b, Lanes<T> c,
                                              const Vector<Lanes<T>>& n, const Vector<Lanes<T>>& v) {
    typedef Lanes<T> L;
    const Normal<L> normal(law, c, n, v, T(0));
    const L fn = normal.force, vn = normal.vn, t = normal.t;
    const auto live = fn > 0;
    const Vector<L> u = v - n * vn;
    const L slip2 = dot(u, u), a = law.mu * fn;
    // Friction -k u: k and its derivatives in a, in kf and in u^2.
    L r = inverse_root(law.kf * law.kf * slip2 + a * a + T(1e-30));
    r = live ? r : L{};
    const L kr = law.kf * r, ar = a * r;
    L k = a * kr, k_a = kr * kr * kr * slip2, k_kf = ar * ar * ar, k_slip2 = T(-0.5) * k * kr * kr;
    if (law.printed) {
        const L slip = square_root(slip2 + T(1e-30)), zero = {};
        const auto smooth = law.delta > 0;
        const auto slides = law.kf * slip > a;
        const L most = a / slip;
        k = smooth ? k : live ? (slides ? most : law.kf) : zero;
        k_a = smooth ? k_a : (live & slides) ? T(1) / slip : zero;
        k_kf = smooth ? k_kf : (live & ~slides) ? splat(T(1)) : zero;
        k_slip2 = smooth ? k_slip2 : (live & slides) ? T(-0.5) * most / (slip2 + T(1e-30)) : zero;
    }
    const L k_adj = -dot(b, u);
    const Vector<L> u_adj = u * (T(2) * k_adj * k_slip2) - b * k;
    L fn_adj = dot(b, n) + k_adj * k_a * law.mu;
    fn_adj = live ? fn_adj : L{};
    const L part = live ? normal.part : L{};
    const L elastic_adj = fn_adj * part * (T(2) - part), drag_adj = fn_adj * part * part;
    const L vn_adj = -drag_adj * law.kd * normal.blend - dot(u_adj, n);
    const L blend_adj = -drag_adj * law.kd * vn, blend_c = T(6) * t * (T(1) - t) * law.per_delta;
    LawAdjoint<L> adj;
    adj.force = n * fn - u * k;
    adj.c = elastic_adj * law.ke * t + blend_adj * blend_c;
    adj.n = b * fn - u_adj * vn + v * vn_adj;
    adj.v = u_adj + n * vn_adj;
    adj.ke = elastic_adj * normal.lever;
    adj.kd = -drag_adj * normal.blend * vn;
    adj.kf = k_adj * k_kf;
    adj.mu = k_adj * k_a * fn;
    adj.delta = T(-0.5) * elastic_adj * law.ke * t * t - blend_adj * blend_c * t;
    if (law.printed) adj.delta = law.delta > 0 ? adj.delta : L{};
    return adj;
}

// --- shapes ----------------------------------------------------------------------------------------------------------

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

// --- the points of a body against one shape --------------------------------------------------------------------------

// Blocks of `width` points: x, y, z; 0, or far below 0 where a lane only fills its block; centre and radius of a ball
// around them.
enum { BLOCK_ROWS = 5 };
template <class T> struct Points {
    const T* blocks;
    int block_count, count;
    enum { width = LaneTypes<T>::width };
    LANES_MEMBER const T* block(int k) const { return blocks + (long long)k * BLOCK_ROWS * width; }
    LANES_MEMBER Vector<T> point(int k) const {
        const T* b = block(k / width) + k % width;
        return {b[0], b[width], b[2 * width]};
    }
};
// Calls visit(x, limit) with lanes that may lie in the shape: points of one body (S = T), or the same point of several
// worlds (S = Lanes<T>).
template <class T, class S, class Shape, class F>
LANES_INLINE void each_point(const Points<T>& points, const Shape& shape, F visit) {
    typedef Lanes<T> L;
    constexpr int width = LaneTypes<T>::width;
    for (int k = 0; k < points.block_count; k++) {
        const T* b = points.block(k);
        if constexpr (sizeof(S) == sizeof(T)) {
            visit(Vector<L>{load(b), load(b + width), load(b + 2 * width)}, load(b + 3 * width));
        } else {
            const T* ball = b + 4 * width;
            const Vector<L> middle = {splat(ball[0]), splat(ball[1]), splat(ball[2])};
            if (points.block_count > 1 && !any(shape.gap(middle) < splat(ball[3]))) continue;
            const int left = points.count - k * width;
            for (int i = 0; i < (left < width ? left : width); i++)
                visit(Vector<L>{splat(b[i]), splat(b[i + width]), splat(b[i + 2 * width])}, L{});
        }
    }
}

// What the points of a body do: their motion in the body's axes, as lanes.
template <class L> struct Motion {
    Vector<L> center, v, w;
};

template <class T, class S, class Shape>
LANES_INLINE bool add_touch(const Points<T>& points, const Shape& shape, const Law<Lanes<T>>& law,
                            const Motion<Lanes<T>>& body, Vector<Lanes<T>>& force, Vector<Lanes<T>>& torque) {
    typedef Lanes<T> L;
    bool touched = false;
    each_point<T, S>(points, shape, [&](const Vector<L>& x, L limit) TOUCH_LAMBDA {
        const L depth = limit - shape.gap(x);
        if (!any(depth > 0)) return;
        touched = true;
        const Vector<L> arm = x - body.center, u = body.v + cross(body.w, arm);
        const Vector<L> push = law_force<T>(law, larger(depth, L{}), shape.normal(x), u);
        force += push;
        torque += cross(arm, push);
    });
    return touched;
}

// Sums over the points, in the body's axes.
template <class L> struct TouchAdjoint {
    Vector<L> force, torque;  // not adjoints
    Vector<L> v, w;
    Vector<L> x, turn;  // of the place, and of a turning about it
    Vector<L> normal;   // of a plane's own normal, and of its gaps
    L gap;
    L law[5];
};

template <class T, class S, class Shape>
LANES_INLINE bool add_touch_adjoint(const Points<T>& points, const Shape& shape, const Law<Lanes<T>>& law,
                                    const Motion<Lanes<T>>& body, const Vector<Lanes<T>>& force_adj,
                                    const Vector<Lanes<T>>& torque_adj, bool plane, TouchAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    bool touched = false;
    each_point<T, S>(points, shape, [&](const Vector<L>& x, L limit) TOUCH_LAMBDA {
        const L depth = limit - shape.gap(x);
        if (!any(depth > 0)) return;
        touched = true;
        const Vector<L> arm = x - body.center, u = body.v + cross(body.w, arm), n = shape.normal(x);
        const Vector<L> b = force_adj + cross(torque_adj, arm);
        const LawAdjoint<L> adj = law_adjoint<T>(law, b, larger(depth, L{}), n, u);
        sum.force += adj.force;
        sum.torque += cross(arm, adj.force);
        sum.v += adj.v;
        sum.w += cross(arm, adj.v);
        sum.law[0] += adj.ke, sum.law[1] += adj.kd, sum.law[2] += adj.kf, sum.law[3] += adj.mu;
        sum.law[4] += adj.delta;
        if (plane) {
            sum.normal += adj.n - arm * adj.c;
            sum.gap -= adj.c;
        } else {
            const Vector<L> x_adj = shape.turning(x, n, adj.n) - n * adj.c;
            sum.x += x_adj;
            sum.turn += cross(arm, x_adj) + cross(adj.n, n);
        }
    });
    return touched;
}

}  // namespace gradsim
