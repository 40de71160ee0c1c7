// Contact of nodes and face centres with moving rigid bodies, and its adjoint, one point per lane.
// ../forces/node_rigid_contact.py defines it; its portable kernel is the reference.
#pragma once
#include "colliders.h"
#include "contact_law.h"
#include "tethers.h"

namespace gradsim {

// A block of contact points, each the mean of three nodes, near one rigid body.
template <class T> struct PointBlock {
    typedef Lanes<T> L;
    enum { width = LaneTypes<T>::width };
    const int *id, *header;  // corners of the points; body, first point, number of points, kind and number of the shape
    const T* rows;           // of the first point
    long long stride;
    const DistanceGrid<T>* grid;
    Vector<L> arm, y;  // of the points about the centre of mass, in world and body axes
    LANES_MEMBER PointBlock(const ForceArrays<T>& arrays, long long block, const Nodes<T>& nodes,
                            const CoupledBody<T>* bodies)
        : id(arrays.ints(0) + 3 * width * block), header(arrays.ints(1) + 5 * block),
          rows(arrays.tables[0].value + header[1]), stride(arrays.tables[0].stride),
          grid((const DistanceGrid<T>*)arrays.constants[2] + header[4]) {
        const RigidStep<T, T>& b = bodies[body()].step;
        arm = mean(nodes.x) - broadcast(b.s.p);
        y = broadcast(transpose(b.R)) * arm;
    }
    LANES_MEMBER int body() const { return header[0]; }
    LANES_MEMBER T row(int k) const { return rows[k * stride]; }
    LANES_MEMBER Vector<T> vector(int k) const { return {row(k), row(k + 1), row(k + 2)}; }
    LANES_MEMBER void add_gradient(const ForceArrays<T>& arrays, int row, L a) const {
        T* grad = arrays.tables[0].grad + header[1] + row * stride;
        for (int k = 0; k < header[2]; k++) grad[k] += a[k];
    }
    LANES_MEMBER void add_gradients(const ForceArrays<T>& arrays, int row, const Vector<L>& a) const {
        add_gradient(arrays, row, a.x), add_gradient(arrays, row + 1, a.y), add_gradient(arrays, row + 2, a.z);
    }
    LANES_MEMBER Vector<L> mean(const T* x) const {
        return (gather(x, id) + gather(x, id + width) + gather(x, id + 2 * width)) * T(1.0 / 3.0);
    }
    LANES_MEMBER void add_mean(T* x, const Vector<L>& a) const {
        for (int k = 0; k < 3; k++) scatter_add(x, id + k * width, a * T(1.0 / 3.0));
    }
    // Calls visit(shape, distance, depth) if a point is in contact.
    template <class F> LANES_MEMBER void for_contact(F visit) const {
        const Vector<T> extent = vector(node_rigid_row::extent_x);
        const Vector<L> offset = broadcast(vector(node_rigid_row::offset_x));
        const L reach = splat(row(node_rigid_row::radius));
        auto test = [&](const auto& shape) LANES_LAMBDA {
            const Distance<L> distance = shape(y);
            L depth = larger(reach - distance.value, L{});
            for (int k = header[2]; k < width; k++) depth[k] = 0;
            if (any(depth > 0)) visit(shape, distance, depth);
        };
        if (header[3] == collider_kind::core) {
            const CoreShape<T> shape = {offset, broadcast(extent)};
            if (any(shape.bound(y) < reach)) test(shape);
        } else {
            GridShape<T> shape = {offset, broadcast(extent), L{}, grid};
            if (!any(shape.bound(y) < reach)) return;
            shape.size = splat(cube_root<T>(extent.x * extent.y * extent.z));
            test(shape);
        }
    }
    LANES_MEMBER ContactLaw<L> law() const {
        L own[3];  // ke, kd and kf, which differ between nodes and faces
        for (int q = 0; q < 3; q++)
            for (int k = 0; k < width; k++) own[q][k] = rows[q * stride + (k < header[2] ? k : 0)];
        const T delta = row(contact_row::delta);
        return {own[contact_row::ke], own[contact_row::kd], own[contact_row::kf], splat(row(contact_row::mu)),
                splat(delta), splat(delta > 0 ? 1 / delta : T(1e30)), !(delta > 0)};
    }
    // Spin of the rigid body, and velocities of the points relative to it.
    LANES_MEMBER Vector<T> spin(const CoupledBody<T>& b) const {
        return b.step.R * (b.body.inverse_inertia * (transpose(b.step.R) * b.step.s.l));
    }
    LANES_MEMBER Vector<L> velocity(const CoupledBody<T>& b, const Vector<T>& w, const Nodes<T>& nodes) const {
        return mean(nodes.v) - broadcast(b.step.s.v) - cross(broadcast(w), arm);
    }
};
template <class T> LANES_INLINE Vector<T> summed(const Vector<Lanes<T>>& a) {
    Vector<T> sum;
    sum_lanes(a, sum);
    return sum;
}

template <class T>
static __attribute__((noinline)) void node_rigid_force(const ForceArrays<T>& arrays, long long block, const Nodes<T>& nodes,
                                                       CoupledBody<T>* bodies) {
    typedef Lanes<T> L;
    const PointBlock<T> points(arrays, block, nodes, bodies);
    points.for_contact([&](const auto&, const Distance<L>& distance, L depth) LANES_LAMBDA {
        CoupledBody<T>& b = bodies[points.body()];
        const Vector<L> u = points.velocity(b, points.spin(b), nodes);
        const Vector<L> force = contact_force<T>(points.law(), depth, broadcast(b.step.R) * distance.n, u);
        points.add_mean(nodes.f, force);
        b.step.f -= summed<T>(force);
        b.step.t -= summed<T>(cross(points.arm, force));
    });
}

// Adds the adjoint of a block in contact, and the force on the rigid body to `coupling_forces`.
template <class T, class Shape>
LANES_INLINE void add_point_adjoints(const ForceArrays<T>& arrays, const PointBlock<T>& points, const Nodes<T>& nodes,
                                     CoupledBody<T>& both, const Shape& shape, const Distance<Lanes<T>>& distance,
                                     Lanes<T> depth, Vector<T>& coupling_force) {
    typedef Lanes<T> L;
    RigidStep<T, T>& b = both.step;
    const Vector<T> w = points.spin(both);
    const Matrix<L> R = broadcast(b.R);
    const Vector<L> u = points.velocity(both, w, nodes), n = R * distance.n, &arm = points.arm;
    // The force acts on the nodes, its opposite at arm on the body.
    const Vector<L> f_adj =
        points.mean(nodes.f_adj) - broadcast(b.a_adj * both.body.inverse_mass) - cross(broadcast(b.t_adj), arm);
    const ContactAdjoint<L> adj = contact_force_adjoint<T>(points.law(), f_adj, depth, n, u);
    coupling_force -= summed<T>(adj.force);
    // depth = reach - phi(y), n = R grad phi(y), y = R' arm
    Vector<L> extent_adj = {};
    const Vector<L> y_adj = shape.adjoint(points.y, distance, -adj.c, transpose(R) * adj.n, extent_adj);
    const Vector<L> turned = R * y_adj, w_adj = -cross(arm, adj.v);
    // u = v - v_body - w x arm
    const Vector<L> arm_adj = cross(broadcast(b.t_adj), adj.force) + turned - cross(adj.v, broadcast(w));
    b.adj.rotation += summed<T>(cross(n, adj.n) - cross(arm, turned)) + cross(w, summed<T>(w_adj));
    both.body.add_spin_adjoint(transpose(b.R) * summed<T>(w_adj), b.R, b.s.l, b.adj);
    b.adj.v -= summed<T>(adj.v);
    b.adj.p -= summed<T>(arm_adj);
    points.add_mean(nodes.v_adj, adj.v);
    points.add_mean(nodes.x_adj, arm_adj);
    for (int q = 0; q < contact_row::count; q++) points.add_gradient(arrays, q, adj.law[q]);
    points.add_gradient(arrays, node_rigid_row::radius, adj.c);
    points.add_gradients(arrays, node_rigid_row::extent_x, extent_adj);
    points.add_gradients(arrays, node_rigid_row::offset_x, -y_adj);
}
template <class T>
static __attribute__((noinline)) void node_rigid_force_adjoint(const ForceArrays<T>& arrays, long long block,
                                                               const Nodes<T>& nodes, CoupledBody<T>* bodies,
                                                               Vector<T>* coupling_forces) {
    const PointBlock<T> points(arrays, block, nodes, bodies);
    points.for_contact([&](const auto& shape, const Distance<Lanes<T>>& distance, Lanes<T> depth) LANES_LAMBDA {
        add_point_adjoints(arrays, points, nodes, bodies[points.body()], shape, distance, depth,
                           coupling_forces[points.body()]);
    });
}

}  // namespace gradsim
