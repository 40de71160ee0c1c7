// Forces of constant-strain tetrahedra and their adjoint, `width` elements at a time.
// ../forces/tetrahedra.py defines the law and every array; its portable kernel is the reference.
#pragma once
#include "nodes.h"

namespace gradsim {

template <class S> LANES_INLINE Matrix<S> cofactor(const Matrix<S>& f) {
    return {cross(f.y, f.z), cross(f.z, f.x), cross(f.x, f.y)};
}
// Gradient of <p, cofactor(f)> with respect to f.
template <class S> LANES_INLINE Matrix<S> cofactor_gradient(const Matrix<S>& f, const Matrix<S>& p) {
    return {cross(f.y, p.z) + cross(p.y, f.z), cross(f.z, p.x) + cross(p.z, f.x), cross(f.x, p.y) + cross(p.x, f.y)};
}
// sym(a' b), a symmetric matrix.
template <class S> LANES_INLINE Matrix<S> symmetric(const Matrix<S>& a, const Matrix<S>& b) {
    const Matrix<S> c = transpose(a) * b;
    const S yz = (c.z.y + c.y.z) / 2, zx = (c.x.z + c.z.x) / 2, xy = (c.y.x + c.x.y) / 2;
    return {{c.x.x, xy, zx}, {xy, c.y.y, yz}, {zx, yz, c.z.z}};
}

template <class T> LANES_INLINE Matrix<Lanes<T>> edges(const T* x, const int* id) {
    constexpr int width = LaneTypes<T>::width;
    const Vector<Lanes<T>> x0 = gather(x, id);
    return {gather(x, id + width) - x0, gather(x, id + 2 * width) - x0, gather(x, id + 3 * width) - x0};
}
// Adds h to nodes 1..3 and minus its sum to node 0.
template <class T> LANES_INLINE void add_edges(T* f, const int* id, const Matrix<Lanes<T>>& h) {
    constexpr int width = LaneTypes<T>::width;
    scatter_add(f, id, -(h.x + h.y + h.z));
    scatter_add(f, id + width, h.x);
    scatter_add(f, id + 2 * width, h.y);
    scatter_add(f, id + 3 * width, h.z);
}

// A block of tetrahedra: nodes, inverse rest edges, rest volume, parameters.
template <class T> struct TetBlock {
    static constexpr int width = LaneTypes<T>::width;
    const int* id;
    Matrix<Lanes<T>> rest;
    Lanes<T> volume, mu, lam, damping, actuation;
    LANES_MEMBER TetBlock(const ForceArrays<T>& force, long long block) {
        id = force.ints(0) + block * 4 * width;
        const T* s = force.reals(1) + block * 10 * width;
        auto row = [&](int k) LANES_LAMBDA { return load_vectors(s + 3 * k * width, width); };
        rest = transpose(Matrix<Lanes<T>>{row(0), row(1), row(2)});
        volume = load(s + 9 * width);
        const T* p = force.tables[0].value + block * width;
        const long long stride = force.tables[0].stride;
        mu = load(p + tet_row::mu * stride), lam = load(p + tet_row::lam * stride);
        damping = load(p + tet_row::damping * stride), actuation = load(p + tet_row::actuation * stride);
    }
};

template <class T> LANES_INLINE void tet_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const TetBlock<T> tet(force, block);
    const Matrix<L> F = edges(nodes.x, tet.id) * tet.rest, dF = edges(nodes.v, tet.id) * tet.rest;
    const Matrix<L> C = cofactor(F);
    const L J = dot(F.x, C.x);
    const L s = tet.mu * (T(1) - T(1) / (inner(F, F) + T(1)));
    const L p = tet.lam * (J - T(1) - tet.actuation) - T(0.75) * tet.mu;
    const Matrix<L> P = F * s + C * p + F * symmetric(F, dF) * tet.damping;
    add_edges(nodes.f, tet.id, P * transpose(tet.rest) * -tet.volume);
}

template <class T>
LANES_INLINE void tet_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const TetBlock<T> tet(force, block);
    const L m = tet.mu, l = tet.lam, d = tet.damping, act = tet.actuation;
    const Matrix<L> F = edges(nodes.x, tet.id) * tet.rest, dF = edges(nodes.v, tet.id) * tet.rest;
    const Matrix<L> A = edges(nodes.f_adj, tet.id) * tet.rest * -tet.volume;  // adjoint of P
    const Matrix<L> C = cofactor(F);
    const L J = dot(F.x, C.x);
    const L r = T(1) / (inner(F, F) + T(1)), AF = inner(A, F), AC = inner(A, C);
    const L p = l * (J - T(1) - act) - T(0.75) * m;
    const Matrix<L> E = symmetric(F, dF), S = symmetric(F, A);
    T* grad = force.tables[0].grad + block * tet.width;
    const long long stride = force.tables[0].stride;
    accumulate(grad + tet_row::mu * stride, (T(1) - r) * AF - T(0.75) * AC);
    accumulate(grad + tet_row::lam * stride, (J - T(1) - act) * AC);
    accumulate(grad + tet_row::actuation * stride, -l * AC);
    accumulate(grad + tet_row::damping * stride, inner(S, E));
    const Matrix<L> F_adj = A * (m * (T(1) - r)) + F * (T(2) * m * AF * r * r) + C * (l * AC) +
                            cofactor_gradient(F, A) * p + (A * E + dF * S) * d;
    add_edges(nodes.x_adj, tet.id, F_adj * transpose(tet.rest));
    add_edges(nodes.v_adj, tet.id, F * S * d * transpose(tet.rest));
}

}  // namespace gradsim
