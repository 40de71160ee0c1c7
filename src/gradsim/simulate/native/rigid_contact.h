// Contact of a rigid body's points with one shape, in the body's axes, and its adjoint.
// The portable kernels of ../forces/rigid_contact.py are the reference.
#pragma once
#include "contact_law.h"
#include "shapes.h"

namespace gradsim {

// Blocks of `width` points: x, y, z; an offset of the depth, far below 0 in unused lanes; center and radius of a
// bounding sphere.
template <class T> struct Points {
    const T* blocks;
    int block_count, count;
    enum { width = LaneTypes<T>::width };
    LANES_MEMBER const T* block(int k) const { return blocks + (long long)k * sizes::point_block_rows * width; }
    LANES_MEMBER Vector<T> point(int k) const {
        const T* b = block(k / width) + k % width;
        return {b[0], b[width], b[2 * width]};
    }
};
// Factors from mesh to body coordinates. A body without a size of its own needs no products.
template <class L> struct Scale {
    Vector<L> factors;
    L largest;
    LANES_MEMBER Vector<L> point(const Vector<L>& x) const { return multiply(x, factors); }
    LANES_MEMBER L length(const L& a) const { return a * largest; }
};
template <class L> struct Unscaled {
    LANES_MEMBER const Vector<L>& point(const Vector<L>& x) const { return x; }
    LANES_MEMBER const L& length(const L& a) const { return a; }
};
template <class A> struct is_scaled {
    enum { value = false };
};
template <class L> struct is_scaled<Scale<L>> {
    enum { value = true };
};

// Calls visit(x, offset) for lanes that may lie in the shape: points of one body (S = T), or the same point of several
// worlds (S = Lanes<T>). `scale` is a Scale or Unscaled.
template <class T, class S, class Shape, class A, class F>
LANES_INLINE void for_each_point(const Points<T>& points, const Shape& shape, const A& scale, F visit) {
    typedef Lanes<T> L;
    constexpr int width = LaneTypes<T>::width;
    for (int k = 0; k < points.block_count; k++) {
        const T* b = points.block(k);
        if constexpr (sizeof(S) == sizeof(T)) {
            visit(scale.point(Vector<L>{load(b), load(b + width), load(b + 2 * width)}), load(b + 3 * width));
        } else {
            const T* sphere = b + 4 * width;
            const Vector<L> center = scale.point(Vector<L>{splat(sphere[0]), splat(sphere[1]), splat(sphere[2])});
            if (points.block_count > 1 && !any(shape.distance(center) < scale.length(splat(sphere[3])))) continue;
            const int remaining = points.count - k * width;
            for (int i = 0; i < (remaining < width ? remaining : width); i++)
                visit(scale.point(Vector<L>{splat(b[i]), splat(b[i + width]), splat(b[i + 2 * width])}), L{});
        }
    }
}

// Motion of a body: center of mass, velocity and spin in the body's axes.
template <class L> struct Motion {
    Vector<L> center, v, w;
};

template <class T, class S, class Shape, class A>
LANES_INLINE bool add_rigid_contact(const Points<T>& points, const Shape& shape, const A& scale,
                                    const ContactLaw<Lanes<T>>& law, const Motion<Lanes<T>>& body,
                                    Vector<Lanes<T>>& force, Vector<Lanes<T>>& torque) {
    typedef Lanes<T> L;
    bool in_contact = false;
    for_each_point<T, S>(points, shape, scale, [&](const Vector<L>& x, L offset) LANES_LAMBDA {
        const L depth = offset - shape.distance(x);
        if (!any(depth > 0)) return;
        in_contact = true;
        const Vector<L> arm = x - body.center, u = body.v + cross(body.w, arm);
        const Vector<L> f = contact_force<T>(law, larger(depth, L{}), shape.normal(x), u);
        force += f;
        torque += cross(arm, f);
    });
    return in_contact;
}

// Sums over the points, in the body's axes.
template <class L> struct RigidContactAdjoint {
    Vector<L> force, torque;  // not adjoints
    Vector<L> v, w;
    Vector<L> x, rotation;  // of the body's position, and of a rotation about it
    Vector<L> normal;       // of a plane's normal, and of the distances to it
    L distance;
    Vector<L> scale;  // times the scale
    L law[contact_row::count];
};

template <class T, class S, class Shape, class A>
LANES_INLINE bool add_rigid_contact_adjoint(const Points<T>& points, const Shape& shape, const A& scale,
                                            const ContactLaw<Lanes<T>>& law, const Motion<Lanes<T>>& body,
                                            const Vector<Lanes<T>>& force_adj, const Vector<Lanes<T>>& torque_adj,
                                            bool plane, RigidContactAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    bool in_contact = false;
    for_each_point<T, S>(points, shape, scale, [&](const Vector<L>& x, L offset) LANES_LAMBDA {
        const L depth = offset - shape.distance(x);
        if (!any(depth > 0)) return;
        in_contact = true;
        const Vector<L> arm = x - body.center, u = body.v + cross(body.w, arm), n = shape.normal(x);
        const Vector<L> b = force_adj + cross(torque_adj, arm);
        const ContactAdjoint<L> adj = contact_force_adjoint<T>(law, b, larger(depth, L{}), n, u);
        sum.force += adj.force;
        sum.torque += cross(arm, adj.force);
        sum.v += adj.v;
        sum.w += cross(arm, adj.v);
        for (int k = 0; k < contact_row::count; k++) sum.law[k] += adj.law[k];
        if (plane) {
            sum.normal += adj.n - arm * adj.c;
            sum.distance -= adj.c;
        } else {
            const Vector<L> x_adj = shape.hessian(x, n, adj.n) - n * adj.c;
            sum.x += x_adj;
            sum.rotation += cross(arm, x_adj) + cross(adj.n, n);
        }
        if constexpr (is_scaled<A>::value) {
            const Vector<L> x_adj = shape.hessian(x, n, adj.n) - n * adj.c;
            sum.scale += multiply(x, x_adj + cross(adj.v, body.w) + cross(adj.force, torque_adj));
        }
    });
    return in_contact;
}

}  // namespace gradsim
