// Contact of a rigid body's points with one shape, in the body's axes, and its adjoint.
// The portable kernels of ../forces/rigid_contact.py are the reference.
#pragma once
#include "contact_anchors.h"
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
// The surface of a body: points in its coordinates, the depth and the contact point of one, and the shape's normal
// there. A mesh is scaled by factors, or not; a ball has one point, its center, and touches at radius from it.
template <class L> struct SizedMesh;
template <class L> struct Mesh {
    enum { is_scaled = false, is_ball = false };
    LANES_MEMBER SizedMesh<L> sized() const;  // the same with factors of 1
    LANES_MEMBER const Vector<L>& point(const Vector<L>& x) const { return x; }
    LANES_MEMBER const L& length(const L& a) const { return a; }
    LANES_MEMBER L depth(const L& offset, const L& distance) const { return offset - distance; }
    LANES_MEMBER const Vector<L>& contact_arm(const Vector<L>& arm, const Vector<L>&) const { return arm; }
    template <class Shape> LANES_MEMBER Vector<L> normal(const Shape& shape, const Vector<L>& x) const {
        return shape.normal(x);
    }
    template <class Shape>
    LANES_MEMBER Vector<L> hessian(const Shape& shape, const Vector<L>& x, const Vector<L>& n, const Vector<L>& a) const {
        return shape.hessian(x, n, a);
    }
};
template <class L> struct SizedMesh : Mesh<L> {
    enum { is_scaled = true };
    Vector<L> factors;
    L largest;
    LANES_MEMBER SizedMesh(const Vector<L>& f, const L& a) : factors(f), largest(a) {}
    LANES_MEMBER const SizedMesh& sized() const { return *this; }
    LANES_MEMBER Vector<L> point(const Vector<L>& x) const { return multiply(x, factors); }
    LANES_MEMBER L length(const L& a) const { return a * largest; }
};
template <class L> LANES_MEMBER SizedMesh<L> Mesh<L>::sized() const {
    const L one = L{} + 1;
    return {{one, one, one}, one};
}
template <class L> struct Ball : Mesh<L> {
    enum { is_ball = true };
    L radius;
    LANES_MEMBER Ball(const L& r) : radius(r) {}
    LANES_MEMBER const Ball& sized() const { return *this; }
    LANES_MEMBER L depth(const L& offset, const L& distance) const { return offset + (radius - distance); }
    LANES_MEMBER Vector<L> contact_arm(const Vector<L>& arm, const Vector<L>& n) const { return arm - n * radius; }
    template <class Shape> LANES_MEMBER Vector<L> normal(const Shape& shape, const Vector<L>& x) const {
        return shape.outer_normal(x);
    }
    template <class Shape>
    LANES_MEMBER Vector<L> hessian(const Shape& shape, const Vector<L>& x, const Vector<L>& n, const Vector<L>& a) const {
        return shape.outer_hessian(x, n, a);
    }
};

// Calls visit(x, offset, k) for lanes that may lie in the shape: block k of one body's points (S = T), or point k in
// several worlds (S = Lanes<T>).
template <class T, class S, class Shape, class A, class F>
LANES_INLINE void for_each_point(const Points<T>& points, const Shape& shape, const A& surface, F visit) {
    typedef Lanes<T> L;
    constexpr int width = LaneTypes<T>::width;
    for (int k = 0; k < points.block_count; k++) {
        const T* b = points.block(k);
        if constexpr (sizeof(S) == sizeof(T)) {
            visit(surface.point(Vector<L>{load(b), load(b + width), load(b + 2 * width)}), load(b + 3 * width), k);
        } else {
            const T* sphere = b + 4 * width;
            const Vector<L> center = surface.point(Vector<L>{splat(sphere[0]), splat(sphere[1]), splat(sphere[2])});
            if (points.block_count > 1 && !any(shape.distance(center) < surface.length(splat(sphere[3])))) continue;
            const int remaining = points.count - k * width;
            for (int i = 0; i < (remaining < width ? remaining : width); i++)
                visit(surface.point(Vector<L>{splat(b[i]), splat(b[i + width]), splat(b[i + 2 * width])}), L{},
                      k * width + i);
        }
    }
}

