// A rigid body, of one world or of several in lanes: its parameters, state and history, the forces on it, and their
// adjoints. What these mean stands in ../rigid.py and ../touch.py, whose portable kernels are the reference.
#pragma once
#include "touch.h"
#include "worlds.h"

namespace gradsim {

// A body and a shape, a push: their parameters, and the gradients gathered for them.
template <class S> struct Pair {
    S shape[11];
    Law<S> law;
    Vector<S> normal_adj;
    S offset_adj, law_adj[5];
    int kind;
};
template <class S> struct Push {
    Vector<S> force, point;
    S start, end;
    Vector<S> force_adj, point_adj;
};

template <class T, class S> struct Body {
    static_assert(sizeof(Pair<S>) <= 32 * sizeof(S) && sizeof(Push<S>) <= 16 * sizeof(S), "the room in ../march.py");
    typedef Lanes<T> L;
    const Rigids<T>& all;
    Worlds<T, S> worlds;
    int index;
    S inverse_mass, reach;
    Vector<S> gravity, center;
    Symmetric<S> inverse_inertia;
    Points<T> points;
    Pair<S>* pairs;
    Push<S>* pushes;
    int push_count = 0;
    T* rows;  // of the history

    S inverse_mass_adj = {};
    Vector<S> gravity_adj = {}, center_adj = {};
    Symmetric<S> inverse_inertia_adj = {};

    LANES_MEMBER Body(const Rigids<T>& all_, int thread) : all(all_) {
        constexpr int width = Worlds<T, S>::width;
        const int block_count = (all.world_count + width - 1) / width, block = thread % block_count;
        index = thread / block_count;
        worlds.first = (long long)block * width;
        worlds.count = all.world_count - block * width < width ? all.world_count - block * width : (int)width;
        rows = all.history + ((long long)thread * all.row_count + all.first_row) * STATE * width;
        auto value = [&](int row) LANES_LAMBDA {
            return worlds.read(all.body + row * all.body_stride + index, all.body_count);
        };
        inverse_mass = value(0);
        gravity = {value(1), value(2), value(3)};
        center = {value(4), value(5), value(6)};
        for (int k = 0; k < 6; k++) inverse_inertia.c[k] = value(7 + k);
        const int first = all.blocks[index];
        points = {all.points + (long long)first * BLOCK_ROWS * LaneTypes<T>::width, all.blocks[index + 1] - first,
                  all.sizes[index]};
        pairs = (Pair<S>*)all.room;
        pushes = (Push<S>*)(pairs + all.shape_count);
        load_forces();
    }

    LANES_MEMBER void load_forces() {
        S reach2 = {};
        for (int k = 0; k < (all.shape_count ? points.count : 0); k++) {
            const Vector<T> x = points.point(k);
            const Vector<S> arm = {x.x - center.x, x.y - center.y, x.z - center.z};
            reach2 = __builtin_elementwise_max(reach2, dot(arm, arm));
        }
        reach = square_root(reach2) * T(1.0001);
        for (int j = 0; j < all.shape_count; j++) {
            Pair<S>& pair = pairs[j];
            pair = {};
            pair.kind = all.kinds[j];
            for (int k = 0; k < 11; k++)
                pair.shape[k] = worlds.read(all.shape + k * all.shape_stride + j, all.shape_count);
            if (pair.kind == SPHERE)
                for (int k = 0; k < 3; k++) pair.shape[4 + k] = pair.shape[k];
            const T* law = all.law + index * all.shape_count + j;
            const long long step = (long long)all.body_count * all.shape_count;
            auto value = [&](int row) LANES_LAMBDA { return worlds.read(law + row * all.law_stride, step); };
            const S delta = value(4), never = S{} + T(1e30);
            const S per_delta = delta > 0 ? 1 / delta : never;
            pair.law = {value(0), value(1), value(2), value(3), delta, per_delta, any(delta <= 0)};
        }
        for (int e = 0; e < all.push_count; e++) {
            if (all.pushed[e] != index) continue;
            auto value = [&](int row) LANES_LAMBDA {
                return worlds.read(all.push + row * all.push_stride + e, all.push_count);
            };
            pushes[push_count++] = {{value(0), value(1), value(2)}, {value(3), value(4), value(5)}, value(6), value(7),
                                    {}, {}};
        }
    }

    // --- state ---------------------------------------------------------------------------------------------------

    LANES_MEMBER State<S> load_state() const {
        const long long n = all.body_count, i = index;
        return {worlds.read3(all.p + 3 * i, 3 * n),
                {worlds.read3(all.q + 4 * i, 4 * n), worlds.read(all.q + 4 * i + 3, 4 * n)},
                worlds.read3(all.v + 3 * i, 3 * n),
                worlds.read3(all.l + 3 * i, 3 * n)};
    }
    LANES_MEMBER void save_state(const State<S>& s) const {
        const long long n = all.body_count, i = index;
        worlds.write3(all.p + 3 * i, 3 * n, s.p);
        worlds.write3(all.q + 4 * i, 4 * n, s.q.a), worlds.write(all.q + 4 * i + 3, 4 * n, s.q.w);
        worlds.write3(all.v + 3 * i, 3 * n, s.v);
        worlds.write3(all.l + 3 * i, 3 * n, s.l);
    }
    LANES_MEMBER void record(int row, const State<S>& s) const {
        if (!all.keep) return;
        __builtin_memcpy(at(row), &s, sizeof(s));
        fetch<1>(at(row + AHEAD));
    }
    LANES_MEMBER State<S> recorded(int row) const {
        State<S> s;
        __builtin_memcpy(&s, at(row), sizeof(s));
        fetch<0>(at(row - AHEAD));
        return s;
    }
    LANES_MEMBER T* at(int row) const { return rows + (long long)row * STATE * Worlds<T, S>::width; }
    // Brings a row near that will be written (1) or read (0) some steps later.
    template <int write> LANES_MEMBER static void fetch(const T* row) {
        for (unsigned k = 0; k < sizeof(State<S>); k += 64) __builtin_prefetch((const char*)row + k, write);
    }

    // --- forces --------------------------------------------------------------------------------------------------

    // Part of this step's time that a push acts; see `share` in ../touch.py.
    LANES_MEMBER S share(const Push<S>& push, int step) const {
        const T dt = all.dt, number = T(all.first_step + step), begin = number * dt;
        const S from = __builtin_elementwise_max(push.start, S{} + begin);
        const S till = __builtin_elementwise_min(push.end, S{} + (begin + dt));
        const S part = __builtin_elementwise_max(till - from, S{}) * (1 / dt), whole = S{} + 1 / dt;
        const S moment = __builtin_elementwise_floor(push.start / dt + T(1e-3));
        return push.end < push.start ? (moment == number ? whole : S{}) : part;
    }

    // Calls visit(pair, shape, law) with the shape as the body sees it, unless it is out of reach.
    template <class F> LANES_MEMBER void each_shape(const Rotation<S>& R, const Vector<S>& p, F visit) const {
        const View<S> view = {R, p, center};
        for (int j = 0; j < all.shape_count; j++) {
            Pair<S>& pair = pairs[j];
            if (pair.kind == PLANE) {
                const Plane<S> shape(pair.shape, view);
                if (any(shape.gap(center) < reach)) visit(pair, shape, true);
            } else if (pair.kind == BOX) {
                const Box<S> shape(pair.shape, view);
                if (any(shape.gap(center) < reach)) visit(pair, shape, false);
            } else {
                const Round<S> shape(pair.shape, view);
                if (any(shape.gap(center) < reach)) visit(pair, shape, false);
            }
        }
    }

    // Force and torque about the centre, in the world's axes.
    LANES_MEMBER void forces(const State<S>& s, const Rotation<S>& R, int step, Vector<S>& f, Vector<S>& t) const {
        f = {}, t = {};
        if (all.shape_count) {
            Vector<L> force = {}, torque = {};
            bool touched = false;
            const Vector<S> v = R.back(s.v), w = inverse_inertia * R.back(s.l);
            const Motion<L> motion = {lift(center), lift(v), lift(w)};
            each_shape(R, s.p, [&](Pair<S>& pair, const auto& shape, bool) LANES_LAMBDA {
                touched |= add_touch<T, S>(points, lift(shape), lift(pair.law), motion, force, torque);
            });
            if (touched) {
                Vector<S> sum;
                fold(force, sum);
                f = R * sum;
                fold(torque, sum);
                t = R * sum;
            }
        }
        for (int e = 0; e < push_count; e++) {
            const S part = share(pushes[e], step);
            if (!any(part > 0)) continue;
            const Vector<S> force = pushes[e].force * part;
            f += force;
            t += cross(R * (pushes[e].point - center), force);
        }
    }

    // --- adjoints ------------------------------------------------------------------------------------------------

    struct Adjoint {
        Vector<S> p, turn, v, l;
    };

    // Of J R' l, for its adjoint w.
    LANES_MEMBER void add_spin_adjoint(const Vector<S>& w, const Rotation<S>& R, const Vector<S>& l, Adjoint& adj) {
        inverse_inertia_adj.add_adjoint(w, R.back(l));
        const Vector<S> a = R * (inverse_inertia * w);
        adj.l += a;
        adj.turn += cross(a, l);
    }

    // From the change v_adj of the velocity and the adjoint t of the torque, to state and parameters.
    LANES_MEMBER void add_forces_adjoint(const State<S>& s, const Rotation<S>& R, int step, const Vector<S>& v_adj,
                                         const Vector<S>& t_adj, Adjoint& adj) {
        const Vector<S> f_adj = v_adj * inverse_mass;
        gravity_adj += v_adj;
        if (all.shape_count) {
            const Vector<S> v = R.back(s.v), w = inverse_inertia * R.back(s.l);
            const Vector<S> f_own = R.back(f_adj), t_own = R.back(t_adj);
            const Motion<L> motion = {lift(center), lift(v), lift(w)};
            each_shape(R, s.p, [&](Pair<S>& pair, const auto& shape, bool plane) LANES_LAMBDA {
                TouchAdjoint<L> sum = {};
                if (!add_touch_adjoint<T, S>(points, lift(shape), lift(pair.law), motion, lift(f_own), lift(t_own),
                                             plane, sum))
                    return;
                Vector<S> force, torque, v_own, w_own, x, turn;
                fold(sum.force, force), fold(sum.torque, torque), fold(sum.v, v_own), fold(sum.w, w_own);
                if (plane) {
                    Vector<S> normal;
                    S gap;
                    fold(sum.normal, normal), fold(sum.gap, gap);
                    const Vector<S> up = {pair.shape[0], pair.shape[1], pair.shape[2]}, n = R.back(up);
                    pair.normal_adj += R * normal + s.p * gap;
                    pair.offset_adj -= gap;
                    x = n * gap;
                    turn = cross(normal, n);
                } else {
                    fold(sum.x, x), fold(sum.turn, turn);
                }
                for (int k = 0; k < 5; k++) {
                    S part;
                    fold(sum.law[k], part);
                    pair.law_adj[k] += part;
                }
                inverse_mass_adj += dot(R.back(v_adj), force);
                center_adj -= x + cross(v_own, w) + cross(force, t_own);
                adj.p += R * x;
                adj.v += R * v_own;
                adj.turn += R * (turn + cross(v_own, v) + cross(force, f_own) + cross(torque, t_own));
                add_spin_adjoint(w_own, R, s.l, adj);
            });
        }
        for (int e = 0; e < push_count; e++) {
            Push<S>& push = pushes[e];
            const S part = share(push, step);
            if (!any(part > 0)) continue;
            const Vector<S> force = push.force * part, arm = R * (push.point - center), arm_adj = cross(force, t_adj);
            const Vector<S> point_adj = R.back(arm_adj);
            inverse_mass_adj += dot(v_adj, force);
            push.force_adj += (f_adj + cross(t_adj, arm)) * part;
            push.point_adj += point_adj;
            center_adj -= point_adj;
            adj.turn += cross(arm, arm_adj);
        }
    }

    LANES_MEMBER Adjoint load_adjoint(const RigidGradients<T>& g, const State<S>& s) const {
        const long long n = all.body_count, i = index;
        const Quaternion<S> q = {worlds.read3(g.q + 4 * i, 4 * n), worlds.read(g.q + 4 * i + 3, 4 * n)};
        const Vector<S> turn = (q * conjugate(s.q)).a * T(0.5);
        return {worlds.read3(g.p + 3 * i, 3 * n), turn, worlds.read3(g.v + 3 * i, 3 * n),
                worlds.read3(g.l + 3 * i, 3 * n)};
    }
    LANES_MEMBER void save_adjoint(const RigidGradients<T>& g, const State<S>& s, const Adjoint& adj) const {
        const long long n = all.body_count, i = index;
        const Quaternion<S> q = (adj.turn + adj.turn) * s.q;
        worlds.write3(g.p + 3 * i, 3 * n, adj.p);
        worlds.write3(g.q + 4 * i, 4 * n, q.a), worlds.write(g.q + 4 * i + 3, 4 * n, q.w);
        worlds.write3(g.v + 3 * i, 3 * n, adj.v);
        worlds.write3(g.l + 3 * i, 3 * n, adj.l);
    }
    LANES_MEMBER void add_gradients(const RigidGradients<T>& g) const {
        const S found[STATE] = {inverse_mass_adj, gravity_adj.x, gravity_adj.y, gravity_adj.z,
                                center_adj.x,     center_adj.y,  center_adj.z,  inverse_inertia_adj.c[0],
                                inverse_inertia_adj.c[1], inverse_inertia_adj.c[2], inverse_inertia_adj.c[3],
                                inverse_inertia_adj.c[4], inverse_inertia_adj.c[5]};
        for (int k = 0; k < STATE; k++)
            worlds.add(g.body + k * all.body_stride + index, all.body_count, found[k]);
        for (int j = 0; j < all.shape_count; j++) {
            const Pair<S>& pair = pairs[j];
            const S plane[4] = {pair.normal_adj.x, pair.normal_adj.y, pair.normal_adj.z, pair.offset_adj};
            for (int k = 0; k < 4; k++) worlds.add(g.shape + k * all.shape_stride + j, all.shape_count, plane[k]);
            for (int k = 0; k < 5; k++)
                worlds.add(g.law + k * all.law_stride + index * all.shape_count + j,
                           (long long)all.body_count * all.shape_count, pair.law_adj[k]);
        }
        for (int e = 0, own = 0; e < all.push_count; e++) {
            if (all.pushed[e] != index) continue;
            const Push<S>& push = pushes[own++];
            const S found[6] = {push.force_adj.x, push.force_adj.y, push.force_adj.z,
                                push.point_adj.x, push.point_adj.y, push.point_adj.z};
            for (int k = 0; k < 6; k++) worlds.add(g.push + k * all.push_stride + e, all.push_count, found[k]);
        }
    }
};

}  // namespace gradsim
