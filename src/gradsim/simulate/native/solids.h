// Forces of tetrahedra of further materials and of fibres, and their adjoints, `width` elements at a time.
// ../forces/solids.py defines the laws and every array; its portable kernels are the reference.
#pragma once
#include "tetrahedra.h"

namespace gradsim {

// Columns of the tables of a block of tetrahedra: parameters and their gradients.
template <class T> struct SolidRows {
    const T* value;
    T* grad;
    long long stride;
    LANES_MEMBER Lanes<T> operator[](int row) const { return load(value + row * stride); }
    LANES_MEMBER void add(int row, Lanes<T> gradient) const { accumulate(grad + row * stride, gradient); }
};

// A block of tetrahedra: nodes, inverse rest edges, rest volume, parameters.
template <class T> struct SolidBlock {
    static constexpr int width = LaneTypes<T>::width;
    const int* id;
    Matrix<Lanes<T>> rest;
    Lanes<T> volume;
    SolidRows<T> rows;
    LANES_MEMBER SolidBlock(const ForceArrays<T>& force, long long block, int reals = 10) {
        id = force.ints(0) + block * 4 * width;
        const T* s = force.reals(1) + block * reals * width;
        auto row = [&](int k) LANES_LAMBDA { return load_vectors(s + 3 * k * width, width); };
        rest = transpose(Matrix<Lanes<T>>{row(0), row(1), row(2)});
        volume = load(s + 9 * width);
        rows = {force.tables[0].value + block * width, force.tables[0].grad + block * width, force.tables[0].stride};
    }
};

template <class S> LANES_INLINE S trace(const Matrix<S>& a) { return a.x.x + a.y.y + a.z.z; }
template <class S> LANES_INLINE Matrix<S> plus_multiple_of_identity(Matrix<S> a, S b) {
    a.x.x = a.x.x + b, a.y.y = a.y.y + b, a.z.z = a.z.z + b;
    return a;
}

// Second Piola-Kirchhoff stress 2 mu E + lam tr(E), E = (F'F - 1) / 2.
template <class T> struct StvkLaw {
    typedef Lanes<T> L;
    L mu, lam;
    LANES_MEMBER StvkLaw(const SolidRows<T>& rows) : mu(rows[stvk_row::mu]), lam(rows[stvk_row::lam]) {}
    static LANES_MEMBER L damping(const SolidRows<T>& rows) { return rows[stvk_row::damping]; }
    static LANES_MEMBER void add_damping(const SolidRows<T>& rows, L g) { rows.add(stvk_row::damping, g); }
    static LANES_MEMBER Matrix<L> strain(const Matrix<L>& F) {
        return plus_multiple_of_identity(symmetric(F, F), splat(T(-1))) * splat(T(0.5));
    }
    LANES_MEMBER Matrix<L> second(const Matrix<L>& E) const {
        return plus_multiple_of_identity(E * (T(2) * mu), lam * trace(E));
    }
    LANES_MEMBER Matrix<L> stress(const Matrix<L>& F) const { return F * second(strain(F)); }
    LANES_MEMBER Matrix<L> adjoint(const Matrix<L>& F, const Matrix<L>& A, const SolidRows<T>& rows) const {
        const Matrix<L> E = strain(F), S = symmetric(F, A);
        rows.add(stvk_row::mu, T(2) * inner(S, E));
        rows.add(stvk_row::lam, trace(S) * trace(E));
        return A * second(E) + F * second(S);
    }
};

// mu F + g cof F, g the derivative of -mu log J + lam/2 (log J)^2, which is linear below J = limit.
template <class T> struct LogLaw {
    typedef Lanes<T> L;
    static constexpr T limit = T(0.1), log_limit = T(-2.302585092994045684);
    L mu, lam;
    LANES_MEMBER LogLaw(const SolidRows<T>& rows) : mu(rows[log_solid_row::mu]), lam(rows[log_solid_row::lam]) {}
    static LANES_MEMBER L damping(const SolidRows<T>& rows) { return rows[log_solid_row::damping]; }
    static LANES_MEMBER void add_damping(const SolidRows<T>& rows, L g) { rows.add(log_solid_row::damping, g); }
    // Values of g for mu = 1, lam = 0 and for mu = 0, lam = 1, and their derivatives.
    struct Terms {
        L mu, lam, mu_rate, lam_rate;
    };
    static LANES_MEMBER Terms terms(L J) {
        Terms t;
        for (int k = 0; k < LaneTypes<T>::width; k++) {
            const T j = J[k] > limit ? J[k] : limit, excess = J[k] > limit ? T(0) : J[k] - limit;
            const T log = J[k] > limit ? __builtin_log(j) : log_limit, r = T(1) / j;
            t.mu_rate[k] = r * r, t.lam_rate[k] = (T(1) - log) * r * r;
            t.mu[k] = -r + t.mu_rate[k] * excess, t.lam[k] = log * r + t.lam_rate[k] * excess;
        }
        return t;
    }
    LANES_MEMBER Matrix<L> stress(const Matrix<L>& F) const {
        const Matrix<L> C = cofactor(F);
        const Terms t = terms(dot(F.x, C.x));
        return F * mu + C * (mu * t.mu + lam * t.lam);
    }
    LANES_MEMBER Matrix<L> adjoint(const Matrix<L>& F, const Matrix<L>& A, const SolidRows<T>& rows) const {
        const Matrix<L> C = cofactor(F);
        const Terms t = terms(dot(F.x, C.x));
        const L AC = inner(A, C);
        rows.add(log_solid_row::mu, inner(A, F) + t.mu * AC);
        rows.add(log_solid_row::lam, t.lam * AC);
        return A * mu + cofactor_gradient(F, A) * (mu * t.mu + lam * t.lam) +
               C * ((mu * t.mu_rate + lam * t.lam_rate) * AC);
    }
};

// 2 c10 F + 2 c01 (I1 F - F F'F) + (k (J - 1) - 2 c10 - 4 c01) cof F, k = bulk + (2 c10 - 4 c01) / 3.
template <class T> struct MooneyLaw {
    typedef Lanes<T> L;
    L c10, c01, k;
    LANES_MEMBER MooneyLaw(const SolidRows<T>& rows) : c10(rows[mooney_row::c10]), c01(rows[mooney_row::c01]) {
        k = rows[mooney_row::bulk] + (c10 - T(2) * c01) * T(2.0 / 3.0);
    }
    static LANES_MEMBER L damping(const SolidRows<T>& rows) { return rows[mooney_row::damping]; }
    static LANES_MEMBER void add_damping(const SolidRows<T>& rows, L g) { rows.add(mooney_row::damping, g); }
    LANES_MEMBER Matrix<L> stress(const Matrix<L>& F) const {
        const Matrix<L> C = cofactor(F), Q = symmetric(F, F);
        const L J = dot(F.x, C.x);
        return F * (T(2) * (c10 + c01 * trace(Q))) + F * Q * (T(-2) * c01) +
               C * (k * (J - T(1)) - T(2) * c10 - T(4) * c01);
    }
    LANES_MEMBER Matrix<L> adjoint(const Matrix<L>& F, const Matrix<L>& A, const SolidRows<T>& rows) const {
        const Matrix<L> C = cofactor(F), Q = symmetric(F, F), S = symmetric(F, A);
        const L J = dot(F.x, C.x), AF = inner(A, F), AC = inner(A, C), volume = (J - T(1)) * AC, I1 = trace(Q);
        rows.add(mooney_row::c10, T(2) * AF - T(2) * AC + T(2.0 / 3.0) * volume);
        rows.add(mooney_row::c01, T(2) * (I1 * AF - inner(A, F * Q)) - T(4) * AC - T(4.0 / 3.0) * volume);
        rows.add(mooney_row::bulk, volume);
        return A * (T(2) * (c10 + c01 * I1)) + F * (T(4) * c01 * AF) + (A * Q + F * S * splat(T(2))) * (T(-2) * c01) +
               cofactor_gradient(F, A) * (k * (J - T(1)) - T(2) * c10 - T(4) * c01) + C * (k * AC);
    }
};

template <template <class> class Law, class T>
LANES_INLINE void solid_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const SolidBlock<T> tet(force, block);
    const Matrix<L> F = edges(nodes.x, tet.id) * tet.rest, dF = edges(nodes.v, tet.id) * tet.rest;
    const Matrix<L> P = Law<T>(tet.rows).stress(F) + F * symmetric(F, dF) * Law<T>::damping(tet.rows);
    add_edges(nodes.f, tet.id, P * transpose(tet.rest) * -tet.volume);
}
template <template <class> class Law, class T>
LANES_INLINE void solid_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const SolidBlock<T> tet(force, block);
    const Matrix<L> F = edges(nodes.x, tet.id) * tet.rest, dF = edges(nodes.v, tet.id) * tet.rest;
    const Matrix<L> A = edges(nodes.f_adj, tet.id) * tet.rest * -tet.volume;  // adjoint of P
    const Matrix<L> E = symmetric(F, dF), S = symmetric(F, A);
    const L d = Law<T>::damping(tet.rows);
    Law<T>::add_damping(tet.rows, inner(S, E));
    const Matrix<L> F_adj = Law<T>(tet.rows).adjoint(F, A, tet.rows) + (A * E + dF * S) * d;
    add_edges(nodes.x_adj, tet.id, F_adj * transpose(tet.rest));
    add_edges(nodes.v_adj, tet.id, F * S * d * transpose(tet.rest));
}