// Motion of a body: center of mass, velocity and spin in the body's axes; and its inverse mass.
template <class L> struct Motion {
    Vector<L> center, v, w;
    L inverse_mass;
};
template <class S> LANES_INLINE auto broadcast(const Motion<S>& a) -> Motion<decltype(broadcast(a.inverse_mass))> {
    return {broadcast(a.center), broadcast(a.v), broadcast(a.w), broadcast(a.inverse_mass)};
}

// Elastic energy of all points in a shape, the same in all lanes that hold points of one body.
template <class T, class S, class Shape, class A>
LANES_INLINE Lanes<T> elastic_energy(const Points<T>& points, const Shape& shape, const A& surface,
                                     const ContactLaw<Lanes<T>>& law) {
    typedef Lanes<T> L;
    L sum = {};
    for_each_point<T, S>(points, shape, surface, [&](const Vector<L>& x, L offset, int) LANES_LAMBDA {
        const L c = larger(surface.depth(offset, shape.distance(x)), L{});
        sum += law.ke * energy_lever(c, smaller(c * law.per_delta, splat(T(1))), law.delta, T(0));
    });
    S total;
    sum_lanes(sum, total);
    return broadcast(total);
}

template <class T, class S, class Shape, class A>
LANES_INLINE bool add_rigid_contact(const Points<T>& points, const Shape& shape, const A& surface,
                                    const ContactLaw<Lanes<T>>& law, const Motion<Lanes<T>>& body,
                                    const Anchors<T>* anchors, Vector<Lanes<T>>& force, Vector<Lanes<T>>& torque) {
    typedef Lanes<T> L;
    bool in_contact = false;
    L stored = {};
    if (law.restitution) stored = T(2) * elastic_energy<T, S>(points, shape, surface, law) * body.inverse_mass;
    for_each_point<T, S>(points, shape, surface, [&](const Vector<L>& x, L offset, int k) LANES_LAMBDA {
        const L depth = surface.depth(offset, shape.distance(x));
        if (!any(depth > 0)) return;
        in_contact = true;
        const Vector<L> n = surface.normal(shape, x), arm = surface.contact_arm(x - body.center, n);
        const Vector<L> u = body.v + cross(body.w, arm);
        const L c = larger(depth, L{});
        const Vector<L> f = law.sticking ? anchors->force(law, k, c, n, u, stored)
                                         : contact_force<T>(law, c, n, u, stored);
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
    L radius, inverse_mass, stored;
    Vector<L> anchors;  // of a rotation of the body's axes against the anchors
    L law[contact_gradients];
    ShapeAdjoint<L>* shape;  // of the shape's parameters; null if they are constant or those of a plane

    // Adds the adjoints of depth and normal at the point x.
    template <class Shape, class A>
    LANES_MEMBER void add_depth(const Shape& shape, const A& surface, bool plane, const Vector<L>& x,
                                const Vector<L>& arm, const Vector<L>& n, const L& c_adj, const Vector<L>& n_adj) {
        if constexpr (A::is_ball) radius += c_adj;
        if (plane) {
            normal += n_adj - arm * c_adj;
            distance -= c_adj;
        } else {
            const Vector<L> x_adj = surface.hessian(shape, x, n, n_adj) - n * c_adj;
            this->x += x_adj;
            if (this->shape) shape.add_adjoint(x, n, c_adj, n_adj, x_adj, *this->shape);
            rotation += cross(arm, x_adj) + cross(n_adj, n);
        }
    }
};

// Adds the adjoints of the elastic energy, for the sum of the adjoints of `stored`.
template <class T, class S, class Shape, class A>
LANES_INLINE void add_energy_adjoint(const Points<T>& points, const Shape& shape, const A& surface,
                                     const ContactLaw<Lanes<T>>& law, const Motion<Lanes<T>>& body, Lanes<T> energy,
                                     bool plane, RigidContactAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    S stored_adj;
    sum_lanes(sum.stored, stored_adj);
    const L energy_adj = T(2) * broadcast(stored_adj) * body.inverse_mass;
    sum.inverse_mass += T(2) * energy * sum.stored;
    for_each_point<T, S>(points, shape, surface, [&](const Vector<L>& x, L offset, int) LANES_LAMBDA {
        const L depth = surface.depth(offset, shape.distance(x));
        if (!any(depth > 0)) return;
        const L c = larger(depth, L{}), t = smaller(c * law.per_delta, splat(T(1)));
        const L c_adj = energy_adj * law.ke * t * (c - T(0.5) * law.delta * t);
        const Vector<L> n = surface.normal(shape, x);
        sum.law[contact_row::ke] += energy_adj * energy_lever(c, t, law.delta, T(0));
        sum.law[contact_row::delta] += energy_adj * law.ke * energy_lever_delta(c, t, law.delta, T(0));
        sum.add_depth(shape, surface, plane, x, x - body.center, n, c_adj, Vector<L>{});
        if constexpr (A::is_scaled) sum.scale -= multiply(x, n * c_adj);
    });
}

template <class T, class S, class Shape, class A>
LANES_INLINE bool add_rigid_contact_adjoint(const Points<T>& points, const Shape& shape, const A& surface,
                                            const ContactLaw<Lanes<T>>& law, const Motion<Lanes<T>>& body,
                                            const Anchors<T>* anchors, const Vector<Lanes<T>>& force_adj,
                                            const Vector<Lanes<T>>& torque_adj, bool plane,
                                            RigidContactAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    bool in_contact = false;
    L energy = {};
    if (law.restitution) energy = elastic_energy<T, S>(points, shape, surface, law);
    const L stored = T(2) * energy * body.inverse_mass;
    for_each_point<T, S>(points, shape, surface, [&](const Vector<L>& x, L offset, int k) LANES_LAMBDA {
        const L depth = surface.depth(offset, shape.distance(x));
        if (!any(depth > 0)) return;
        in_contact = true;
        const Vector<L> n = surface.normal(shape, x), center_arm = x - body.center;
        const Vector<L> arm = surface.contact_arm(center_arm, n), u = body.v + cross(body.w, arm);
        const Vector<L> b = force_adj + cross(torque_adj, arm);
        const L c = larger(depth, L{});
        const ContactAdjoint<L> adj =
            law.sticking ? anchors->force_adjoint(law, k, b, c, n, u, stored, sum.anchors)
                         : contact_force_adjoint<T>(law, b, c, n, u, stored);
        sum.force += adj.force;
        sum.torque += cross(arm, adj.force);
        sum.v += adj.v;
        sum.w += cross(arm, adj.v);
        for (int k = 0; k < contact_row::count; k++) sum.law[k] += adj.law[k];
        if (law.restitution) {
            sum.stored += adj.stored;
            for (int k = contact_row::count; k < contact_gradients; k++) sum.law[k] += adj.law[k];
        }
        Vector<L> n_adj = adj.n;
        if constexpr (A::is_ball) {
            const Vector<L> arm_adj = cross(adj.v, body.w) + cross(adj.force, torque_adj);
            n_adj -= arm_adj * surface.radius;
            sum.radius -= dot(n, arm_adj);
        }
        sum.add_depth(shape, surface, plane, x, center_arm, n, adj.c, n_adj);
        if constexpr (A::is_scaled) {
            const Vector<L> x_adj = shape.hessian(x, n, adj.n) - n * adj.c;
            sum.scale += multiply(x, x_adj + cross(adj.v, body.w) + cross(adj.force, torque_adj));
        }
    });
    if (law.restitution && in_contact)
        add_energy_adjoint<T, S>(points, shape, surface, law, body, energy, plane, sum);
    return in_contact;
}

// Balls, and contact with restitution or sticking friction, are compiled once for all shapes and stages of the integrator, which halves the
// time to compile all contact; other contact is inlined.
template <class T, class S, class A>
static __attribute__((noinline)) bool add_other_contact(Points<T> points, const AnyShape<Lanes<T>>& shape,
                                                        const A& surface, const ContactLaw<Lanes<T>>& law,
                                                        const Motion<Lanes<T>>& body, const Anchors<T>* anchors,
                                                        Vector<Lanes<T>>& force, Vector<Lanes<T>>& torque) {
    return add_rigid_contact<T, S>(points, shape, surface, law, body, anchors, force, torque);
}
template <class T, class S, class A>
static __attribute__((noinline)) bool add_other_contact_adjoint(
    Points<T> points, const AnyShape<Lanes<T>>& shape, const A& surface, const ContactLaw<Lanes<T>>& law,
    const Motion<Lanes<T>>& body, const Anchors<T>* anchors, const Vector<Lanes<T>>& force_adj,
    const Vector<Lanes<T>>& torque_adj, bool plane, RigidContactAdjoint<Lanes<T>>& sum) {
    return add_rigid_contact_adjoint<T, S>(points, shape, surface, law, body, anchors, force_adj, torque_adj, plane,
                                           sum);
}

template <class T, class S, class Shape, class A>
LANES_INLINE bool add_contact(const Points<T>& points, const Shape& shape, const A& surface, ContactLaw<Lanes<T>> law,
                              const Motion<Lanes<T>>& body, const Anchors<T>* anchors, Vector<Lanes<T>>& force,
                              Vector<Lanes<T>>& torque) {
    if constexpr (!A::is_ball)
        if (!law.restitution && !law.sticking) {
            law.restitution = law.sticking = false;  // known to the compiler
            return add_rigid_contact<T, S>(points, shape, surface, law, body, nullptr, force, torque);
        }
    Vector<Lanes<T>> other_force = {}, other_torque = {};
    const bool in_contact = add_other_contact<T, S>(points, AnyShape<Lanes<T>>(shape), surface.sized(), law, body,
                                                    anchors, other_force, other_torque);
    force += other_force, torque += other_torque;
    return in_contact;
}
// What adjoint sums of contact may differ from zero: those of a restitution, of sticking friction and of a ball; and those
// of a mesh with factors.
template <bool other_, bool sized_> struct ContactKind {
    enum { other = other_, sized = sized_ };
};
// Calls finish(sum, kind) with the adjoint sums of contact, if there is any: what follows is compiled for each kind, so
// that sums known to be zero cost nothing.
template <class T, class S, class Shape, class A, class F>
LANES_INLINE void with_contact_adjoint(const Points<T>& points, const Shape& shape, const A& surface,
                                       ContactLaw<Lanes<T>> law, const Motion<Lanes<T>>& body, const Anchors<T>* anchors,
                                       const Vector<Lanes<T>>& force_adj, const Vector<Lanes<T>>& torque_adj, bool plane,
                                       ShapeAdjoint<Lanes<T>>* shape_sum, F finish) {
    if constexpr (!A::is_ball)
        if (!law.restitution && !law.sticking) {
            law.restitution = law.sticking = false;  // known to the compiler
            RigidContactAdjoint<Lanes<T>> sum = {};
            sum.shape = shape_sum;
            if (add_rigid_contact_adjoint<T, S>(points, shape, surface, law, body, nullptr, force_adj, torque_adj, plane,
                                                sum))
                finish(sum, ContactKind<false, A::is_scaled>());
            return;
        }
    RigidContactAdjoint<Lanes<T>> sum = {};
    sum.shape = shape_sum;
    if (add_other_contact_adjoint<T, S>(points, AnyShape<Lanes<T>>(shape), surface.sized(), law, body, anchors, force_adj,
                                        torque_adj, plane, sum))
        finish(sum, ContactKind<true, A::is_scaled>());
}

}  // namespace gradsim
