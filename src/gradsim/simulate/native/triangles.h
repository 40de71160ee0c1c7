// Forces of constant-strain triangles in space (membrane and air) and their adjoint, `width` elements at a time.
// ../forces/triangles.py defines the law and every array; its portable kernel is the reference.
#pragma once
#include "nodes.h"

namespace gradsim {

// A 3x2 matrix by its columns, the images of the two rest directions.
template <class S> struct Matrix32 {
    Vector<S> a, b;
};
template <class S> LANES_INLINE Matrix32<S> operator*(const Matrix32<S>& p, S s) { return {p.a * s, p.b * s}; }
template <class S> LANES_INLINE Matrix32<S> operator+(const Matrix32<S>& p, const Matrix32<S>& q) {
    return {p.a + q.a, p.b + q.b};
}
template <class S> LANES_INLINE S inner(const Matrix32<S>& p, const Matrix32<S>& q) {
    return dot(p.a, q.a) + dot(p.b, q.b);
}
// A symmetric 2x2 matrix.
template <class S> struct Symmetric2 {
    S aa, ab, bb;
};
// sym(p' q).
template <class S> LANES_INLINE Symmetric2<S> symmetric(const Matrix32<S>& p, const Matrix32<S>& q) {
    return {dot(p.a, q.a), (dot(p.a, q.b) + dot(p.b, q.a)) / 2, dot(p.b, q.b)};
}
template <class S> LANES_INLINE Matrix32<S> operator*(const Matrix32<S>& p, const Symmetric2<S>& s) {
    return {p.a * s.aa + p.b * s.ab, p.a * s.ab + p.b * s.bb};
}

// A block of triangles: nodes, inverse rest edges, rest area, parameters.
template <class T> struct TriangleBlock {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const int* id;
    L d00, d01, d10, d11, area, mu, lam, damping, drag, lift, actuation;
    LANES_MEMBER TriangleBlock(const ForceArrays<T>& force, long long block) {
        id = force.ints(0) + block * 3 * width;
        const T* s = force.reals(1) + block * 5 * width;
        d00 = load(s), d01 = load(s + width), d10 = load(s + 2 * width), d11 = load(s + 3 * width);
        area = load(s + 4 * width);
        const T* p = force.tables[0].value + block * width;
        const long long stride = force.tables[0].stride;
        mu = load(p + triangle_row::mu * stride), lam = load(p + triangle_row::lam * stride);
        damping = load(p + triangle_row::damping * stride), actuation = load(p + triangle_row::actuation * stride);
        drag = load(p + triangle_row::drag * stride), lift = load(p + triangle_row::lift * stride);
    }
    // The gradient over the rest shape of a field given at the nodes.
    LANES_MEMBER Matrix32<L> gradient(const T* x) const {
        const Vector<L> x0 = gather(x, id), q = gather(x, id + width) - x0, r = gather(x, id + 2 * width) - x0;
        return {q * d00 + r * d10, q * d01 + r * d11};
    }
    // Adds the transpose of `gradient`, applied to p, and the vector c to each of the three nodes.
    LANES_MEMBER void add(T* f, const Matrix32<L>& p, const Vector<L>& c) const {
        const Vector<L> q = p.a * d00 + p.b * d01, r = p.a * d10 + p.b * d11;
        scatter_add(f, id, c - q - r);
        scatter_add(f, id + width, c + q);
        scatter_add(f, id + 2 * width, c + r);
    }
    LANES_MEMBER Vector<L> mean(const T* v) const {
        return (gather(v, id) + gather(v, id + width) + gather(v, id + 2 * width)) * splat(T(1) / T(3));
    }
};

template <class T>
LANES_INLINE void triangle_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const TriangleBlock<T> tri(force, block);
    const L m = tri.mu, l = tri.lam, d = tri.damping, act = tri.actuation, kd = tri.drag, kl = tri.lift;
    const Matrix32<L> F = tri.gradient(nodes.x), G = tri.gradient(nodes.v);
    const Vector<L> N = cross(F.a, F.b);
    const L J = square_root(dot(N, N)), inverse = T(1) / larger(J, splat(T(1e-30)));
    const Vector<L> n = N * inverse;
    const Matrix32<L> C = {cross(F.b, n), cross(n, F.a)};
    const L s = m * (T(1) - T(1) / (inner(F, F) + T(1)));
    const L p = l * (J - T(1) - act) - T(2.0 / 3.0) * m;
    const Matrix32<L> P = F * s + C * p + F * symmetric(F, G) * d;
    const Vector<L> u = tri.mean(nodes.v);
    const L flux = tri.area * dot(N, u), speed = square_root(dot(u, u));
    const Vector<L> air = u * (kd * magnitude(flux)) + n * (kl * flux * speed);
    tri.add(nodes.f, P * -tri.area, air * splat(T(-1) / T(3)));
}

