// Contact of nodes and face centres with moving rigid bodies, and its adjoint, one point at a time.
// ../forces/node_rigid_contact.py defines it; its portable kernel is the reference.
#pragma once
#include "contact_law.h"
#include "tethers.h"

namespace gradsim {

// A contact point: mean of its three nodes, in the frame of a rigid body.
template <class T> struct ContactPoint {
    const int* id;
    int body;
    const T* rows;
    long long stride;
    Vector<T> arm, local, half, n_local, n;
    T gap, depth;
    LANES_MEMBER ContactPoint(const ForceArrays<T>& arrays, long long e, const Nodes<T>& nodes, const CoupledBody<T>* bodies)
        : id(arrays.ints(0) + 3 * e), body(arrays.ints(1)[e]), rows(arrays.tables[0].value + e),
          stride(arrays.tables[0].stride) {
        const RigidStep<T, T>& b = bodies[body].step;
        arm = mean(nodes.x) - b.s.p;
        half = vector(node_rigid_row::hx);
        const Vector<T> away = arm - b.R * (vector(node_rigid_row::mx) - bodies[body].body.center);
        const T far = row(node_rigid_row::reach) + length(half);
        depth = 0;
        if (dot(away, away) >= far * far) return;
        local = transpose(b.R) * away;
        const Vector<T> q = {magnitude(local.x) - half.x, magnitude(local.y) - half.y, magnitude(local.z) - half.z};
        const Vector<T> sign = {local.x < 0 ? T(-1) : T(1), local.y < 0 ? T(-1) : T(1), local.z < 0 ? T(-1) : T(1)};
        gap = larger(larger(q.x, q.y), q.z);
        if (gap > 0) {
            const Vector<T> out = {larger(q.x, T(0)), larger(q.y, T(0)), larger(q.z, T(0))};
            gap = length(out);
            n_local = multiply(sign, out) * (1 / gap);
        } else {
            n_local = q.x >= q.y && q.x >= q.z ? Vector<T>{sign.x, 0, 0} : q.y >= q.z ? Vector<T>{0, sign.y, 0}
                                                                                    : Vector<T>{0, 0, sign.z};
        }
        depth = row(node_rigid_row::reach) - gap;
        n = b.R * n_local;
    }
    LANES_MEMBER T row(int k) const { return rows[k * stride]; }
    LANES_MEMBER Vector<T> vector(int k) const { return {row(k), row(k + 1), row(k + 2)}; }
    LANES_MEMBER Vector<T> mean(const T* x) const {
        return (node_vector(x, id[0]) + node_vector(x, id[1]) + node_vector(x, id[2])) * T(1.0 / 3.0);
    }
    LANES_MEMBER void add_mean(T* x, const Vector<T>& a) const {
        for (int k = 0; k < 3; k++) add_node_vector(x, id[k], a * T(1.0 / 3.0));
    }
    LANES_MEMBER ContactLaw<Lanes<T>> law() const {
        const T delta = row(contact_row::delta);
        return {splat(row(contact_row::ke)), splat(row(contact_row::kd)), splat(row(contact_row::kf)),
                splat(row(contact_row::mu)), splat(delta), splat(delta > 0 ? 1 / delta : T(1e30)), !(delta > 0)};
    }
    // Spin of the rigid body, and velocity of the point relative to it.
    LANES_MEMBER Vector<T> spin(const CoupledBody<T>& b) const {
        return b.step.R * (b.body.inverse_inertia * (transpose(b.step.R) * b.step.s.l));
    }
    LANES_MEMBER Vector<T> velocity(const CoupledBody<T>& b, const Vector<T>& w, const Nodes<T>& nodes) const {
        return mean(nodes.v) - b.step.s.v - cross(w, arm);
    }
    // Hessian of the distance times a, in the body's axes.
    LANES_MEMBER Vector<T> hessian(const Vector<T>& a) const {
        if (!(gap > 0)) return {};
        const Vector<T> outward = {magnitude(local.x) > half.x ? a.x : T(0), magnitude(local.y) > half.y ? a.y : T(0),
                                   magnitude(local.z) > half.z ? a.z : T(0)};
        return (outward - n_local * dot(n_local, a)) * (1 / gap);
    }
};
template <class L> LANES_INLINE auto first_lane(const Vector<L>& a) {
    return Vector<decltype(a.x[0] + 0)>{a.x[0], a.y[0], a.z[0]};
}

template <class T>
static __attribute__((noinline)) void node_rigid_force(const ForceArrays<T>& arrays, long long e, const Nodes<T>& nodes,
                                                       CoupledBody<T>* bodies) {
    const ContactPoint<T> point(arrays, e, nodes, bodies);
    if (!(point.depth > 0)) return;
    CoupledBody<T>& b = bodies[point.body];
    const Vector<T> u = point.velocity(b, point.spin(b), nodes);
    const Vector<T> force = first_lane(contact_force<T>(point.law(), splat(point.depth), broadcast(point.n), broadcast(u)));
    point.add_mean(nodes.f, force);
    b.step.f -= force;
    b.step.t -= cross(point.arm, force);
}

// Also adds the force on the rigid body to `coupling_forces`.
template <class T>
static __attribute__((noinline)) void node_rigid_force_adjoint(const ForceArrays<T>& arrays, long long e,
                                                               const Nodes<T>& nodes, CoupledBody<T>* bodies,
                                                               Vector<T>* coupling_forces) {
    const ContactPoint<T> point(arrays, e, nodes, bodies);
    if (!(point.depth > 0)) return;
    CoupledBody<T>& both = bodies[point.body];
    RigidStep<T, T>& b = both.step;
    const Vector<T> w = point.spin(both), u = point.velocity(both, w, nodes), &n = point.n, &arm = point.arm;
    // The force acts on the nodes, its opposite at arm on the body.
    const Vector<T> f_adj = point.mean(nodes.f_adj) - b.a_adj * both.body.inverse_mass - cross(b.t_adj, arm);
    const auto adj = contact_force_adjoint<T>(point.law(), broadcast(f_adj), splat(point.depth), broadcast(n), broadcast(u));
    const Vector<T> force = first_lane(adj.force), n_adj = first_lane(adj.n), u_adj = first_lane(adj.v);
    const T c_adj = adj.c[0];
    coupling_forces[point.body] -= force;
    // depth = reach - gap(local), n = R n_local, local = R' arm + center - m
    const Vector<T> local_adj = point.hessian(transpose(b.R) * n_adj) - point.n_local * c_adj, turned = b.R * local_adj;
    Vector<T> arm_adj = cross(b.t_adj, force) + turned;
    b.adj.rotation += cross(n, n_adj) - cross(arm, turned);
    both.body.center_adj += local_adj;
    // u = v - v_body - w x arm
    const Vector<T> w_adj = -cross(arm, u_adj);
    arm_adj -= cross(u_adj, w);
    b.adj.v -= u_adj;
    both.body.add_spin_adjoint(transpose(b.R) * w_adj, b.R, b.s.l, b.adj);
    b.adj.rotation += cross(w, w_adj);
    point.add_mean(nodes.v_adj, u_adj);
    point.add_mean(nodes.x_adj, arm_adj);
    b.adj.p -= arm_adj;
    T* grad = arrays.tables[0].grad + e;
    auto add = [&](int row, T value) LANES_LAMBDA { grad[row * point.stride] += value; };
    auto add3 = [&](int row, const Vector<T>& a) LANES_LAMBDA { add(row, a.x), add(row + 1, a.y), add(row + 2, a.z); };
    for (int k = 0; k < contact_row::count; k++) add(k, adj.law[k][0]);
    add(node_rigid_row::reach, c_adj);
    add3(node_rigid_row::mx, -local_adj);
    const Vector<T>& x = point.local;
    add3(node_rigid_row::hx, {x.x < 0 ? local_adj.x : -local_adj.x, x.y < 0 ? local_adj.y : -local_adj.y,
                              x.z < 0 ? local_adj.z : -local_adj.z});
}

}  // namespace gradsim
