// Forces of constant-strain tetrahedra and their adjoint, `width` elements at a time.
// ../forces/tetrahedra.py defines the law and every array; its portable kernel is the reference.
#pragma once
#include "nodes.h"

namespace gradsim {

template <class T> struct Mat {
    Vec<T> col[3];
};
template <class T> LANES_INLINE Mat<T> operator*(const Mat<T>& a, Lanes<T> s) {
    return {a.col[0] * s, a.col[1] * s, a.col[2] * s};
}
template <class T> LANES_INLINE Mat<T> operator+(const Mat<T>& a, const Mat<T>& b) {
    return {a.col[0] + b.col[0], a.col[1] + b.col[1], a.col[2] + b.col[2]};
}
template <class T> LANES_INLINE Lanes<T> inner(const Mat<T>& a, const Mat<T>& b) {
    return dot(a.col[0], b.col[0]) + dot(a.col[1], b.col[1]) + dot(a.col[2], b.col[2]);
}
template <class T> LANES_INLINE Vec<T> mul(const Mat<T>& a, Lanes<T> x, Lanes<T> y, Lanes<T> z) {
    return a.col[0] * x + a.col[1] * y + a.col[2] * z;
}
template <class T> LANES_INLINE Mat<T> mul(const Mat<T>& a, const Mat<T>& b) {
    Mat<T> r;
    for (int k = 0; k < 3; k++) r.col[k] = mul(a, b.col[k].c[0], b.col[k].c[1], b.col[k].c[2]);
    return r;
}
template <class T> LANES_INLINE Mat<T> mul_transposed(const Mat<T>& a, const Mat<T>& b) {
    Mat<T> r;
    for (int k = 0; k < 3; k++) r.col[k] = mul(a, b.col[0].c[k], b.col[1].c[k], b.col[2].c[k]);
    return r;
}
template <class T> LANES_INLINE Mat<T> cofactor(const Mat<T>& f) {
    return {cross(f.col[1], f.col[2]), cross(f.col[2], f.col[0]), cross(f.col[0], f.col[1])};
}
// Gradient of <p, cofactor(f)> with respect to f.
template <class T> LANES_INLINE Mat<T> cofactor_gradient(const Mat<T>& f, const Mat<T>& p) {
    Mat<T> r;
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        r.col[k] = cross(f.col[i], p.col[j]) + cross(p.col[i], f.col[j]);
    }
    return r;
}
// sym(a' b), a symmetric matrix.
template <class T> LANES_INLINE Mat<T> symmetric(const Mat<T>& a, const Mat<T>& b) {
    Mat<T> r;
    for (int i = 0; i < 3; i++) {
        r.col[i].c[i] = dot(a.col[i], b.col[i]);
        for (int j = 0; j < i; j++)
            r.col[i].c[j] = r.col[j].c[i] = T(0.5) * (dot(a.col[i], b.col[j]) + dot(a.col[j], b.col[i]));
    }
    return r;
}

template <class T> LANES_INLINE Mat<T> edges(const T* x, const int* id) {
    constexpr int width = LaneTypes<T>::width;
    Vec<T> x0 = gather(x, id);
    Mat<T> d;
    for (int k = 0; k < 3; k++) d.col[k] = gather(x, id + (k + 1) * width) - x0;
    return d;
}
// Adds h to nodes 1..3 and minus its sum to node 0.
template <class T> LANES_INLINE void add_edges(T* f, const int* id, const Mat<T>& h) {
    constexpr int width = LaneTypes<T>::width;
    scatter_add(f, id, (h.col[0] + h.col[1] + h.col[2]) * splat(T(-1)));
    for (int k = 0; k < 3; k++) scatter_add(f, id + (k + 1) * width, h.col[k]);
}

// A block of tetrahedra: nodes, inverse rest edges, rest volume, parameters.
template <class T> struct TetBlock {
    static constexpr int width = LaneTypes<T>::width;
    const int* id;
    Mat<T> rest;
    Lanes<T> volume, mu, lam, damping, actuation;
    LANES_MEMBER TetBlock(const ForceArrays<T>& force, long long block) {
        id = force.ints(0) + block * 4 * width;
        const T* s = force.reals(1) + block * 10 * width;
        for (int q = 0; q < 9; q++) rest.col[q % 3].c[q / 3] = load(s + q * width);
        volume = load(s + 9 * width);
        const T* p = force.tables[0].value + block * width;
        const long long stride = force.tables[0].stride;
        mu = load(p + tet_row::mu * stride), lam = load(p + tet_row::lam * stride);
        damping = load(p + tet_row::damping * stride), actuation = load(p + tet_row::actuation * stride);
    }
};

template <class T> LANES_INLINE void tet_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    const TetBlock<T> tet(force, block);
    const Mat<T> F = mul(edges(nodes.x, tet.id), tet.rest), dF = mul(edges(nodes.v, tet.id), tet.rest);
    const Mat<T> C = cofactor(F);
    const Lanes<T> J = dot(F.col[0], C.col[0]);
    const Lanes<T> s = tet.mu * (T(1) - T(1) / (inner(F, F) + T(1)));
    const Lanes<T> p = tet.lam * (J - T(1) - tet.actuation) - T(0.75) * tet.mu;
    const Mat<T> P = F * s + C * p + mul(F, symmetric(F, dF)) * tet.damping;
    add_edges(nodes.f, tet.id, mul_transposed(P, tet.rest) * -tet.volume);
}

template <class T>
LANES_INLINE void tet_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    const TetBlock<T> tet(force, block);
    const Lanes<T> m = tet.mu, l = tet.lam, d = tet.damping, act = tet.actuation;
    const Mat<T> F = mul(edges(nodes.x, tet.id), tet.rest), dF = mul(edges(nodes.v, tet.id), tet.rest);
    const Mat<T> A = mul(edges(nodes.f_adj, tet.id), tet.rest) * -tet.volume;  // adjoint of P
    const Mat<T> C = cofactor(F);
    const Lanes<T> J = dot(F.col[0], C.col[0]);
    const Lanes<T> r = T(1) / (inner(F, F) + T(1)), AF = inner(A, F), AC = inner(A, C);
    const Lanes<T> p = l * (J - T(1) - act) - T(0.75) * m;
    const Mat<T> E = symmetric(F, dF), S = symmetric(F, A);
    T* grad = force.tables[0].grad + block * tet.width;
    const long long stride = force.tables[0].stride;
    accumulate(grad + tet_row::mu * stride, (T(1) - r) * AF - T(0.75) * AC);
    accumulate(grad + tet_row::lam * stride, (J - T(1) - act) * AC);
    accumulate(grad + tet_row::actuation * stride, -l * AC);
    accumulate(grad + tet_row::damping * stride, inner(S, E));
    const Mat<T> F_adj = A * (m * (T(1) - r)) + F * (T(2) * m * AF * r * r) + C * (l * AC) +
                         cofactor_gradient(F, A) * p + (mul(A, E) + mul(dF, S)) * d;
    add_edges(nodes.x_adj, tet.id, mul_transposed(F_adj, tet.rest));
    add_edges(nodes.v_adj, tet.id, mul_transposed(mul(F, S) * d, tet.rest));
}

}  // namespace gradsim
