// Forces of constant-strain triangles in space (membrane and air) and their adjoint, `width` elements at a time.
// ../forces/triangles.py defines the law and every array; its portable kernel is the reference.
#pragma once
#include "nodes.h"

namespace gradsim {

// A 3x2 matrix: the images of the two rest directions.
template <class T> struct Columns {
    Vec<T> a, b;
};
template <class T> LANES_INLINE Columns<T> operator*(const Columns<T>& p, Lanes<T> s) { return {p.a * s, p.b * s}; }
template <class T> LANES_INLINE Columns<T> operator+(const Columns<T>& p, const Columns<T>& q) { return {p.a + q.a, p.b + q.b}; }
template <class T> LANES_INLINE Lanes<T> inner(const Columns<T>& p, const Columns<T>& q) {
    return dot(p.a, q.a) + dot(p.b, q.b);
}
// A symmetric 2x2 matrix.
template <class T> struct Sym {
    Lanes<T> aa, ab, bb;
};
template <class T> LANES_INLINE Sym<T> symmetric(const Columns<T>& p, const Columns<T>& q) {
    return {dot(p.a, q.a), T(0.5) * (dot(p.a, q.b) + dot(p.b, q.a)), dot(p.b, q.b)};
}
template <class T> LANES_INLINE Columns<T> mul(const Columns<T>& p, const Sym<T>& s) {
    return {p.a * s.aa + p.b * s.ab, p.a * s.ab + p.b * s.bb};
}

// A block of triangles: nodes, inverse rest edges, rest area, parameters.
template <class T> struct TriangleBlock {
    static constexpr int width = LaneTypes<T>::width;
    const int* id;
    Lanes<T> d00, d01, d10, d11, area, mu, lam, damping, drag, lift, actuation;
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
    LANES_MEMBER Columns<T> gradient(const T* x) const {
        const Vec<T> x0 = gather(x, id), q = gather(x, id + width) - x0, r = gather(x, id + 2 * width) - x0;
        return {q * d00 + r * d10, q * d01 + r * d11};
    }
    // Transpose of `gradient`, plus the same vector c for each of the three nodes.
    LANES_MEMBER void add(T* f, const Columns<T>& p, const Vec<T>& c) const {
        const Vec<T> q = p.a * d00 + p.b * d01, r = p.a * d10 + p.b * d11;
        scatter_add(f, id, c - q - r);
        scatter_add(f, id + width, c + q);
        scatter_add(f, id + 2 * width, c + r);
    }
    LANES_MEMBER Vec<T> mean(const T* v) const {
        return (gather(v, id) + gather(v, id + width) + gather(v, id + 2 * width)) * splat(T(1) / T(3));
    }
};

template <class T>
LANES_INLINE void triangle_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    const TriangleBlock<T> tri(force, block);
    const Lanes<T> m = tri.mu, l = tri.lam, d = tri.damping, act = tri.actuation, kd = tri.drag, kl = tri.lift;
    const Columns<T> F = tri.gradient(nodes.x), G = tri.gradient(nodes.v);
    const Vec<T> N = cross(F.a, F.b);
    const Lanes<T> J = root(dot(N, N)), inverse = T(1) / larger(J, splat(T(1e-30)));
    const Vec<T> n = N * inverse;
    const Columns<T> C = {cross(F.b, n), cross(n, F.a)};
    const Lanes<T> s = m * (T(1) - T(1) / (inner(F, F) + T(1)));
    const Lanes<T> p = l * (J - T(1) - act) - T(2.0 / 3.0) * m;
    const Columns<T> P = F * s + C * p + mul(F, symmetric(F, G)) * d;
    const Vec<T> u = tri.mean(nodes.v);
    const Lanes<T> flux = tri.area * dot(N, u), speed = root(dot(u, u));
    const Vec<T> air = u * (kd * magnitude(flux)) + n * (kl * flux * speed);
    tri.add(nodes.f, P * -tri.area, air * splat(T(-1) / T(3)));
}

template <class T>
LANES_INLINE void triangle_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    const TriangleBlock<T> tri(force, block);
    const Lanes<T> m = tri.mu, l = tri.lam, d = tri.damping, act = tri.actuation, kd = tri.drag, kl = tri.lift;
    const Columns<T> F = tri.gradient(nodes.x), G = tri.gradient(nodes.v);
    const Columns<T> A = tri.gradient(nodes.f_adj) * -tri.area;  // adjoint of P
    const Vec<T> N = cross(F.a, F.b);
    const Lanes<T> J = root(dot(N, N)), inverse = T(1) / larger(J, splat(T(1e-30)));
    const Vec<T> n = N * inverse;
    const Columns<T> C = {cross(F.b, n), cross(n, F.a)};
    const Lanes<T> r = T(1) / (inner(F, F) + T(1)), AF = inner(A, F), AC = inner(A, C);
    const Lanes<T> p = l * (J - T(1) - act) - T(2.0 / 3.0) * m;
    const Sym<T> E = symmetric(F, G), S = symmetric(F, A);
    T* grad = force.tables[0].grad + block * tri.width;
    const long long stride = force.tables[0].stride;
    accumulate(grad + triangle_row::mu * stride, (T(1) - r) * AF - T(2.0 / 3.0) * AC);
    accumulate(grad + triangle_row::lam * stride, (J - T(1) - act) * AC);
    accumulate(grad + triangle_row::actuation * stride, -l * AC);
    accumulate(grad + triangle_row::damping * stride, S.aa * E.aa + S.bb * E.bb + T(2) * S.ab * E.ab);

    // Air: u the mean velocity, flux = area vector . u, force = -(drag |flux| u + lift flux |u| n), a third a node.
    const Vec<T> u = tri.mean(nodes.v);
    const Lanes<T> flux = tri.area * dot(N, u), speed = root(dot(u, u));
    const Vec<T> b = tri.mean(nodes.f_adj) * splat(T(-1));
    const Lanes<T> bu = dot(b, u), bn = dot(b, n);
    const Lanes<T> size = magnitude(flux), one = splat(T(1));
    accumulate(grad + triangle_row::drag * stride, size * bu);
    accumulate(grad + triangle_row::lift * stride, flux * speed * bn);
    const Lanes<T> sign = __builtin_elementwise_copysign(one, flux);
    const Lanes<T> flux_adj = kd * sign * bu + kl * speed * bn;
    const Vec<T> u_adj = b * (kd * size) + u * (kl * flux * bn / larger(speed, splat(T(1e-30)))) + N * (flux_adj * tri.area);

    // The normal gathers from the volume term (through C) and from the air.
    const Vec<T> w = (cross(A.a, F.b) + cross(F.a, A.b)) * p + b * (kl * flux * speed);
    const Vec<T> N_adj = (w - n * dot(n, w)) * inverse + u * (flux_adj * tri.area);
    Columns<T> F_adj = A * (m * (T(1) - r)) + F * (T(2) * m * AF * r * r) + C * (l * AC) + (mul(A, E) + mul(G, S)) * d;
    F_adj = F_adj + Columns<T>{cross(A.b, n) * p + cross(F.b, N_adj), cross(n, A.a) * p + cross(N_adj, F.a)};
    tri.add(nodes.x_adj, F_adj, Vec<T>{});
    tri.add(nodes.v_adj, mul(F, S) * d, u_adj * splat(T(1) / T(3)));
}

}  // namespace gradsim
