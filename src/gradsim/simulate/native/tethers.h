// Tethers between nodes and points of rigid bodies, and their adjoint, one at a time.
// ../forces/tethers.py defines the law; its portable kernel is the reference.
#pragma once
#include "nodes.h"
#include "rigid_rollout.h"

namespace gradsim {

template <class T> LANES_INLINE Vector<T> node_vector(const T* x, int id) { return {x[id], x[id + 1], x[id + 2]}; }
template <class T> LANES_INLINE void add_node_vector(T* x, int id, const Vector<T>& a) {
    x[id] += a.x, x[id + 1] += a.y, x[id + 2] += a.z;
}

template <class T> struct TetherElement {
    int id, body;
    T stiffness, damping, rest;
    Vector<T> point, local, d, arm, w, u, force;  // force on the node
    T length;
    LANES_MEMBER TetherElement(const ForceArrays<T>& arrays, long long e, const Nodes<T>& nodes,
                               const CoupledBody<T>* bodies) {
        id = arrays.ints(0)[e], body = arrays.ints(1)[e];
        auto row = [&](int k) LANES_LAMBDA { return arrays.tables[0].value[e + k * arrays.tables[0].stride]; };
        stiffness = row(tether_row::stiffness), damping = row(tether_row::damping), rest = row(tether_row::rest_length);
        point = {row(tether_row::point_x), row(tether_row::point_y), row(tether_row::point_z)};
        const RigidStep<T, T>& b = bodies[body].step;
        local = point - bodies[body].body.center;
        arm = node_vector(nodes.x, id) - b.s.p;
        d = arm - b.R * local;
        w = b.R * (bodies[body].body.inverse_inertia * (transpose(b.R) * b.s.l));
        u = node_vector(nodes.v, id) - b.s.v - cross(w, arm);
        length = gradsim::length(d) + T(1e-30);
        force = -(d * elastic() + u * damping);
    }
    LANES_MEMBER T elastic() const { return rest > 0 ? stiffness * (1 - rest / length) : stiffness; }
};

template <class T>
LANES_INLINE void tether_force(const ForceArrays<T>& arrays, long long e, const Nodes<T>& nodes, CoupledBody<T>* bodies) {
    const TetherElement<T> tether(arrays, e, nodes, bodies);
    RigidStep<T, T>& b = bodies[tether.body].step;
    add_node_vector(nodes.f, tether.id, tether.force);
    b.f -= tether.force;
    b.t -= cross(tether.arm, tether.force);
}

// Also adds the force on the rigid body to `coupling_forces`.
template <class T>
LANES_INLINE void tether_force_adjoint(const ForceArrays<T>& arrays, long long e, const Nodes<T>& nodes,
                                       CoupledBody<T>* bodies, Vector<T>* coupling_forces) {
    const TetherElement<T> tether(arrays, e, nodes, bodies);
    RigidStep<T, T>& b = bodies[tether.body].step;
    RigidBody<T, T>& body = bodies[tether.body].body;
    coupling_forces[tether.body] -= tether.force;
    const Vector<T> f_adj = b.a_adj * body.inverse_mass;
    // force = -(k(d) d + c u); f on the node, -f and -arm x f on the body.
    const Vector<T> force_adj = node_vector(nodes.f_adj, tether.id) - f_adj - cross(b.t_adj, tether.arm);
    const T elastic = tether.elastic(), along = dot(force_adj, tether.d), across = dot(force_adj, tether.u);
    Vector<T> d_adj = force_adj * -elastic, arm_adj = cross(b.t_adj, tether.force);
    const Vector<T> u_adj = force_adj * -tether.damping;
    T* grad = arrays.tables[0].grad + e;
    const long long stride = arrays.tables[0].stride;
    grad[tether_row::damping * stride] -= across;
    if (tether.rest > 0) {
        const T inverse = 1 / tether.length;
        grad[tether_row::stiffness * stride] -= along * (1 - tether.rest * inverse);
        grad[tether_row::rest_length * stride] += along * tether.stiffness * inverse;
        d_adj -= tether.d * (along * tether.stiffness * tether.rest * inverse * inverse * inverse);
    } else {
        grad[tether_row::stiffness * stride] -= along;
    }
    // u = v_node - v_body - w x arm
    add_node_vector(nodes.v_adj, tether.id, u_adj);
    b.adj.v -= u_adj;
    const Vector<T> w_adj = -cross(tether.arm, u_adj);
    arm_adj += -cross(u_adj, tether.w);
    body.add_spin_adjoint(transpose(b.R) * w_adj, b.R, b.s.l, b.adj);
    b.adj.rotation += cross(tether.w, w_adj);  // rotation of the spin from body to world axes
    // d = arm - R local, arm = x - p
    arm_adj += d_adj;
    const Vector<T> offset = b.R * tether.local, local_adj = -(transpose(b.R) * d_adj);
    b.adj.rotation += cross(offset, -d_adj);
    add_node_vector(nodes.x_adj, tether.id, arm_adj);
    b.adj.p -= arm_adj;
    body.center_adj -= local_adj;
    grad[tether_row::point_x * stride] += local_adj.x, grad[tether_row::point_y * stride] += local_adj.y;
    grad[tether_row::point_z * stride] += local_adj.z;
}

}  // namespace gradsim