template <class T>
LANES_INLINE void triangle_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const TriangleBlock<T> tri(force, block);
    const L m = tri.mu, l = tri.lam, d = tri.damping, act = tri.actuation, kd = tri.drag, kl = tri.lift;
    const Matrix32<L> F = tri.gradient(nodes.x), G = tri.gradient(nodes.v);
    const Matrix32<L> A = tri.gradient(nodes.f_adj) * -tri.area;  // adjoint of P
    const Vector<L> N = cross(F.a, F.b);
    const L J = square_root(dot(N, N)), inverse = T(1) / larger(J, splat(T(1e-30)));
    const Vector<L> n = N * inverse;
    const Matrix32<L> C = {cross(F.b, n), cross(n, F.a)};
    const L r = T(1) / (inner(F, F) + T(1)), AF = inner(A, F), AC = inner(A, C);
    const L p = l * (J - T(1) - act) - T(2.0 / 3.0) * m;
    const Symmetric2<L> E = symmetric(F, G), S = symmetric(F, A);
    T* grad = force.tables[0].grad + block * tri.width;
    const long long stride = force.tables[0].stride;
    accumulate(grad + triangle_row::mu * stride, (T(1) - r) * AF - T(2.0 / 3.0) * AC);
    accumulate(grad + triangle_row::lam * stride, (J - T(1) - act) * AC);
    accumulate(grad + triangle_row::actuation * stride, -l * AC);
    accumulate(grad + triangle_row::damping * stride, S.aa * E.aa + S.bb * E.bb + T(2) * S.ab * E.ab);

    // Air: u the mean velocity, flux = area vector . u, force = -(drag |flux| u + lift flux |u| n), a third per node.
    const Vector<L> u = tri.mean(nodes.v);
    const L flux = tri.area * dot(N, u), speed = square_root(dot(u, u));
    const Vector<L> b = -tri.mean(nodes.f_adj);
    const L bu = dot(b, u), bn = dot(b, n);
    const L size = magnitude(flux), one = splat(T(1));
    accumulate(grad + triangle_row::drag * stride, size * bu);
    accumulate(grad + triangle_row::lift * stride, flux * speed * bn);
    const L sign = __builtin_elementwise_copysign(one, flux);
    const L flux_adj = kd * sign * bu + kl * speed * bn;
    const L speed_adj = kl * flux * bn;
    const Vector<L> u_adj =
        b * (kd * size) + u * (speed_adj / larger(speed, splat(T(1e-30)))) + N * (flux_adj * tri.area);

    // Adjoint of the normal, from the area term (through C) and from the air.
    const Vector<L> w = (cross(A.a, F.b) + cross(F.a, A.b)) * p + b * (kl * flux * speed);
    const Vector<L> N_adj = (w - n * dot(n, w)) * inverse + u * (flux_adj * tri.area);
    Matrix32<L> F_adj = A * (m * (T(1) - r)) + F * (T(2) * m * AF * r * r) + C * (l * AC) + (A * E + G * S) * d;
    F_adj = F_adj + Matrix32<L>{cross(A.b, n) * p + cross(F.b, N_adj), cross(n, A.a) * p + cross(N_adj, F.a)};
    tri.add(nodes.x_adj, F_adj, Vector<L>{});
    tri.add(nodes.v_adj, F * S * d, u_adj * splat(T(1) / T(3)));
}

}  // namespace gradsim