#define SOLID_FORCES(name, Law)                                                                                     \
    template <class T>                                                                                              \
    LANES_INLINE void name##_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {           \
        solid_force<Law>(force, block, nodes);                                                                      \
    }                                                                                                               \
    template <class T>                                                                                              \
    LANES_INLINE void name##_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {   \
        solid_force_adjoint<Law>(force, block, nodes);                                                              \
    }
SOLID_FORCES(stvk, StvkLaw)
SOLID_FORCES(log_solid, LogLaw)
SOLID_FORCES(mooney, MooneyLaw)
#undef SOLID_FORCES

// Fibres along a direction a of the rest shape: stress stiffness (1 - 1/l) (F a) a', l = |F a|. The unused lanes of the
// last block have l = 0.
constexpr double fibre_smallest = 1e-20;  // added to l^2
template <class T> struct FibreBlock : SolidBlock<T> {
    Vector<Lanes<T>> along;
    LANES_MEMBER FibreBlock(const ForceArrays<T>& force, long long block) : SolidBlock<T>(force, block, 13) {
        constexpr int width = LaneTypes<T>::width;
        along = load_vectors(force.reals(1) + (block * 13 + 10) * width, width);
    }
};
template <class S> LANES_INLINE Matrix<S> outer(const Vector<S>& a, const Vector<S>& b) {
    return {a * b.x, a * b.y, a * b.z};  // columns
}
template <class T> LANES_INLINE void fibre_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const FibreBlock<T> tet(force, block);
    const Vector<L> u = edges(nodes.x, tet.id) * tet.rest * tet.along;
    const L r = T(1) / square_root(dot(u, u) + T(fibre_smallest));
    const Matrix<L> P = outer(u * (tet.rows[fibre_row::stiffness] * (T(1) - r)), tet.along);
    add_edges(nodes.f, tet.id, P * transpose(tet.rest) * -tet.volume);
}
template <class T>
LANES_INLINE void fibre_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const FibreBlock<T> tet(force, block);
    const Vector<L> u = edges(nodes.x, tet.id) * tet.rest * tet.along;
    const Vector<L> w = edges(nodes.f_adj, tet.id) * tet.rest * tet.along * -tet.volume;
    const L r = T(1) / square_root(dot(u, u) + T(fibre_smallest)), s = dot(u, w), k = tet.rows[fibre_row::stiffness];
    tet.rows.add(fibre_row::stiffness, (T(1) - r) * s);
    const Vector<L> u_adj = w * (k * (T(1) - r)) + u * (k * s * r * r * r);
    add_edges(nodes.x_adj, tet.id, outer(u_adj, tet.along) * transpose(tet.rest));
}

}  // namespace gradsim
