// Samples of one rigid body in contact with another: the search for them, their forces, and the adjoints of these.
// ../forces/pairs.py defines them; its portable kernel is the reference.
#pragma once
#include "colliders.h"
#include "contact_anchors.h"

namespace gradsim {

// The shape of a body and its gradients.
template <class S> struct Collider {
    Vector<S> extent, offset, extent_adj, offset_adj;
    S radius, radius_adj, size;  // size: geometric mean of the extents of a mesh
    int kind, shape;
};

// A sample of one body in contact with the other, in the axes of the other; one per lane, or in several worlds.
template <class T> struct ContactSample {
    typedef Lanes<T> L;
    L c, weight, energy;
    Vector<L> n, y, sample;
    L c_adj;
    Vector<L> n_adj, z_adj;
    int anchors;  // block of its anchors
};
template <class T> using SampleAnchors = Anchors<T, SameAxes<Lanes<T>>>;

// Body a relative to the center of mass of body b, in the axes of b: rotation and position. The velocity at a point z is
// slide + turn x z.
template <class L> struct PairFrame {
    Matrix<L> Q;
    Vector<L> d, slide, turn;
};
template <class S> LANES_INLINE auto broadcast(const PairFrame<S>& a) -> PairFrame<decltype(broadcast(a.d.x))> {
    return {broadcast(a.Q), broadcast(a.d), broadcast(a.slide), broadcast(a.turn)};
}

// Sums over the samples of a, in the axes of b.
template <class L> struct PairAdjoint {
    Vector<L> force, torque;  // not adjoints
    Vector<L> d, rotation, slide, turn, extent_a, extent_b, offset_b;
    L radius_a, radius_b, stored, energy;
    L law[contact_gradients];
};

template <class T> LANES_INLINE const DistanceGrid<T>* grid_of(const PairArrays<T>& all, int shape) {
    return (const DistanceGrid<T>*)all.grids + shape;
}
template <class T, class S, class F> LANES_INLINE void with_shape(const PairArrays<T>& all, const Collider<S>& b, F visit) {
    const Vector<Lanes<T>> offset = broadcast(b.offset), extent = broadcast(b.extent);
    if (b.kind == collider_kind::core) {
        visit(CoreShape<T>{offset, extent});
    } else {
        visit(GridShape<T>{offset, extent, broadcast(b.size), grid_of(all, b.shape)});
    }
}

// Finds the samples of body a in body b; adds a_i U_i^2 to `squared`, and returns their number.
template <class T, class S>
static __attribute__((noinline)) int find_contacts(const PairArrays<T>& all, const Collider<S>& a, const Collider<S>& b,
                                                  const PairFrame<Lanes<T>>& frame, T share,
                                                  const ContactLaw<Lanes<T>>& law, ContactSample<T>* contacts,
                                                  Lanes<T>& squared) {
    typedef Lanes<T> L;
    constexpr int width = LaneTypes<T>::width;
    const Vector<L> offset = broadcast(a.offset), extent = broadcast(a.extent);
    const L radii = broadcast(a.radius + b.radius), largest = larger(larger(extent.x, extent.y), extent.z);
    int count = 0;
    with_shape(all, b, [&](const auto& shape) LANES_LAMBDA {
        auto at = [&](const Vector<L>& s) LANES_LAMBDA { return frame.d + frame.Q * (offset + multiply(extent, s)); };
        auto test = [&](const Vector<L>& sample, L weight, int anchors) LANES_LAMBDA {
            const Vector<L> y = at(sample);
            if (!any(shape.bound(y) < radii)) return;
            const Distance<L> distance = shape(y);
            const L depth = radii - distance.value;
            if (!any(depth > 0)) return;
            ContactSample<T>& contact = contacts[count++];
            contact.c = larger(depth, L{}), contact.n = distance.n, contact.y = y, contact.sample = sample;
            const L t = smaller(contact.c * law.per_delta, splat(T(1)));
            contact.energy = law.ke * energy_lever(contact.c, t, law.delta, T(0));
            contact.weight = weight * share, contact.anchors = anchors;
            squared += contact.weight * contact.energy * contact.energy;
        };
        const int first = all.blocks[a.shape], end = all.blocks[a.shape + 1];
        for (int k = first; k < end; k++) {
            const T* block = all.samples + (long long)k * sizes::point_block_rows * width;
            if constexpr (sizeof(S) == sizeof(T)) {
                test(Vector<L>{load(block), load(block + width), load(block + 2 * width)}, load(block + 3 * width),
                     k - first);
            } else {
                const T* sphere = block + 4 * width;
                const Vector<L> center = {splat(sphere[0]), splat(sphere[1]), splat(sphere[2])};
                if (end - first > 1 && !any(shape.bound(at(center)) < radii + largest * sphere[3])) continue;
                const int rest = all.sizes[a.shape] - (k - first) * width;
                for (int i = 0; i < (rest < width ? rest : width); i++)
                    test(Vector<L>{splat(block[i]), splat(block[i + width]), splat(block[i + 2 * width])},
                         splat(block[i + 3 * width]), (k - first) * width + i);
            }
        }
    });
    return count;
}

// Adds the force on body a, and its torque about the center of mass of b, in the axes of b. `anchors` are those of
// sticking friction.
template <class T>
static __attribute__((noinline)) void add_sample_forces(const ContactSample<T>* contacts, int count,
                                                       const PairFrame<Lanes<T>>& frame, Lanes<T> radius,
                                                       const ContactLaw<Lanes<T>>& law, Lanes<T> per_energy,
                                                       Lanes<T> stored, const SampleAnchors<T>& anchors,
                                                       Vector<Lanes<T>>& force, Vector<Lanes<T>>& torque) {
    typedef Lanes<T> L;
    for (const ContactSample<T>* contact = contacts; contact < contacts + count; contact++) {
        const Vector<L> z = contact->y - contact->n * (radius - T(0.5) * contact->c);
        const Vector<L> u = frame.slide + cross(frame.turn, z);
        const Vector<L> own = law.sticking ? anchors.force(law, contact->anchors, contact->c, contact->n, u, stored)
                                           : contact_force<T>(law, contact->c, contact->n, u, stored);
        const Vector<L> f = own * (contact->weight * contact->energy * per_energy);
        force += f;
        torque += cross(z, f);
    }
}

// Adjoint of the same for the adjoints of force and torque, except for what the energy of the pair changes.
template <class T>
static __attribute__((noinline)) void add_sample_adjoints(ContactSample<T>* contacts, int count, const PairFrame<Lanes<T>>& frame,
                                                         Lanes<T> radius, const ContactLaw<Lanes<T>>& law,
                                                         Lanes<T> per_energy, Lanes<T> stored,
                                                         const SampleAnchors<T>& anchors,
                                                         const Vector<Lanes<T>>& force_adj,
                                                         const Vector<Lanes<T>>& torque_adj,
                                                         PairAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    for (ContactSample<T>* contact = contacts; contact < contacts + count; contact++) {
        const L weight = contact->weight * contact->energy * per_energy;
        const Vector<L> z = contact->y - contact->n * (radius - T(0.5) * contact->c);
        const Vector<L> u = frame.slide + cross(frame.turn, z), b = force_adj + cross(torque_adj, z);
        Vector<L> same_axes;
        const ContactAdjoint<L> adj =
            law.sticking ? anchors.force_adjoint(law, contact->anchors, b * weight, contact->c, contact->n, u, stored,
                                                 same_axes)
                         : contact_force_adjoint<T>(law, b * weight, contact->c, contact->n, u, stored);
        const Vector<L> f = adj.force * weight;
        sum.force += f;
        sum.torque += cross(z, f);
        sum.slide += adj.v;
        sum.turn += cross(z, adj.v);
        for (int k = 0; k < contact_row::count; k++) sum.law[k] += adj.law[k];
        if (law.restitution) {
            sum.stored += adj.stored;
            for (int k = contact_row::count; k < contact_gradients; k++) sum.law[k] += adj.law[k];
        }
        // weight = a U / E; the adjoint of U is kept in place of U
        const L weight_adj = dot(b, adj.force);
        sum.energy -= weight_adj * weight * per_energy;
        contact->energy = weight;
        contact->weight *= weight_adj * per_energy;
        contact->z_adj = cross(adj.v, frame.turn) + cross(f, torque_adj);
        contact->n_adj = adj.n - contact->z_adj * (radius - T(0.5) * contact->c);
        contact->c_adj = adj.c + T(0.5) * dot(contact->n, contact->z_adj);
    }
}

// The rest, for the adjoint of the energy of the pair; after `add_sample_adjoints` of both bodies.
template <class T, class S>
static __attribute__((noinline)) void add_distance_adjoints(const PairArrays<T>& all, const Collider<S>& a,
                                                            const Collider<S>& b, const ContactSample<T>* contacts, int count,
                                                            const PairFrame<Lanes<T>>& frame,
                                                            const ContactLaw<Lanes<T>>& law, Lanes<T> energy_adj,
                                                            PairAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    const L radii = broadcast(a.radius + b.radius);
    with_shape(all, b, [&](const auto& shape) LANES_LAMBDA {
        for (const ContactSample<T>* contact = contacts; contact < contacts + count; contact++) {
            const L c = contact->c, t = smaller(c * law.per_delta, splat(T(1)));
            const L own_adj = contact->weight + energy_adj * contact->energy;  // of the elastic energy U
            sum.law[contact_row::ke] += own_adj * energy_lever(c, t, law.delta, T(0));
            sum.law[contact_row::delta] += own_adj * law.ke * energy_lever_delta(c, t, law.delta, T(0));
            const L c_adj = contact->c_adj + own_adj * law.ke * t * (c - T(0.5) * law.delta * t);
            const Vector<L> g = shape.adjoint(contact->y, Distance<L>{radii - c, contact->n}, -c_adj, contact->n_adj,
                                              sum.extent_b);
            const Vector<L> y_adj = contact->z_adj + g;
            sum.radius_a += c_adj - dot(contact->n, contact->z_adj);
            sum.radius_b += c_adj;
            sum.offset_b -= g;
            sum.d += y_adj;
            sum.rotation += cross(contact->y - frame.d, y_adj);
            sum.extent_a += multiply(contact->sample, transpose(frame.Q) * y_adj);
        }
    });
}

}  // namespace gradsim
