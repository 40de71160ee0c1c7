// A rigid body, of one world or of several in lanes: its parameters, state and history, the forces on it, and their
// adjoints. ../state/kernels/rigid.py and ../forces/{rigid_contact,pushes,drag}.py define these; their portable kernels are
// the reference. Only the form differs: contact and spin are computed in the body's axes, and the adjoint of a rotation
// is a vector, the gradient with respect to a rotation about the world axes.
#pragma once
#include "anchors.h"
#include "signals.h"

namespace gradsim {

constexpr int PREFETCH = 2;  // rows of history

// Parameters and gradients of a body's contact with a shape, and of a push.
template <class S> struct ShapePair {
    S shape[shape_row::count];
    ContactLaw<S> law;
    ShapeAdjoint<S> adj;
    S law_adj[contact_gradients];
    int kind, flags;
    ShapeAnchors anchors;  // of sticking friction
};
template <class S> struct Push {
    Vector<S> force, point;
    S start, end;
    Vector<S> force_adj, point_adj;
};

// A prescribed motion at a time: position, velocity, quaternion y, its rate, and the angular velocity w.
template <class S> struct PrescribedMotion {
    Vector<S> p, v, w;
    Quaternion<S> y, rate, q;
    S per;
    Matrix<S> R;
    template <class Rows> LANES_MEMBER PrescribedMotion(const Rows& rows) {
        auto vector = [&](int k) LANES_LAMBDA { return Vector<S>{rows.c[k], rows.c[k + 1], rows.c[k + 2]}; };
        p = vector(rigid_motion_row::x), v = vector(rigid_motion_row::vx);
        y = {vector(rigid_motion_row::qx), rows.c[rigid_motion_row::qw]};
        rate = {vector(rigid_motion_row::rx), rows.c[rigid_motion_row::rw]};
        q = normalized(y);
        R = rotation_matrix(q);
        per = 2 / (dot(y.a, y.a) + y.w * y.w);
        w = (rate * conjugate(y)).a * per;
    }
};
template <class S> struct RigidAdjoint {
    Vector<S> p, rotation, v, l;
};

template <class T, class S> struct RigidBody {
    static_assert(sizeof(ShapePair<S>) <= sizes::pair_scratch * sizeof(S), "scratch memory of a pair");
    static_assert(sizeof(Push<S>) <= sizes::push_scratch * sizeof(S), "scratch memory of a push");
    typedef Lanes<T> L;
    typedef RigidAdjoint<S> Adjoint;
    const RigidBodies<T>& all;
    const RolloutClock<T>& clock;
    LaneWorlds<T, S> worlds;
    int index;
    S inverse_mass, radius;  // that of a sphere about the center of mass that contains all points
    Vector<S> gravity, center, scale;
    Symmetric<S> inverse_inertia;
    Points<T> points;  // in mesh coordinates
    int form;          // whether body coordinates differ from these by `scale`, and whether the body is a ball
    ShapePair<S>* pairs;
    Push<S>* pushes;
    int push_count = 0, drag = -1;  // element of the air drag on the body
    int touching, shapes;           // number among the bodies that touch shapes, and how many shapes it touches
    int motion;                     // element of its prescribed motion, or -1
    bool follows = false;           // whether it is a link that follows the joints of an articulated body
    S drag_linear = {}, drag_quadratic = {};
    Vector<S> drag_point = {};  // relative to the centre of mass; zero but for links
    T* rows;  // of the history

    BodyAnchors<T, S> anchors;

    S inverse_mass_adj = {}, drag_linear_adj = {}, drag_quadratic_adj = {};
    Vector<S> gravity_adj = {}, center_adj = {}, scale_adj = {}, drag_point_adj = {};
    Symmetric<S> inverse_inertia_adj = {};

    // `thread` counts bodies, then blocks of worlds; `scratch` holds the body's pairs and pushes.
    LANES_MEMBER RigidBody(const RigidBodies<T>& all_, const RolloutClock<T>& clock_, int thread, T* scratch)
        : all(all_), clock(clock_), worlds(all_.world_count, thread), index(thread / worlds.block_count(all_.world_count)),
          anchors(all_, worlds, index, clock_.record ? clock_.row / Tableau::stages : -1) {
        constexpr int width = LaneWorlds<T, S>::width;
        rows = all.history + ((long long)thread * all.row_count + clock.row) * sizes::rigid_state * width;
        auto value = [&](int row) LANES_LAMBDA {
            return worlds.read(all.body.value + row * all.body.stride + index, all.body_count);
        };
        inverse_mass = value(rigid_row::inverse_mass);
        gravity = {value(rigid_row::gravity_x), value(rigid_row::gravity_y), value(rigid_row::gravity_z)};
        center = {value(rigid_row::center_x), value(rigid_row::center_y), value(rigid_row::center_z)};
        for (int k = 0; k < 6; k++) inverse_inertia.c[k] = value(rigid_row::inverse_inertia_xx + k);
        scale = {value(rigid_row::scale_x), value(rigid_row::scale_y), value(rigid_row::scale_z)};
        form = all.forms[index];
        motion = all.moved[index];
        touching = all.touching[index], shapes = touching < 0 ? 0 : (int)all.shape_count;
        const int first = all.blocks[index];
        points = {all.points + (long long)first * sizes::point_block_rows * LaneTypes<T>::width,
                  all.blocks[index + 1] - first, all.sizes[index]};
        pairs = (ShapePair<S>*)scratch;
        pushes = (Push<S>*)(pairs + all.shape_count);
        load_forces();
    }

    LANES_MEMBER void load_forces() {
        S radius2 = {};
        for (int k = 0; k < (shapes ? points.count : 0); k++) {
            const Vector<T> x = points.point(k);
            const Vector<S> arm = {x.x * scale.x - center.x, x.y * scale.y - center.y, x.z * scale.z - center.z};
            radius2 = larger(dot(arm, arm), radius2);
        }
        radius = square_root(radius2) * T(1.0001);
        if (form == rigid_form::ball) radius += scale.x * T(1.0001);
        for (int j = 0; j < shapes; j++) {
            ShapePair<S>& pair = pairs[j];
            pair = {};
            pair.kind = all.kinds[j], pair.flags = all.flags[j];
            for (int k = 0; k < (pair.flags & shape_flag::moves ? shape_row::count : shape_row::vx); k++)
                pair.shape[k] = worlds.read(all.shape.value + k * all.shape.stride + j, all.shape_count);
            if (pair.kind == shape_kind::sphere)
                for (int k = 0; k < 3; k++) pair.shape[shape_row::bx + k] = pair.shape[k];
            const T* law = all.contact.value + touching * all.shape_count + j;
            const long long step = (long long)all.touching_count * all.shape_count;
            auto value = [&](int row) LANES_LAMBDA { return worlds.read(law + row * all.contact.stride, step); };
            const S delta = value(contact_row::delta), huge = S{} + T(1e30);
            const S per_delta = delta > 0 ? 1 / delta : huge;
            const S inverse = value(rigid_contact_row::inverse);
            const S stick = value(rigid_contact_row::stick_stiffness);
            const bool sticking = any(stick > 0);
            const S slow = sticking ? value(rigid_contact_row::stick_damping) / (inverse_mass * clock.dt)
                                    : value(contact_row::kf);
            pair.law = {value(contact_row::ke), value(contact_row::kd), slow, value(contact_row::mu),
                        delta, per_delta, any(delta <= 0), value(rigid_contact_row::loss),
                        value(rigid_contact_row::slope), value(rigid_contact_row::speed), inverse, any(inverse > 0),
                        stick, sticking};
            if (all.anchor_count)
                pair.anchors = {all.anchor_blocks[index * shapes + j], all.anchor_elements[touching * shapes + j], {}};
        }
        for (int e = 0; e < all.drag_count; e++) {
            if (all.dragged[e] != index) continue;
            auto value = [&](int row) LANES_LAMBDA {
                return worlds.read(all.drag.value + row * all.drag.stride + e, all.drag_count);
            };
            drag = e, drag_linear = value(drag_row::linear), drag_quadratic = value(drag_row::quadratic);
            drag_point = {value(drag_row::point_x), value(drag_row::point_y), value(drag_row::point_z)};
        }
        for (int e = 0; e < all.push_count; e++) {
            if (all.pushed[e] != index) continue;
            auto value = [&](int row) LANES_LAMBDA {
                return worlds.read(all.push.value + row * all.push.stride + e, all.push_count);
            };
            pushes[push_count++] = {{value(push_row::force_x), value(push_row::force_y), value(push_row::force_z)},
                                    {value(push_row::point_x), value(push_row::point_y), value(push_row::point_z)},
                                    value(push_row::start), value(push_row::end), {}, {}};
        }
    }

    // --- state ---------------------------------------------------------------------------------------------------

    LANES_MEMBER RigidState<S> load_state() const {
        const long long n = all.body_count, i = index;
        for_each_anchored([&](ShapePair<S>& pair) LANES_LAMBDA {
            anchors.load(all.xi, pair.anchors, anchors.at(pair.anchors, 0));
        });
        return {worlds.read3(all.p + 3 * i, 3 * n),
                {worlds.read3(all.q + 4 * i, 4 * n), worlds.read(all.q + 4 * i + 3, 4 * n)},
                worlds.read3(all.v + 3 * i, 3 * n),
                worlds.read3(all.l + 3 * i, 3 * n)};
    }
    // Saves the state after the last of `steps` steps.
    LANES_MEMBER void save_state(const RigidState<S>& s, int steps) const {
        const long long n = all.body_count, i = index;
        for_each_anchored([&](ShapePair<S>& pair) LANES_LAMBDA {
            const T* blocks = anchors.at(pair.anchors, steps);
            anchors.save(all.xi, pair.anchors, blocks[0] != 0 ? blocks : nullptr);
        });
        worlds.write3(all.p + 3 * i, 3 * n, s.p);
        worlds.write3(all.q + 4 * i, 4 * n, s.q.a), worlds.write(all.q + 4 * i + 3, 4 * n, s.q.w);
        worlds.write3(all.v + 3 * i, 3 * n, s.v);
        worlds.write3(all.l + 3 * i, 3 * n, s.l);
    }
    LANES_MEMBER void record(int row, const RigidState<S>& s) const {
        if (!clock.record) return;
        __builtin_memcpy(at(row), &s, sizeof(s));
        fetch<1>(at(row + PREFETCH));
    }
    LANES_MEMBER RigidState<S> recorded(int row) const {
        RigidState<S> s;
        __builtin_memcpy(&s, at(row), sizeof(s));
        fetch<0>(at(row - PREFETCH));
        return s;
    }
    LANES_MEMBER T* at(int row) const { return rows + (long long)row * sizes::rigid_state * LaneWorlds<T, S>::width; }
    // Prefetches a row for writing (1) or reading (0) some steps later.
    template <int write> LANES_MEMBER static void fetch(const T* row) {
        for (unsigned k = 0; k < sizeof(RigidState<S>); k += 64) __builtin_prefetch((const char*)row + k, write);
    }

    // --- forces --------------------------------------------------------------------------------------------------

    // Factor of a push at a stage, as `stage_factor` in ../forces/pushes.py.
    LANES_MEMBER S push_factor(const Push<S>& push, int step, int stage) const {
        const S own = step_factor(push, step, T(Tableau::force_slope[stage]));
        if (!Tableau::carries || stage == 0 || clock.starts_frame(step + 1)) return own;
        return (own + step_factor(push, step + 1, T(Tableau::force_slope[0]))) * T(0.5);
    }
    // The same as if the force were used in this step only; `slope` is that of the stage.
    LANES_MEMBER S step_factor(const Push<S>& push, int step, T slope) const {
        const T dt = clock.dt, number = T(clock.step + step), begin = number * dt;
        const S zero = {}, one = S{} + T(1), impulse = S{} + 1 / dt;
        const S first = smaller(larger((push.start - begin) / dt, zero), one);
        const S end = smaller(larger((push.end - begin) / dt, zero), one);
        const S impulse_step = __builtin_elementwise_floor(push.start / dt + T(1e-3));
        const S last = push.end < push.start ? first : end;
        const S part = push.end < push.start ? (impulse_step == number ? impulse : zero) : last - first;
        return part * (1 + (T(0.5) - T(0.5) * (first + last)) * slope);
    }

    // Velocity and spin relative to a shape, in the body's axes.
    LANES_MEMBER Motion<S> relative_motion(const ShapePair<S>& pair, const RigidState<S>& s, const Matrix<S>& R) const {
        const Vector<S> v = transpose(R) * s.v, w = inverse_inertia * (transpose(R) * s.l);
        if (!(pair.flags & shape_flag::moves)) return {center, v, w, inverse_mass};
        const ShapeMotion<S> shape(pair.shape);
        return {center, v - transpose(R) * shape.velocity(s.p), w - transpose(R) * shape.w, inverse_mass};
    }
    // Adds the adjoints of the shape's motion, for those of the relative velocity and spin in the body's axes.
    LANES_MEMBER void add_motion_adjoint(ShapePair<S>& pair, const RigidState<S>& s, const Matrix<S>& R,
                                         const Vector<S>& v_own, const Vector<S>& w_own, Adjoint& adj) const {
        const ShapeMotion<S> shape(pair.shape);
        const Vector<S> v_adj = R * v_own, w_adj = R * w_own;
        pair.adj.add_velocity(shape, s.p, -v_adj);
        pair.adj.w -= w_adj;
        adj.p -= cross(v_adj, shape.w);
        adj.rotation += cross(shape.w, w_adj);
    }

    // The state that a prescribed motion has at a fraction `stage` of a step.
    LANES_MEMBER RigidState<S> prescribed_state(int step, T stage) const {
        const PrescribedMotion<S> at(motion_rows(step, stage));
        const Vector<S> momentum = inverse(inverse_inertia) * (transpose(at.R) * at.w);
        return {at.p, at.q, at.v, at.R * momentum};
    }
    // Moves the adjoint of that state to the samples of the motion.
    LANES_MEMBER void add_prescribed_adjoint(int step, T stage, Adjoint& adj) {
        const PrescribedMotion<S> at(motion_rows(step, stage));
        const Symmetric<S> inertia = inverse(inverse_inertia);
        const Vector<S> momentum = inertia * (transpose(at.R) * at.w), spin_adj = inertia * (transpose(at.R) * adj.l);
        inverse_inertia_adj.add_adjoint(-spin_adj, momentum);
        const Vector<S> w_adj = at.R * spin_adj;
        const Vector<S> rotation = adj.rotation + cross(at.R * momentum, adj.l) - cross(at.w, w_adj);
        const Quaternion<S> rate = scaled(w_adj * at.y, at.per);
        const Quaternion<S> y = scaled(rotation * at.y, at.per) + scaled(w_adj * at.rate, -at.per) +
                                scaled(at.y, -at.per * dot(at.w, w_adj));
        const S rows[rigid_motion_row::count] = {adj.p.x, adj.p.y, adj.p.z, y.a.x,      y.a.y,      y.a.z,      y.w,
                                                 adj.v.x, adj.v.y, adj.v.z, rate.a.x, rate.a.y, rate.a.z, rate.w};
        for (int k = 0; k < all.motion_signal_count; k++) {
            const SignalArrays<T>& signal = all.motion_signals[k];
            if (signal.first == motion) add_sampled(signal, step, stage, rows[signal.row]);
        }
        adj = {};
    }
    struct MotionRows {
        S c[rigid_motion_row::count];
    };
    LANES_MEMBER MotionRows motion_rows(int step, T stage) const {
        MotionRows rows;
        for (int k = 0; k < all.motion_signal_count; k++) {
            const SignalArrays<T>& signal = all.motion_signals[k];
            if (signal.first == motion) rows.c[signal.row] = sampled(signal, step, stage);
        }
        return rows;
    }

    // Sets the rows of shapes that change in time to their values at a fraction `stage` of a step.
    LANES_MEMBER void sample_shapes(int step, T stage) const {
        for (int k = 0; k < all.shape_signal_count; k++) {
            const SignalArrays<T>& signal = all.shape_signals[k];
            pairs[signal.first].shape[signal.row] = sampled(signal, step, stage);
        }
        for (int j = 0; j < (all.shape_signal_count ? shapes : 0); j++)
            if (pairs[j].kind == shape_kind::sphere)
                for (int k = 0; k < 3; k++) pairs[j].shape[shape_row::bx + k] = pairs[j].shape[k];
    }
    // Moves the adjoints of these rows to the samples.
    LANES_MEMBER void add_shape_adjoints(int step, T stage) const {
        for (int j = 0; j < (all.shape_signal_count ? shapes : 0); j++) {
            ShapePair<S>& pair = pairs[j];
            if (!(pair.flags & shape_flag::moves)) continue;
            S rows[shape_row::count] = {};
            pair.adj.for_each_row(pair.shape, pair.kind, true, [&](int row, S value) LANES_LAMBDA { rows[row] = value; });
            for (int k = 0; k < all.shape_signal_count; k++) {
                const SignalArrays<T>& signal = all.shape_signals[k];
                if (signal.first != j) continue;
                add_sampled(signal, step, stage, rows[signal.row]);
                rows[signal.row] = {};
            }
            for (int row = 0; row < shape_row::count; row++)  // rows that are constant in time
                worlds.add(all.shape.grad + row * all.shape.stride + j, all.shape_count, rows[row]);
            pair.adj = {};
        }
    }
    // A signal of one element per world.
    LANES_MEMBER S sampled(const SignalArrays<T>& signal, int step, T stage) const {
        const SignalWeights<T> weights(signal, clock, step, stage);
        S value = {};
        for (int m = 0; m < weights.count; m++)
            value += worlds.read(signal.samples + weights.first + m, signal.sample_count) * weights.w[m];
        return value;
    }
    LANES_MEMBER void add_sampled(const SignalArrays<T>& signal, int step, T stage, const S& adj) const {
        const SignalWeights<T> weights(signal, clock, step, stage);
        for (int m = 0; m < weights.count; m++)
            worlds.add(signal.samples_grad + weights.first + m, signal.sample_count, adj * weights.w[m]);
    }

    // Calls visit(pair, shape, plane) for shapes that may be in contact, in the body's frame.
    template <class F> LANES_MEMBER void for_each_shape(const Matrix<S>& R, const Vector<S>& p, F visit) const {
        const Frame<S> frame = {R, p, center};
        for (int j = 0; j < shapes; j++) {
            ShapePair<S>& pair = pairs[j];
            if (pair.kind == shape_kind::plane) {
                const Plane<S> shape(pair.shape, frame);
                if (any(shape.distance(center) < radius)) visit(pair, shape, true);
            } else if (pair.kind == shape_kind::box) {
                const Box<S> shape(pair.shape, frame);
                if (any(shape.distance(center) < radius)) visit(pair, shape, false);
            } else {
                const Capsule<S> shape(pair.shape, frame);
                if (any(shape.distance(center) < radius)) visit(pair, shape, false);
            }
        }
    }

    // Calls visit with the pairs that have anchors: all of a body that sticks to some shape.
    template <class F> LANES_MEMBER void for_each_anchored(F visit) const {
        if (!all.anchor_count) return;
        for (int j = 0; j < shapes; j++)
            if (pairs[j].anchors.block >= 0) visit(pairs[j]);
    }

    // Calls visit with the body's surface.
    template <class F> LANES_MEMBER void with_surface(F visit) const {
        if (form == rigid_form::ball)
            visit(Ball<L>(broadcast(scale.x)));
        else if (form == rigid_form::sized_mesh)
            visit(SizedMesh<L>(broadcast(scale), broadcast(larger(scale.x, larger(scale.y, scale.z)))));
        else
            visit(Mesh<L>{});
    }

    // Force and torque about the center of mass at a stage of a step, in world axes.
    LANES_MEMBER void forces(const RigidState<S>& s, const Matrix<S>& R, int step, int stage, Vector<S>& f,
                             Vector<S>& t) const {
        f = {}, t = {};
        if (stage == Tableau::anchor_stage)
            for_each_anchored([&](ShapePair<S>& pair) LANES_LAMBDA { anchors.reset_next(pair.anchors, step); });
        if (shapes) {
            Vector<L> force = {}, torque = {};
            bool in_contact = false;
            for_each_shape(R, s.p, [&](ShapePair<S>& pair, const auto& shape, bool) LANES_LAMBDA {
                const Motion<L> motion = broadcast(relative_motion(pair, s, R));
                Anchors<T> own;
                if (pair.law.sticking) own = anchors.in_stage(pair.anchors, R, step, stage, clock.dt);
                with_surface([&](const auto& surface) LANES_LAMBDA {
                    in_contact |= add_contact<T, S>(points, broadcast(shape), surface, broadcast(pair.law), motion, &own,
                                                    force, torque);
                });
            });
            if (in_contact) {
                Vector<S> sum;
                sum_lanes(force, sum);
                f = R * sum;
                sum_lanes(torque, sum);
                t = R * sum;
            }
        }
        for (int e = 0; e < push_count; e++) {
            const S part = push_factor(pushes[e], step, stage);
            if (!any(part != 0)) continue;
            const Vector<S> force = pushes[e].force * part;
            f += force;
            t += cross(R * (pushes[e].point - center), force);
        }
        if (drag >= 0) {
            const Vector<S> arm = R * drag_point, v = s.v + cross(s.l, arm);  // of links, l is the angular velocity
            const Vector<S> force = -(v * (drag_linear + drag_quadratic * length(v)));
            f += force, t += cross(arm, force);
        }
    }

    // --- adjoints ------------------------------------------------------------------------------------------------

    // Adds the adjoints of the spin J R' l in the body's axes, for its adjoint w.
    LANES_MEMBER void add_spin_adjoint(const Vector<S>& w, const Matrix<S>& R, const Vector<S>& l, Adjoint& adj) {
        inverse_inertia_adj.add_adjoint(w, transpose(R) * l);
        const Vector<S> a = R * (inverse_inertia * w);
        adj.l += a;
        adj.rotation += cross(a, l);
    }

    // Adds the adjoints of state and parameters, for the adjoint a_adj of the acceleration and t_adj of the torque;
    // returns the force in world axes.
    LANES_MEMBER Vector<S> add_forces_adjoint(const RigidState<S>& s, const Matrix<S>& R, int step, int stage,
                                              const Vector<S>& a_adj, const Vector<S>& t_adj, Adjoint& adj) {
        if (stage == Tableau::stages - 1) {  // adjoints of the anchors after the step are complete
            anchors.side = !anchors.side;
            for_each_anchored([&](ShapePair<S>& pair) LANES_LAMBDA { pair.anchors.used[anchors.side] = false; });
        }
        const Vector<S> f_adj = a_adj * inverse_mass;
        Vector<S> total = {};
        if (!follows) gravity_adj += a_adj;
        if (shapes) {
            const Vector<S> f_own = transpose(R) * f_adj, t_own = transpose(R) * t_adj;
            for_each_shape(R, s.p, [&](ShapePair<S>& pair, const auto& shape, bool plane) LANES_LAMBDA {
                ShapeAdjoint<L> shape_sum;
                const bool varies = pair.flags && !plane;
                if (varies) shape_sum = {};
                const Motion<S> motion = relative_motion(pair, s, R);
                Anchors<T> own;
                if (pair.law.sticking) own = anchors.in_stage_adjoint(pair.anchors, R, step, stage, clock.dt);
                with_surface([&](const auto& surface) LANES_LAMBDA {
                    auto finish = [&](const RigidContactAdjoint<L>& sum, auto kind) LANES_LAMBDA {
                        total += R * add_pair_adjoint<decltype(kind)>(pair, s, R, motion, f_own, t_own, plane, sum, adj);
                    };
                    with_contact_adjoint<T, S>(points, broadcast(shape), surface, broadcast(pair.law), broadcast(motion),
                                               &own, broadcast(f_own), broadcast(t_own), plane,
                                               varies ? &shape_sum : nullptr, finish);
                });
            });
        }
        for (int e = 0; e < push_count; e++) {
            Push<S>& push = pushes[e];
            const S part = push_factor(push, step, stage);
            if (!any(part != 0)) continue;
            const Vector<S> force = push.force * part, arm = R * (push.point - center), arm_adj = cross(force, t_adj);
            const Vector<S> point_adj = transpose(R) * arm_adj;
            total += force;
            push.force_adj += (f_adj + cross(t_adj, arm)) * part;
            push.point_adj += point_adj;
            center_adj -= point_adj;
            adj.rotation += cross(arm, arm_adj);
        }
        if (drag >= 0) total += add_drag_adjoint(s, R, f_adj, t_adj, adj);
        return total;
    }
    // Adds the adjoints of the contact with a shape, from their sums over the points; returns the force in the body's
    // axes.
    template <class Kind>
    LANES_MEMBER Vector<S> add_pair_adjoint(ShapePair<S>& pair, const RigidState<S>& s, const Matrix<S>& R,
                                            const Motion<S>& motion, const Vector<S>& f_own, const Vector<S>& t_own,
                                            bool plane, const RigidContactAdjoint<L>& sum, Adjoint& adj) {
        Vector<S> force, torque, v_own, w_own, x, rotation;
        sum_lanes(sum.force, force), sum_lanes(sum.torque, torque);
        sum_lanes(sum.v, v_own), sum_lanes(sum.w, w_own);
        if (plane) {
            Vector<S> normal;
            S distance;
            sum_lanes(sum.normal, normal), sum_lanes(sum.distance, distance);
            const Vector<S> n = transpose(R) * first_vector(pair.shape);
            pair.adj.first += R * normal + s.p * distance;
            pair.adj.radius -= distance;
            x = n * distance;
            rotation = cross(normal, n);
        } else {
            sum_lanes(sum.x, x), sum_lanes(sum.rotation, rotation);
        }
        if (sum.shape) {
            ShapeAdjoint<S> own;
            sum_lanes(*sum.shape, own);
            pair.adj.first += R * own.first, pair.adj.radius += own.radius;
            pair.adj.second += pair.kind == shape_kind::box ? own.second : R * own.second;
            pair.adj.rotation += R * own.rotation;
        }
        auto added = [&](const L& term) LANES_LAMBDA {
            S part;
            sum_lanes(term, part);
            return part;
        };
        for (int k = 0; k < contact_row::count; k++) pair.law_adj[k] += added(sum.law[k]);
        if constexpr (Kind::other) {
            if (pair.law.sticking) {
                Vector<S> part;
                sum_lanes(sum.anchors, part);
                rotation += part;
            }
            if (pair.law.restitution) {
                for (int k = contact_row::count; k < contact_gradients; k++) pair.law_adj[k] += added(sum.law[k]);
                inverse_mass_adj += added(sum.inverse_mass);
            }
            if (form == rigid_form::ball) scale_adj.x += added(sum.radius);
        }
        if (Kind::sized) {
            Vector<S> factors;
            sum_lanes(sum.scale, factors);
            scale_adj += Vector<S>{factors.x / scale.x, factors.y / scale.y, factors.z / scale.z};
        }
        center_adj -= x + cross(v_own, motion.w) + cross(force, t_own);
        adj.p += R * x;
        adj.v += R * v_own;
        adj.rotation += R * (rotation + cross(v_own, motion.v) + cross(force, f_own) + cross(torque, t_own));
        add_spin_adjoint(w_own, R, s.l, adj);
        if (pair.flags & shape_flag::moves) add_motion_adjoint(pair, s, R, v_own, w_own, adj);
        return force;
    }
    // Adds the adjoints of the air drag, and returns it.
    LANES_MEMBER Vector<S> add_drag_adjoint(
        const RigidState<S>& s, const Matrix<S>& R, const Vector<S>& f_adj, const Vector<S>& t_adj, Adjoint& adj) {
        const Vector<S> arm = R * drag_point, v = s.v + cross(s.l, arm);
        const Vector<S> moved = f_adj + cross(t_adj, arm);  // virtual velocity of the point
        const S speed = length(v), power = dot(moved, v), k = drag_linear + drag_quadratic * speed;
        drag_linear_adj -= power;
        drag_quadratic_adj -= power * speed;
        const Vector<S> v_adj = -(moved * k + v * (drag_quadratic * power / (speed + (S{} + T(1e-30)))));
        const Vector<S> arm_adj = cross(t_adj, v) * k + cross(v_adj, s.l);
        adj.v += v_adj, adj.l += cross(arm, v_adj), adj.rotation += cross(arm, arm_adj);
        drag_point_adj += transpose(R) * arm_adj;
        return -(v * k);
    }
    // Adds a stage's term of the inverse mass's adjoint, for its total force.
    LANES_MEMBER void add_mass_adjoint(const Vector<S>& a_adj, const Vector<S>& force) {
        inverse_mass_adj += dot(a_adj, force);
    }

    LANES_MEMBER Adjoint load_adjoint(const RigidState<S>& s) const {
        const long long n = all.body_count, i = index;
        for_each_anchored([&](ShapePair<S>& pair) LANES_LAMBDA {
            anchors.load(all.xi_adj, pair.anchors, anchors.adjoints(pair.anchors, anchors.side));
            pair.anchors.used[anchors.side] = true;
        });
        const Quaternion<S> q = {worlds.read3(all.q_adj + 4 * i, 4 * n), worlds.read(all.q_adj + 4 * i + 3, 4 * n)};
        const Vector<S> rotation = (q * conjugate(s.q)).a * T(0.5);
        return {worlds.read3(all.p_adj + 3 * i, 3 * n), rotation, worlds.read3(all.v_adj + 3 * i, 3 * n),
                worlds.read3(all.l_adj + 3 * i, 3 * n)};
    }
    LANES_MEMBER void save_adjoint(const RigidState<S>& s, const Adjoint& adj) const {
        const long long n = all.body_count, i = index;
        for_each_anchored([&](ShapePair<S>& pair) LANES_LAMBDA {
            const T* blocks = anchors.adjoints(pair.anchors, anchors.side);
            anchors.save(all.xi_adj, pair.anchors, pair.anchors.used[anchors.side] ? blocks : nullptr);
        });
        const Quaternion<S> q = (adj.rotation + adj.rotation) * s.q;
        worlds.write3(all.p_adj + 3 * i, 3 * n, adj.p);
        worlds.write3(all.q_adj + 4 * i, 4 * n, q.a), worlds.write(all.q_adj + 4 * i + 3, 4 * n, q.w);
        worlds.write3(all.v_adj + 3 * i, 3 * n, adj.v);
        worlds.write3(all.l_adj + 3 * i, 3 * n, adj.l);
    }
    LANES_MEMBER void add_gradients() const {
        auto add = [&](const Table<T>& table, int row, int element, long long step, S value) LANES_LAMBDA {
            worlds.add(table.grad + row * table.stride + element, step, value);
        };
        auto add3 = [&](const Table<T>& table, int row, int element, long long step, const Vector<S>& a) LANES_LAMBDA {
            add(table, row, element, step, a.x), add(table, row + 1, element, step, a.y);
            add(table, row + 2, element, step, a.z);
        };
        const long long bodies = all.body_count;
        S mass_adj = inverse_mass_adj;  // that of sticking friction includes kf, which is proportional to the mass
        for_each_anchored([&](ShapePair<S>& pair) LANES_LAMBDA {
            if (!pair.law.sticking) return;
            mass_adj -= pair.law_adj[contact_row::kf] * pair.law.kf / inverse_mass;
            pair.law_adj[contact_row::kf] = {};
        });
        add(all.body, rigid_row::inverse_mass, index, bodies, mass_adj);
        add3(all.body, rigid_row::gravity_x, index, bodies, gravity_adj);
        add3(all.body, rigid_row::center_x, index, bodies, center_adj);
        for (int k = 0; k < 6; k++)
            add(all.body, rigid_row::inverse_inertia_xx + k, index, bodies, inverse_inertia_adj.c[k]);
        add3(all.body, rigid_row::scale_x, index, bodies, scale_adj);
        for (int j = 0; j < shapes; j++) {
            const ShapePair<S>& pair = pairs[j];
            if (pair.flags)
                pair.adj.for_each_row(pair.shape, pair.kind, pair.flags & shape_flag::moves, [&](int row, S value) LANES_LAMBDA {
                    add(all.shape, row, j, shapes, value);
                });
            for (int k = 0; k < (pair.law.restitution ? contact_gradients : (int)contact_row::count); k++)
                add(all.contact, k, touching * shapes + j, all.touching_count * shapes, pair.law_adj[k]);
        }
        if (drag >= 0) {
            add(all.drag, drag_row::linear, drag, all.drag_count, drag_linear_adj);
            add(all.drag, drag_row::quadratic, drag, all.drag_count, drag_quadratic_adj);
            add3(all.drag, drag_row::point_x, drag, all.drag_count, drag_point_adj);
        }
        for (int e = 0, own = 0; e < all.push_count; e++) {
            if (all.pushed[e] != index) continue;
            const Push<S>& push = pushes[own++];
            add3(all.push, push_row::force_x, e, all.push_count, push.force_adj);
            add3(all.push, push_row::point_x, e, all.push_count, push.point_adj);
        }
    }
};

}  // namespace gradsim
