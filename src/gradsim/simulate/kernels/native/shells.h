// Forces of constant-strain triangles in space (membrane and air) and their adjoint, `width` elements at a time.
// The law and the meaning of every array stand in ../triangles.py, whose portable kernel is the reference.
#pragma once
#include "lanes.h"

namespace gradsim {

// A 3x2 matrix: the images of the two rest directions.
template <class T> struct Pair {
    Vec<T> a, b;
};
template <class T> LANES_INLINE Pair<T> operator*(const Pair<T>& p, Lanes<T> s) { return {p.a * s, p.b * s}; }
template <class T> LANES_INLINE Pair<T> operator+(const Pair<T>& p, const Pair<T>& q) { return {p.a + q.a, p.b + q.b}; }
template <class T> LANES_INLINE Lanes<T> inner(const Pair<T>& p, const Pair<T>& q) {
    return dot(p.a, q.a) + dot(p.b, q.b);
}
// A symmetric 2x2 matrix.
template <class T> struct Sym {
    Lanes<T> aa, ab, bb;
};
template <class T> LANES_INLINE Sym<T> symmetric(const Pair<T>& p, const Pair<T>& q) {
    return {dot(p.a, q.a), T(0.5) * (dot(p.a, q.b) + dot(p.b, q.a)), dot(p.b, q.b)};
}
template <class T> LANES_INLINE Pair<T> mul(const Pair<T>& p, const Sym<T>& s) {
    return {p.a * s.aa + p.b * s.ab, p.a * s.ab + p.b * s.bb};
}

template <class T> struct TriangleBlock {
    const int* id;
    Lanes<T> d00, d01, d10, d11, area;
    LANES_MEMBER TriangleBlock(long long block, const int* nodes, const T* shape) {
        constexpr int width = LaneTypes<T>::width;
        id = nodes + block * 3 * width;
        const T* s = shape + block * 5 * width;
        d00 = load(s), d01 = load(s + width), d10 = load(s + 2 * width), d11 = load(s + 3 * width);
        area = load(s + 4 * width);
    }
    // The gradient over the rest shape of a field given at the nodes.
    LANES_MEMBER Pair<T> gradient(const T* x) const {
        constexpr int width = LaneTypes<T>::width;
        const Vec<T> x0 = gather(x, id), q = gather(x, id + width) - x0, r = gather(x, id + 2 * width) - x0;
        return {q * d00 + r * d10, q * d01 + r * d11};
    }
    // Transpose of `gradient`, plus the same vector c for each of the three nodes.
    LANES_MEMBER void add(T* f, const Pair<T>& p, const Vec<T>& c) const {
        constexpr int width = LaneTypes<T>::width;
        const Vec<T> q = p.a * d00 + p.b * d01, r = p.a * d10 + p.b * d11;
        scatter_add(f, id, c - q - r);
        scatter_add(f, id + width, c + q);
        scatter_add(f, id + 2 * width, c + r);
    }
    LANES_MEMBER Vec<T> mean(const T* v) const {
        constexpr int width = LaneTypes<T>::width;
        return (gather(v, id) + gather(v, id + width) + gather(v, id + 2 * width)) * splat(T(1) / T(3));
    }
};

template <class T>
LANES_INLINE void triangle_force(long long block, const int* nodes, const T* shape, const T* values, long long stride,
                                 const T* x, const T* v, T* f) {
    constexpr int width = LaneTypes<T>::width;
    const TriangleBlock<T> tri(block, nodes, shape);
    const T* q = values + block * width;
    const Lanes<T> m = load(q), l = load(q + stride), d = load(q + 2 * stride), act = load(q + 5 * stride);
    const Lanes<T> kd = load(q + 3 * stride), kl = load(q + 4 * stride);
    const Pair<T> F = tri.gradient(x), G = tri.gradient(v);
    const Vec<T> N = cross(F.a, F.b);
    const Lanes<T> J = root(dot(N, N)), inverse = T(1) / larger(J, splat(T(1e-30)));
    const Vec<T> n = N * inverse;
    const Pair<T> C = {cross(F.b, n), cross(n, F.a)};
    const Lanes<T> s = m * (T(1) - T(1) / (inner(F, F) + T(1)));
    const Lanes<T> p = l * (J - T(1) - act) - T(2.0 / 3.0) * m;
    const Pair<T> P = F * s + C * p + mul(F, symmetric(F, G)) * d;
    const Vec<T> u = tri.mean(v);
    const Lanes<T> flux = tri.area * dot(N, u), speed = root(dot(u, u));
    const Vec<T> air = u * (kd * magnitude(flux)) + n * (kl * flux * speed);
    tri.add(f, P * -tri.area, air * splat(T(-1) / T(3)));
}

template <class T>
LANES_INLINE void triangle_force_adjoint(long long block, const int* nodes, const T* shape, const T* values,
                                         long long stride, const T* x, const T* v, const T* af, T* avalues, T* ax,
                                         T* av) {
    constexpr int width = LaneTypes<T>::width;
    const TriangleBlock<T> tri(block, nodes, shape);
    const T* q = values + block * width;
    const Lanes<T> m = load(q), l = load(q + stride), d = load(q + 2 * stride), act = load(q + 5 * stride);
    const Lanes<T> kd = load(q + 3 * stride), kl = load(q + 4 * stride);
    const Pair<T> F = tri.gradient(x), G = tri.gradient(v);
    const Pair<T> A = tri.gradient(af) * -tri.area;  // adjoint of P
    const Vec<T> N = cross(F.a, F.b);
    const Lanes<T> J = root(dot(N, N)), inverse = T(1) / larger(J, splat(T(1e-30)));
    const Vec<T> n = N * inverse;
    const Pair<T> C = {cross(F.b, n), cross(n, F.a)};
    const Lanes<T> r = T(1) / (inner(F, F) + T(1)), AF = inner(A, F), AC = inner(A, C);
    const Lanes<T> p = l * (J - T(1) - act) - T(2.0 / 3.0) * m;
    const Sym<T> E = symmetric(F, G), S = symmetric(F, A);
    T* aq = avalues + block * width;
    accumulate(aq, (T(1) - r) * AF - T(2.0 / 3.0) * AC);
    accumulate(aq + stride, (J - T(1) - act) * AC);
    accumulate(aq + 5 * stride, -l * AC);
    accumulate(aq + 2 * stride, S.aa * E.aa + S.bb * E.bb + T(2) * S.ab * E.ab);

    // Air: u the mean velocity, flux = area vector . u, force = -(drag |flux| u + lift flux |u| n), a third a node.
    const Vec<T> u = tri.mean(v);
    const Lanes<T> flux = tri.area * dot(N, u), speed = root(dot(u, u));
    const Vec<T> b = tri.mean(af) * splat(T(-1));
    const Lanes<T> bu = dot(b, u), bn = dot(b, n);
    const Lanes<T> size = magnitude(flux), one = splat(T(1));
    accumulate(aq + 3 * stride, size * bu);
    accumulate(aq + 4 * stride, flux * speed * bn);
    const Lanes<T> sign = __builtin_elementwise_copysign(one, flux);
    const Lanes<T> aflux = kd * sign * bu + kl * speed * bn;
    const Vec<T> au = b * (kd * size) + u * (kl * flux * bn / larger(speed, splat(T(1e-30)))) + N * (aflux * tri.area);

    // The normal gathers from the volume term (through C) and from the air.
    const Vec<T> w = (cross(A.a, F.b) + cross(F.a, A.b)) * p + b * (kl * flux * speed);
    const Vec<T> aN = (w - n * dot(n, w)) * inverse + u * (aflux * tri.area);
    Pair<T> aF = A * (m * (T(1) - r)) + F * (T(2) * m * AF * r * r) + C * (l * AC) + (mul(A, E) + mul(G, S)) * d;
    aF = aF + Pair<T>{cross(A.b, n) * p + cross(F.b, aN), cross(n, A.a) * p + cross(aN, F.a)};
    tri.add(ax, aF, Vec<T>{});
    tri.add(av, mul(F, S) * d, au * splat(T(1) / T(3)));
}

}  // namespace gradsim
