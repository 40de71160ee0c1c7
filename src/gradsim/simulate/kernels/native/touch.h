// Contact of a rigid body's points with one shape, in the body's axes, and its adjoint.
#pragma once
#include "law.h"
#include "shapes.h"

namespace gradsim {

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
    each_point<T, S>(points, shape, [&](const Vector<L>& x, L limit) LANES_LAMBDA {
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
    each_point<T, S>(points, shape, [&](const Vector<L>& x, L limit) LANES_LAMBDA {
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
