// Contact between rigid bodies of one world, or of several in lanes, and its adjoint.
// The portable kernel of ../forces/pairs.py is the reference.
#pragma once
#include "neighbours.h"
#include "contact_samples.h"
#include "pair_anchors.h"

namespace gradsim {

template <class S> struct PairLaw {
    ContactLaw<S> law;
    S damping;  // kf of sticking friction over the reduced mass and the number of steps per second
    S law_adj[contact_gradients];
};

template <class T, class S> struct Pairs {
    typedef Lanes<T> L;
    typedef CoupledBodies<T, S> Bodies;
    static_assert(sizeof(ContactSample<T>) <= sizes::sample_scratch * sizeof(L), "scratch memory of a sample in contact");
    static_assert(sizeof(Collider<S>) <= sizes::collider_scratch * sizeof(S), "scratch memory of a body's shape");
    static_assert(sizeof(PairLaw<S>) <= sizes::law_scratch * sizeof(S), "scratch memory of a law");
    const PairArrays<T>* all;
    const Bodies* bodies;
    LaneWorlds<T, S> worlds;
    ContactSample<T>* contacts;
    Collider<S>* colliders;
    PairLaw<S>* laws;
    Neighbours<T, S> neighbours;
    PairAnchors<T, S> anchors;

    LANES_MEMBER Pairs() : all(nullptr), bodies(nullptr) {}
    LANES_MEMBER Pairs(const PairArrays<T>& arrays, const Bodies& bodies_) : all(&arrays), bodies(&bodies_) {
        worlds = bodies->all[0].body.worlds;
        T* memory = arrays.scratch;
        contacts = (ContactSample<T>*)memory;
        memory += arrays.sample_capacity * sizes::sample_scratch * LaneTypes<T>::width;
        S* own = (S*)memory;
        colliders = (Collider<S>*)own;
        own += bodies->count * sizes::collider_scratch;
        laws = (PairLaw<S>*)own;
        own += arrays.law_count * sizes::law_scratch;
        neighbours = Neighbours<T, S>(bodies_, (int)arrays.neighbour_capacity, own);
        anchors = PairAnchors<T, S>(arrays, bodies_);
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
        neighbours.set_bound(b, (length(c.offset) + reach + c.radius) * T(1.0001));
    }
    LANES_MEMBER void load_law(int k) {
        auto value = [&](int row) LANES_LAMBDA {
            return worlds.read(all->law.value + row * all->law.stride + k, all->law_count);
        };
        const S delta = value(pair_row::delta), huge = S{} + T(1e30), inverse = value(pair_row::inverse);
        const S stick = value(pair_row::stick_stiffness);
        laws[k] = {};
        laws[k].damping = value(pair_row::stick_damping);
        laws[k].law = {value(pair_row::ke), value(pair_row::kd), value(pair_row::kf), value(pair_row::mu), delta,
                       delta > 0 ? 1 / delta : huge, any(delta <= 0), value(pair_row::loss), value(pair_row::slope),
                       value(pair_row::speed), inverse, any(inverse > 0), stick, any(stick > 0)};
    }

    LANES_MEMBER int law_of(int a, int b) const {
        return all->numbers[all->groups[a] * all->group_count + all->groups[b]];
    }
    template <class F> LANES_MEMBER void for_each_pair(F visit) {
        neighbours.for_each([&](int a, int b) LANES_LAMBDA { return law_of(a, b) >= 0; },
                            [&](int a, int b) LANES_LAMBDA { visit(a, b, laws[law_of(a, b)]); });
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
        ContactSample<T>* contacts[2];
        L energy, per_energy, stored;
        S masses;  // sum of the inverse masses
        S kf;      // of sticking friction
        ContactLaw<L> law;
        int number;  // of the anchors of the first body's samples
    };
    LANES_MEMBER bool meet(int a, int b, const PairLaw<S>& pair, Contact& c) const {
        c.index[0] = a, c.index[1] = b;
        c.masses = bodies->all[a].body.inverse_mass + bodies->all[b].body.inverse_mass;
        c.law = broadcast(pair.law);
        if (pair.law.sticking) {
            c.kf = pair.damping / (c.masses * anchors.dt);
            c.law.kf = broadcast(c.kf);
            c.number = anchors.number(a, b);
        }
        set_shares(colliders[a], colliders[b], c.share);
        c.w[0] = spin(a), c.w[1] = spin(b);
        L squared = {};
        ContactSample<T>* memory = contacts;
        for (int k = 0; k < 2; k++) {
            const CoupledBody<T, S>&own = bodies->all[c.index[k]], &other = bodies->all[c.index[1 - k]];
            const Matrix<S> back = transpose(other.step.R);
            const Vector<S> apart = own.step.s.p - other.step.s.p;
            c.frame[k] = {back * own.step.R, back * apart,
                          back * (own.step.s.v - other.step.s.v - cross(c.w[k], apart)), back * (c.w[k] - c.w[1 - k])};
            c.lanes[k] = broadcast(c.frame[k]);
            c.contacts[k] = memory;
            c.count[k] = c.share[k] > 0 ? find_contacts<T, S>(*all, colliders[c.index[k]], colliders[c.index[1 - k]],
                                                             c.lanes[k], c.share[k], c.law, memory, squared)
                                        : 0;
            memory += c.count[k];
        }
        if (!(c.count[0] + c.count[1])) return false;
        S total;
        sum_lanes(squared, total);
        const L floor = splat(sizeof(T) == 4 ? T(1e-36) : T(1e-60));
        c.per_energy = inverse_root(broadcast(total) + floor);
        c.energy = (broadcast(total) + floor) * c.per_energy;
        c.stored = T(2) * c.energy * broadcast(c.masses);
        return true;
    }

    LANES_MEMBER void add_forces(int step, int stage) {
        anchors.begin_stage(step, stage);
        for_each_pair([&](int a, int b, PairLaw<S>& pair) LANES_LAMBDA { add_pair_force(a, b, pair, step, stage); });
    }
    __attribute__((noinline)) void add_pair_force(int a, int b, const PairLaw<S>& pair, int step, int stage) const {
        Contact c;
        if (!meet(a, b, pair, c)) return;
        for (int k = 0; k < 2; k++) {
            if (!c.count[k]) continue;
            SampleAnchors<T> own_anchors = {};
            if (c.law.sticking) own_anchors = anchors.in_stage(c.number + k, step, stage);
            Vector<L> force_sum = {}, torque_sum = {};
            add_sample_forces<T>(c.contacts[k], c.count[k], c.lanes[k], broadcast(colliders[c.index[k]].radius), c.law,
                                c.per_energy, c.stored, own_anchors, force_sum, torque_sum);
            RigidStep<T, S>&own = bodies->all[c.index[k]].step, &other = bodies->all[c.index[1 - k]].step;
            Vector<S> force, torque;
            sum_lanes(force_sum, force), sum_lanes(torque_sum, torque);
            force = other.R * force, torque = other.R * torque;
            own.f += force, other.f -= force;
            own.t += torque - cross(own.s.p - other.s.p, force), other.t -= torque;
        }
    }

    // --- adjoint ---------------------------------------------------------------------------------------------------

    LANES_MEMBER void add_adjoints(int step, int stage) {
        anchors.begin_stage_adjoint(stage);
        for_each_pair([&](int a, int b, PairLaw<S>& pair) LANES_LAMBDA { add_pair_adjoint(a, b, pair, step, stage); });
    }
    __attribute__((noinline)) void add_pair_adjoint(int a, int b, PairLaw<S>& pair, int step, int stage) const {
        Contact c;
        if (!meet(a, b, pair, c)) return;
        const ContactLaw<L>& law = c.law;
        PairAdjoint<L> sums[2] = {};
        S energy_adj = {}, stored_adj = {}, masses_adj = {};
        for (int k = 0; k < 2; k++) {
            if (!c.count[k]) continue;
            const CoupledBody<T, S>&own = bodies->all[c.index[k]], &other = bodies->all[c.index[1 - k]];
            const Matrix<S> back = transpose(other.step.R);
            const Vector<S> apart = own.step.s.p - other.step.s.p;
            const Vector<S> force_adj = own.step.a_adj * own.body.inverse_mass -
                                        other.step.a_adj * other.body.inverse_mass - cross(own.step.t_adj, apart);
            SampleAnchors<T> own_anchors = {};
            if (law.sticking) own_anchors = anchors.in_stage_adjoint(c.number + k, step, stage);
            add_sample_adjoints<T>(c.contacts[k], c.count[k], c.lanes[k], broadcast(colliders[c.index[k]].radius), law,
                                  c.per_energy, c.stored, own_anchors, broadcast(back * force_adj),
                                  broadcast(back * (own.step.t_adj - other.step.t_adj)), sums[k]);
            S part;
            sum_lanes(sums[k].energy, part), energy_adj += part;
            sum_lanes(sums[k].stored, part), stored_adj += part;
        }
        const L total_adj = broadcast(energy_adj + T(2) * stored_adj * c.masses);
        Vector<S> w_adj[2] = {};
        for (int k = 0; k < 2; k++) {
            if (!c.count[k]) continue;
            add_distance_adjoints<T, S>(*all, colliders[c.index[k]], colliders[c.index[1 - k]], c.contacts[k], c.count[k],
                                        c.lanes[k], law, total_adj, sums[k]);
            add_body_adjoints(c, k, sums[k], w_adj);
            for (int row = 0; row < (law.restitution ? contact_gradients : (int)contact_row::count); row++) {
                S part;
                sum_lanes(sums[k].law[row], part);
                if (law.sticking && row == contact_row::kf)
                    masses_adj -= part * c.kf / c.masses;
                else
                    pair.law_adj[row] += part;
            }
        }
        S energy;
        if constexpr (sizeof(S) == sizeof(T)) energy = c.energy[0]; else energy = c.energy;
        for (int k = 0; k < 2; k++) {
            RigidStep<T, S>& step = bodies->all[c.index[k]].step;
            RigidBody<T, S>& body = bodies->all[c.index[k]].body;
            body.inverse_mass_adj += T(2) * energy * stored_adj + masses_adj;
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
            for (int row = 0; row < contact_gradients; row++)
                worlds.add(all->law.grad + row * all->law.stride + k, all->law_count, laws[k].law_adj[row]);
    }
};

}  // namespace gradsim
