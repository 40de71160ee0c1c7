// Bending of sheets and its adjoint, `width` triangles at a time.
// ../forces/bending.py defines the law and every array; its portable kernel is the reference.
#pragma once
#include "angle.h"
#include "nodes.h"

namespace gradsim {

// One edge of a triangle. Relative to its near end k, `a` is the opposite corner, `b` the opposite node of the adjacent
// triangle and `e` the far end l. N is the normal of the triangle, M = b x e that of the adjacent one. The gradients of
// the angle in a and b are ga = -ha N and gb = -hb M; those in k and l balance them, with the fractions ta and tb at l.
template <class T> struct Edge {
    typedef Lanes<T> L;
    Vector<L> a, b, e, M;
    L inverse, length, ta, tb, ha, hb, sM;  // inverse of the square of the length
    LANES_MEMBER Edge(const Vector<L>* x, int i, L sN) {
        const Vector<L>& near = x[(i + 1) % 3];
        a = x[i] - near, b = x[3 + i] - near, e = x[(i + 2) % 3] - near;
        M = cross(b, e);
        const L square = dot(e, e);
        inverse = T(1) / square, length = square_root(square);
        ta = dot(a, e) * inverse, tb = dot(b, e) * inverse;
        sM = T(1) / dot(M, M);
        ha = length * sN, hb = length * sM;
    }
    LANES_MEMBER L angle(const Vector<L>& N) const { return atan2<T>(-length * dot(N, b), dot(N, M)); }
    // Rate of the angle for node velocities u.
    LANES_MEMBER L rate(const Vector<L>* u, int i, const Vector<L>& N) const {
        const Vector<L>& near = u[(i + 1) % 3];
        const Vector<L> along = u[(i + 2) % 3] - near;
        const Vector<L> ca = u[i] - near - along * ta, cb = u[3 + i] - near - along * tb;
        return -(ha * dot(N, ca) + hb * dot(M, cb));
    }
    // Adds s times the gradient of the angle to the nodes.
    LANES_MEMBER void add_gradient(Vector<L>* f, int i, const Vector<L>& N, L s) const {
        const Vector<L> ga = N * (ha * s), gb = M * (hb * s), far = ga * ta + gb * tb;
        f[i] -= ga;
        f[3 + i] -= gb;
        f[(i + 2) % 3] += far;
        f[(i + 1) % 3] += ga + gb - far;
    }
    // Adds the gradient of `rate` with respect to the positions, for fixed u; adds the part through N to aN.
    LANES_MEMBER void add_rate_gradient(Vector<L>* ax, Vector<L>& aN, const Vector<L>* u, int i, const Vector<L>& N,
                                        L sN) const {
        const Vector<L>& near = u[(i + 1) % 3];
        const Vector<L> along = u[(i + 2) % 3] - near;
        const Vector<L> ca = u[i] - near - along * ta, cb = u[3 + i] - near - along * tb;
        const L da = dot(N, ca), db = dot(M, cb);
        aN = aN + N * (T(2) * ha * da * sN) - ca * ha;
        const Vector<L> aM = M * (T(2) * hb * db * sM) - cb * hb;
        const L ata = ha * dot(N, along) * inverse, atb = hb * dot(M, along) * inverse;
        // Along the edge: through its length, and through its square in ta and tb.
        const L stretch = -(sN * da + sM * db) * length * inverse - T(2) * (ata * ta + atb * tb);
        const Vector<L> aa = e * ata, ab = cross(e, aM) + e * atb;
        const Vector<L> ae = cross(aM, b) + a * ata + b * atb + e * stretch;
        ax[i] += aa;
        ax[3 + i] += ab;
        ax[(i + 2) % 3] += ae;
        ax[(i + 1) % 3] = ax[(i + 1) % 3] - aa - ab - ae;
    }
};

// A block of triangles: corners and opposite nodes of the adjacent triangles, the edges' columns in `folding`, rest
// angles and couplings. Edges without an adjacent triangle have zero coupling and need no special case.
template <class T> struct BendBlock {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const int *id, *hinge;
    const T* shape;
    L stiffness, damping;
    LANES_MEMBER BendBlock(const ForceArrays<T>& force, long long block) {
        id = force.ints(0) + block * 6 * width;
        hinge = force.ints(1) + block * 3 * width;
        shape = force.reals(2) + block * 9 * width;
        const T* p = force.tables[0].value + block * width;
        const long long stride = force.tables[0].stride;
        stiffness = load(p + bend_row::stiffness * stride), damping = load(p + bend_row::damping * stride);
    }
    LANES_MEMBER void gather_nodes(Vector<L>* u, const T* x) const {
        for (int n = 0; n < 6; n++) u[n] = gather(x, id + n * width);
    }
    LANES_MEMBER void scatter_nodes(T* x, const Vector<L>* u) const {
        for (int n = 0; n < 6; n++) scatter_add(x, id + n * width, u[n]);
    }
    // The angle of edge i without bending: rest angle and folding.
    LANES_MEMBER L natural_angle(int i, const T* folding) const {
        L r;
        for (int k = 0; k < width; k++) r[k] = folding[hinge[i * width + k]];
        return r + load(shape + i * width);
    }
    LANES_MEMBER void couple(L* m, const L* q) const {
        const T* s = shape + 3 * width;  // 00, 11, 22, 12, 20, 01
        const L k12 = load(s + 3 * width), k20 = load(s + 4 * width), k01 = load(s + 5 * width);
        m[0] = load(s) * q[0] + k01 * q[1] + k20 * q[2];
        m[1] = k01 * q[0] + load(s + width) * q[1] + k12 * q[2];
        m[2] = k20 * q[0] + k12 * q[1] + load(s + 2 * width) * q[2];
    }
};

template <class T> LANES_INLINE void bend_force(const ForceArrays<T>& arrays, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const BendBlock<T> bend(arrays, block);
    const T* folding = arrays.tables[1].value;
    Vector<L> x[6], v[6], force[6] = {};
    bend.gather_nodes(x, nodes.x);
    bend.gather_nodes(v, nodes.v);
    const Vector<L> N = cross(x[1] - x[0], x[2] - x[0]);
    const L sN = T(1) / dot(N, N);
    const Edge<T> edges[3] = {{x, 0, sN}, {x, 1, sN}, {x, 2, sN}};
    L q[3], m[3];
    for (int i = 0; i < 3; i++)
        q[i] = bend.stiffness * (edges[i].angle(N) - bend.natural_angle(i, folding)) +
               bend.damping * edges[i].rate(v, i, N);
    bend.couple(m, q);
    for (int i = 0; i < 3; i++) edges[i].add_gradient(force, i, N, -m[i]);
    bend.scatter_nodes(nodes.f, force);
}

template <class T>
LANES_INLINE void bend_force_adjoint(const ForceArrays<T>& arrays, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const BendBlock<T> bend(arrays, block);
    const L stiffness = bend.stiffness, damping = bend.damping;
    const T* folding = arrays.tables[1].value;
    T* folding_adj = arrays.tables[1].grad;
    Vector<L> x[6], v[6], af[6], ax[6] = {}, av[6] = {};
    bend.gather_nodes(x, nodes.x);
    bend.gather_nodes(v, nodes.v);
    bend.gather_nodes(af, nodes.f_adj);
    const Vector<L> d1 = x[1] - x[0], d2 = x[2] - x[0], N = cross(d1, d2);
    const L sN = T(1) / dot(N, N);
    const Edge<T> edges[3] = {{x, 0, sN}, {x, 1, sN}, {x, 2, sN}};
    L p[3], r[3], q[3], m[3], am[3], aq[3];
    for (int i = 0; i < 3; i++) {
        p[i] = edges[i].angle(N) - bend.natural_angle(i, folding), r[i] = edges[i].rate(v, i, N);
        q[i] = stiffness * p[i] + damping * r[i];
        am[i] = -edges[i].rate(af, i, N);
    }
    bend.couple(m, q);
    bend.couple(aq, am);
    T* grad = arrays.tables[0].grad + block * bend.width;
    const long long stride = arrays.tables[0].stride;
    accumulate(grad + bend_row::stiffness * stride, aq[0] * p[0] + aq[1] * p[1] + aq[2] * p[2]);
    accumulate(grad + bend_row::damping * stride, aq[0] * r[0] + aq[1] * r[1] + aq[2] * r[2]);
    Vector<L> aN = {};
    for (int i = 0; i < 3; i++) {
        const L ap = stiffness * aq[i], ar = damping * aq[i];
        for (int k = 0; k < bend.width; k++) folding_adj[bend.hinge[i * bend.width + k]] -= ap[k];
        edges[i].add_gradient(ax, i, N, ap);
        edges[i].add_gradient(av, i, N, ar);
        // The gradients of the angle depend on the positions, through the rate and through the forces.
        Vector<L> u[6];
        for (int n = 0; n < 6; n++) u[n] = v[n] * ar - af[n] * m[i];
        edges[i].add_rate_gradient(ax, aN, u, i, N, sN);
    }
    const Vector<L> a1 = cross(d2, aN), a2 = cross(aN, d1);
    ax[1] += a1;
    ax[2] += a2;
    ax[0] = ax[0] - a1 - a2;
    bend.scatter_nodes(nodes.x_adj, ax);
    bend.scatter_nodes(nodes.v_adj, av);
}

}  // namespace gradsim
