// Contact between rigid bodies of one world, or of several in lanes, and its adjoint.
// The portable kernel of ../forces/pairs.py is the reference.
#pragma once
#include "colliders.h"
#include "coupled_bodies.h"

namespace gradsim {

// The shape of a body, its gradients, and the radius of a sphere about the center of mass that contains it.
template <class S> struct Collider {
    Vector<S> extent, offset, extent_adj, offset_adj;
    S radius, radius_adj, bound, size;  // size: geometric mean of the extents of a mesh
    int kind, shape;
};
template <class S> struct PairLaw {
    ContactLaw<S> law;
    S law_adj[pair_row::count];
};

// A sample of one body in contact with the other, in the axes of the other; one per lane, or in several worlds.
template <class T> struct Touch {
    typedef Lanes<T> L;
    L c, weight, energy;
    Vector<L> n, y, sample;
    L c_adj;
    Vector<L> n_adj, z_adj;
};

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
    L law[pair_row::count];
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
static __attribute__((noinline)) int find_touches(const PairArrays<T>& all, const Collider<S>& a, const Collider<S>& b,
                                                  const PairFrame<Lanes<T>>& frame, T share,
                                                  const ContactLaw<Lanes<T>>& law, Touch<T>* touches,
                                                  Lanes<T>& squared) {
    typedef Lanes<T> L;
    constexpr int width = LaneTypes<T>::width;
    const Vector<L> offset = broadcast(a.offset), extent = broadcast(a.extent);
    const L radii = broadcast(a.radius + b.radius), largest = larger(larger(extent.x, extent.y), extent.z);
    int count = 0;
    with_shape(all, b, [&](const auto& shape) LANES_LAMBDA {
        auto at = [&](const Vector<L>& s) LANES_LAMBDA { return frame.d + frame.Q * (offset + multiply(extent, s)); };
        auto test = [&](const Vector<L>& sample, L weight) LANES_LAMBDA {
            const Vector<L> y = at(sample);
            if (!any(shape.bound(y) < radii)) return;
            const Distance<L> distance = shape(y);
            const L depth = radii - distance.value;
            if (!any(depth > 0)) return;
            Touch<T>& touch = touches[count++];
            touch.c = larger(depth, L{}), touch.n = distance.n, touch.y = y, touch.sample = sample;
            const L t = smaller(touch.c * law.per_delta, splat(T(1)));
            touch.energy = law.ke * energy_lever(touch.c, t, law.delta, T(0));
            touch.weight = weight * share;
            squared += touch.weight * touch.energy * touch.energy;
        };
        const int first = all.blocks[a.shape], end = all.blocks[a.shape + 1];
        for (int k = first; k < end; k++) {
            const T* block = all.samples + (long long)k * sizes::point_block_rows * width;
            if constexpr (sizeof(S) == sizeof(T)) {
                test(Vector<L>{load(block), load(block + width), load(block + 2 * width)}, load(block + 3 * width));
            } else {
                const T* sphere = block + 4 * width;
                const Vector<L> center = {splat(sphere[0]), splat(sphere[1]), splat(sphere[2])};
                if (end - first > 1 && !any(shape.bound(at(center)) < radii + largest * sphere[3])) continue;
                const int rest = all.sizes[a.shape] - (k - first) * width;
                for (int i = 0; i < (rest < width ? rest : width); i++)
                    test(Vector<L>{splat(block[i]), splat(block[i + width]), splat(block[i + 2 * width])},
                         splat(block[i + 3 * width]));
            }
        }
    });
    return count;
}

// Adds the force on body a, and its torque about the center of mass of b, in the axes of b.
template <class T>
static __attribute__((noinline)) void add_touch_forces(const Touch<T>* touches, int count,
                                                       const PairFrame<Lanes<T>>& frame, Lanes<T> radius,
                                                       const ContactLaw<Lanes<T>>& law, Lanes<T> per_energy,
                                                       Lanes<T> stored, Vector<Lanes<T>>& force,
                                                       Vector<Lanes<T>>& torque) {
    typedef Lanes<T> L;
    for (const Touch<T>* touch = touches; touch < touches + count; touch++) {
        const Vector<L> z = touch->y - touch->n * (radius - T(0.5) * touch->c);
        const Vector<L> u = frame.slide + cross(frame.turn, z);
        const Vector<L> f = contact_force<T>(law, touch->c, touch->n, u, stored) *
                            (touch->weight * touch->energy * per_energy);
        force += f;
        torque += cross(z, f);
    }
}

// Adjoint of the same for the adjoints of force and torque, except for what the energy of the pair changes.
template <class T>
static __attribute__((noinline)) void add_touch_adjoints(Touch<T>* touches, int count, const PairFrame<Lanes<T>>& frame,
                                                         Lanes<T> radius, const ContactLaw<Lanes<T>>& law,
                                                         Lanes<T> per_energy, Lanes<T> stored,
                                                         const Vector<Lanes<T>>& force_adj,
                                                         const Vector<Lanes<T>>& torque_adj,
                                                         PairAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    for (Touch<T>* touch = touches; touch < touches + count; touch++) {
        const L weight = touch->weight * touch->energy * per_energy;
        const Vector<L> z = touch->y - touch->n * (radius - T(0.5) * touch->c);
        const Vector<L> u = frame.slide + cross(frame.turn, z), b = force_adj + cross(torque_adj, z);
        const ContactAdjoint<L> adj = contact_force_adjoint<T>(law, b * weight, touch->c, touch->n, u, stored);
        const Vector<L> f = adj.force * weight;
        sum.force += f;
        sum.torque += cross(z, f);
        sum.slide += adj.v;
        sum.turn += cross(z, adj.v);
        for (int k = 0; k < contact_row::count; k++) sum.law[k] += adj.law[k];
        if (law.restitution) {
            sum.stored += adj.stored;
            for (int k = contact_row::count; k < pair_row::count; k++) sum.law[k] += adj.law[k];
        }
        // weight = a U / E; the adjoint of U is kept in place of U
        const L weight_adj = dot(b, adj.force);
        sum.energy -= weight_adj * weight * per_energy;
        touch->energy = weight;
        touch->weight *= weight_adj * per_energy;
        touch->z_adj = cross(adj.v, frame.turn) + cross(f, torque_adj);
        touch->n_adj = adj.n - touch->z_adj * (radius - T(0.5) * touch->c);
        touch->c_adj = adj.c + T(0.5) * dot(touch->n, touch->z_adj);
    }
}

// The rest, for the adjoint of the energy of the pair; after `add_touch_adjoints` of both bodies.
template <class T, class S>
static __attribute__((noinline)) void add_distance_adjoints(const PairArrays<T>& all, const Collider<S>& a,
                                                            const Collider<S>& b, const Touch<T>* touches, int count,
                                                            const PairFrame<Lanes<T>>& frame,
                                                            const ContactLaw<Lanes<T>>& law, Lanes<T> energy_adj,
                                                            PairAdjoint<Lanes<T>>& sum) {
    typedef Lanes<T> L;
    const L radii = broadcast(a.radius + b.radius);
    with_shape(all, b, [&](const auto& shape) LANES_LAMBDA {
        for (const Touch<T>* touch = touches; touch < touches + count; touch++) {
            const L c = touch->c, t = smaller(c * law.per_delta, splat(T(1)));
            const L own_adj = touch->weight + energy_adj * touch->energy;  // of the elastic energy U
            sum.law[contact_row::ke] += own_adj * energy_lever(c, t, law.delta, T(0));
            sum.law[contact_row::delta] += own_adj * law.ke * energy_lever_delta(c, t, law.delta, T(0));
            const L c_adj = touch->c_adj + own_adj * law.ke * t * (c - T(0.5) * law.delta * t);
            const Vector<L> g = shape.adjoint(touch->y, Distance<L>{radii - c, touch->n}, -c_adj, touch->n_adj,
                                              sum.extent_b);
            const Vector<L> y_adj = touch->z_adj + g;
            sum.radius_a += c_adj - dot(touch->n, touch->z_adj);
            sum.radius_b += c_adj;
            sum.offset_b -= g;
            sum.d += y_adj;
            sum.rotation += cross(touch->y - frame.d, y_adj);
            sum.extent_a += multiply(touch->sample, transpose(frame.Q) * y_adj);
        }
    });
}

template <class T, class S> struct Pairs {
    typedef Lanes<T> L;
    typedef CoupledBodies<T, S> Bodies;
    static_assert(sizeof(Touch<T>) <= sizes::touch_scratch * sizeof(L), "scratch memory of a sample in contact");
    static_assert(sizeof(Collider<S>) <= sizes::collider_scratch * sizeof(S), "scratch memory of a body's shape");
    static_assert(sizeof(PairLaw<S>) <= sizes::law_scratch * sizeof(S), "scratch memory of a law");
    const PairArrays<T>* all;
    const Bodies* bodies;
    LaneWorlds<T, S> worlds;
    Touch<T>* touches;
    Collider<S>* colliders;
    PairLaw<S>* laws;
    Vector<S>* listed;  // positions for which the list of neighbours was made
    int* neighbours;    // pairs of bodies
    int neighbour_count = -1;
    S margin;

    LANES_MEMBER Pairs() : all(nullptr), bodies(nullptr) {}
    LANES_MEMBER Pairs(const PairArrays<T>& arrays, const Bodies& bodies_) : all(&arrays), bodies(&bodies_) {
        worlds = bodies->all[0].body.worlds;
        T* memory = arrays.scratch;
        touches = (Touch<T>*)memory;
        memory += arrays.touch_capacity * sizes::touch_scratch * LaneTypes<T>::width;
        S* own = (S*)memory;
        colliders = (Collider<S>*)own;
        own += bodies->count * sizes::collider_scratch;
        laws = (PairLaw<S>*)own;
        own += arrays.law_count * sizes::law_scratch;
        listed = (Vector<S>*)own;
        neighbours = (int*)(own + 4 * bodies->count);
        for (int b = 0; b < bodies->count; b++) load_collider(b);
        for (int k = 0; k < arrays.law_count; k++) load_law(k);
    }
    LANES_MEMBER void load_collider(int b) {
        auto value = [&](int row) LANES_LAMBDA {
            return worlds.read(all->collider.value + row * all->collider.stride + b, bodies->count);
        };
        Collider<S>& c = colliders[b];
        c = {};
        c.extent = {value(collider_row::extent_x), value(collider_row::extent_y), value(collider_row::extent_z)};
        c.offset = {value(collider_row::offset_x), value(collider_row::offset_y), value(collider_row::offset_z)};
        c.radius = value(collider_row::radius);
        c.shape = all->shapes[b];
        c.kind = all->kinds[c.shape];
        const S largest = larger(larger(c.extent.x, c.extent.y), c.extent.z);
        const S reach = c.kind == collider_kind::core ? length(c.extent) : largest * T(all->reach[c.shape]);
        c.size = cube_root<T>(c.extent.x * c.extent.y * c.extent.z);
        c.bound = (length(c.offset) + reach + c.radius) * T(1.0001);
        margin = b ? margin + c.bound : c.bound;
        if (b == bodies->count - 1) margin = margin * (T(0.25) / T(bodies->count));
    }
    LANES_MEMBER void load_law(int k) {
        auto value = [&](int row) LANES_LAMBDA {
            return worlds.read(all->law.value + row * all->law.stride + k, all->law_count);
        };
        const S delta = value(pair_row::delta), huge = S{} + T(1e30), inverse = value(pair_row::inverse);
        laws[k] = {};
        laws[k].law = {value(pair_row::ke), value(pair_row::kd), value(pair_row::kf), value(pair_row::mu), delta,
                       delta > 0 ? 1 / delta : huge, any(delta <= 0), value(pair_row::loss), value(pair_row::slope),
                       value(pair_row::speed), inverse, any(inverse > 0)};
    }

    // --- pairs that may touch --------------------------------------------------------------------------------------

    LANES_MEMBER int law_of(int a, int b) const {
        return all->numbers[all->groups[a] * all->group_count + all->groups[b]];
    }
    LANES_MEMBER bool is_near(int a, int b, S further) const {
        const Vector<S> d = bodies->all[a].step.s.p - bodies->all[b].step.s.p;
        const S reach = colliders[a].bound + colliders[b].bound + further;
        return any(dot(d, d) < reach * reach);
    }
    // Lists the pairs that may touch before a body has moved by the margin; -1 if there are too many.
    LANES_MEMBER void list_neighbours() {
        neighbour_count = 0;
        for (int b = 0; b < bodies->count; b++) listed[b] = bodies->all[b].step.s.p;
        for (int a = 0; a < bodies->count; a++)
            for (int b = a + 1; b < bodies->count; b++) {
                if (!is_near(a, b, T(2) * margin) || law_of(a, b) < 0) continue;
                if (neighbour_count == all->neighbour_capacity) {
                    neighbour_count = -1;
                    return;
                }
                neighbours[2 * neighbour_count] = a, neighbours[2 * neighbour_count + 1] = b;
                neighbour_count++;
            }
    }
    LANES_MEMBER bool is_list_valid() const {
        if (neighbour_count < 0) return false;
        for (int b = 0; b < bodies->count; b++) {
            const Vector<S> moved = bodies->all[b].step.s.p - listed[b];
            if (any(dot(moved, moved) >= margin * margin)) return false;
        }
        return true;
    }
    template <class F> LANES_MEMBER void for_each_pair(F visit) {
        if (all->neighbour_capacity && !is_list_valid()) list_neighbours();
        if (neighbour_count >= 0) {
            for (int k = 0; k < neighbour_count; k++) {
                const int a = neighbours[2 * k], b = neighbours[2 * k + 1];
                if (is_near(a, b, S{})) visit(a, b, laws[law_of(a, b)]);
            }
            return;
        }
        for (int a = 0; a < bodies->count; a++)
            for (int b = a + 1; b < bodies->count; b++)
                if (law_of(a, b) >= 0 && is_near(a, b, S{})) visit(a, b, laws[law_of(a, b)]);
    }

    // --- forces ----------------------------------------------------------------------------------------------------

    // Whether the distance of b is known at samples of a in contact: not if a is much larger than the mesh b.
    LANES_MEMBER bool is_known(const Collider<S>& a, const Collider<S>& b) const {
        if (b.kind == collider_kind::core) return true;
        const S smallest = smaller(smaller(b.extent.x, b.extent.y), b.extent.z);
        return !any(a.radius > smallest * T(grid_of(*all, b.shape)->padding));
    }
    // Shares of both bodies' samples. The one sample of a ball stands for its whole surface.
    LANES_MEMBER void set_shares(const Collider<S>& a, const Collider<S>& b, T* share) const {
        const bool known[2] = {is_known(a, b), is_known(b, a)};
        const bool whole[2] = {known[0] && all->sizes[a.shape] == 1, known[1] && all->sizes[b.shape] == 1};
        share[0] = !known[0] || (whole[1] && !whole[0]) ? T(0) : whole[0] || !known[1] ? T(1) : T(0.5);
        share[1] = T(1) - share[0];
    }
    LANES_MEMBER Vector<S> spin(int b) const {
        const CoupledBody<T, S>& body = bodies->all[b];
        return body.step.R * (body.body.inverse_inertia * (transpose(body.step.R) * body.step.s.l));
    }

    // The contact of two bodies: samples of a in b, and of b in a.
    struct Contact {
        int index[2];
        Vector<S> w[2];
        PairFrame<S> frame[2];
        PairFrame<L> lanes[2];
        T share[2];
        int count[2];
        Touch<T>* touches[2];
        L energy, per_energy, stored;
        S masses;  // sum of the inverse masses
    };
    LANES_MEMBER bool meet(int a, int b, const ContactLaw<L>& law, Contact& c) const {
        c.index[0] = a, c.index[1] = b;
        set_shares(colliders[a], colliders[b], c.share);
        c.w[0] = spin(a), c.w[1] = spin(b);
        L squared = {};
        Touch<T>* memory = touches;
        for (int k = 0; k < 2; k++) {
            const CoupledBody<T, S>&own = bodies->all[c.index[k]], &other = bodies->all[c.index[1 - k]];
            const Matrix<S> back = transpose(other.step.R);
            const Vector<S> apart = own.step.s.p - other.step.s.p;
            c.frame[k] = {back * own.step.R, back * apart,
                          back * (own.step.s.v - other.step.s.v - cross(c.w[k], apart)), back * (c.w[k] - c.w[1 - k])};
            c.lanes[k] = broadcast(c.frame[k]);
            c.touches[k] = memory;
            c.count[k] = c.share[k] > 0 ? find_touches<T, S>(*all, colliders[c.index[k]], colliders[c.index[1 - k]],
                                                             c.lanes[k], c.share[k], law, memory, squared)
                                        : 0;
            memory += c.count[k];
        }
        if (!(c.count[0] + c.count[1])) return false;
        S total;
        sum_lanes(squared, total);
        c.masses = bodies->all[a].body.inverse_mass + bodies->all[b].body.inverse_mass;
        const L floor = splat(sizeof(T) == 4 ? T(1e-36) : T(1e-60));
        c.per_energy = inverse_root(broadcast(total) + floor);
        c.energy = (broadcast(total) + floor) * c.per_energy;
        c.stored = T(2) * c.energy * broadcast(c.masses);
        return true;
    }

    LANES_MEMBER void add_forces() {
        for_each_pair([&](int a, int b, PairLaw<S>& pair) LANES_LAMBDA { add_pair_force(a, b, pair); });
    }
    __attribute__((noinline)) void add_pair_force(int a, int b, const PairLaw<S>& pair) const {
        const ContactLaw<L> law = broadcast(pair.law);
        Contact c;
        if (!meet(a, b, law, c)) return;
        for (int k = 0; k < 2; k++) {
            if (!c.count[k]) continue;
            Vector<L> force_sum = {}, torque_sum = {};
            add_touch_forces<T>(c.touches[k], c.count[k], c.lanes[k], broadcast(colliders[c.index[k]].radius), law,
                                c.per_energy, c.stored, force_sum, torque_sum);
            RigidStep<T, S>&own = bodies->all[c.index[k]].step, &other = bodies->all[c.index[1 - k]].step;
            Vector<S> force, torque;
            sum_lanes(force_sum, force), sum_lanes(torque_sum, torque);
            force = other.R * force, torque = other.R * torque;
            own.f += force, other.f -= force;
            own.t += torque - cross(own.s.p - other.s.p, force), other.t -= torque;
        }
    }

    // --- adjoint ---------------------------------------------------------------------------------------------------

    LANES_MEMBER void add_adjoints() {
        for_each_pair([&](int a, int b, PairLaw<S>& pair) LANES_LAMBDA { add_pair_adjoint(a, b, pair); });
    }
    __attribute__((noinline)) void add_pair_adjoint(int a, int b, PairLaw<S>& pair) const {
        const ContactLaw<L> law = broadcast(pair.law);
        Contact c;
        if (!meet(a, b, law, c)) return;
        PairAdjoint<L> sums[2] = {};
        S energy_adj = {}, stored_adj = {};
        for (int k = 0; k < 2; k++) {
            if (!c.count[k]) continue;
            const CoupledBody<T, S>&own = bodies->all[c.index[k]], &other = bodies->all[c.index[1 - k]];
            const Matrix<S> back = transpose(other.step.R);
            const Vector<S> apart = own.step.s.p - other.step.s.p;
            const Vector<S> force_adj = own.step.a_adj * own.body.inverse_mass -
                                        other.step.a_adj * other.body.inverse_mass - cross(own.step.t_adj, apart);
            add_touch_adjoints<T>(c.touches[k], c.count[k], c.lanes[k], broadcast(colliders[c.index[k]].radius), law,
                                  c.per_energy, c.stored, broadcast(back * force_adj),
                                  broadcast(back * (own.step.t_adj - other.step.t_adj)), sums[k]);
            S part;
            sum_lanes(sums[k].energy, part), energy_adj += part;
            sum_lanes(sums[k].stored, part), stored_adj += part;
        }
        const L total_adj = broadcast(energy_adj + T(2) * stored_adj * c.masses);
        Vector<S> w_adj[2] = {};
        for (int k = 0; k < 2; k++) {
            if (!c.count[k]) continue;
            add_distance_adjoints<T, S>(*all, colliders[c.index[k]], colliders[c.index[1 - k]], c.touches[k], c.count[k],
                                        c.lanes[k], law, total_adj, sums[k]);
            add_body_adjoints(c, k, sums[k], w_adj);
            for (int row = 0; row < (law.restitution ? pair_row::count : contact_row::count); row++) {
                S part;
                sum_lanes(sums[k].law[row], part);
                pair.law_adj[row] += part;
            }
        }
        S energy;
        if constexpr (sizeof(S) == sizeof(T)) energy = c.energy[0]; else energy = c.energy;
        for (int k = 0; k < 2; k++) {
            RigidStep<T, S>& step = bodies->all[c.index[k]].step;
            RigidBody<T, S>& body = bodies->all[c.index[k]].body;
            body.inverse_mass_adj += T(2) * energy * stored_adj;
            body.add_spin_adjoint(transpose(step.R) * w_adj[k], step.R, step.s.l, step.adj);
            step.adj.rotation += cross(c.w[k], w_adj[k]);  // rotation of the spin from body to world axes
        }
    }
    // Adds the adjoints of the states of both bodies, and of their shapes, from the sums over the samples of one.
    LANES_MEMBER void add_body_adjoints(const Contact& c, int k, const PairAdjoint<L>& sum, Vector<S>* w_adj) const {
        const int a = c.index[k], b = c.index[1 - k];
        RigidStep<T, S>&own = bodies->all[a].step, &other = bodies->all[b].step;
        Collider<S>&shape_a = colliders[a], &shape_b = colliders[b];
        Vector<S> force, torque, d_adj, rotation, slide_adj, turn_adj, part;
        sum_lanes(sum.force, force), sum_lanes(sum.torque, torque);
        sum_lanes(sum.d, d_adj), sum_lanes(sum.rotation, rotation);
        sum_lanes(sum.slide, slide_adj), sum_lanes(sum.turn, turn_adj);
        sum_lanes(sum.extent_a, part), shape_a.extent_adj += part;
        sum_lanes(sum.extent_b, part), shape_b.extent_adj += part;
        sum_lanes(sum.offset_b, part), shape_b.offset_adj += part;
        shape_a.offset_adj += transpose(c.frame[k].Q) * d_adj;
        S radius_adj;
        sum_lanes(sum.radius_a, radius_adj), shape_a.radius_adj += radius_adj;
        sum_lanes(sum.radius_b, radius_adj), shape_b.radius_adj += radius_adj;
        // From here on in world axes. Force and torque act on a, and their opposites on b.
        const Matrix<S>& R = other.R;
        const Vector<S> apart = own.s.p - other.s.p, turn = c.w[k] - c.w[1 - k];
        force = R * force, torque = R * torque;
        d_adj = R * d_adj, rotation = R * rotation, slide_adj = R * slide_adj, turn_adj = R * turn_adj;
        bodies->forces[a] += force, bodies->forces[b] -= force;
        const Vector<S> force_adj = own.a_adj * bodies->all[a].body.inverse_mass -
                                    other.a_adj * bodies->all[b].body.inverse_mass - cross(own.t_adj, apart);
        const Vector<S> torque_adj = own.t_adj - other.t_adj;
        const Vector<S> slide = own.s.v - other.s.v - cross(c.w[k], apart);
        const Vector<S> apart_adj = d_adj - cross(force, own.t_adj) - cross(slide_adj, c.w[k]);
        own.adj.p += apart_adj, other.adj.p -= apart_adj;
        own.adj.v += slide_adj, other.adj.v -= slide_adj;
        w_adj[k] += turn_adj - cross(apart, slide_adj);
        w_adj[1 - k] -= turn_adj;
        own.adj.rotation += rotation;
        other.adj.rotation += cross(force, force_adj) + cross(torque, torque_adj) - rotation - cross(apart, d_adj) -
                              cross(slide, slide_adj) - cross(turn, turn_adj);
    }

    LANES_MEMBER void add_gradients() const {
        for (int b = 0; b < bodies->count; b++) {
            const Collider<S>& c = colliders[b];
            auto add = [&](int row, S value) LANES_LAMBDA {
                worlds.add(all->collider.grad + row * all->collider.stride + b, bodies->count, value);
            };
            add(collider_row::extent_x, c.extent_adj.x), add(collider_row::extent_y, c.extent_adj.y);
            add(collider_row::extent_z, c.extent_adj.z), add(collider_row::radius, c.radius_adj);
            add(collider_row::offset_x, c.offset_adj.x), add(collider_row::offset_y, c.offset_adj.y);
            add(collider_row::offset_z, c.offset_adj.z);
        }
        for (int k = 0; k < all->law_count; k++)
            for (int row = 0; row < pair_row::count; row++)
                worlds.add(all->law.grad + row * all->law.stride + k, all->law_count, laws[k].law_adj[row]);
    }
};

}  // namespace gradsim
