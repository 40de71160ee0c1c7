// Forces of smoothed tetrahedra and their adjoint, for all elements of a world at once, `width` of them at a time.
// ../forces/smoothed_tetrahedra.py defines the law and every array; its portable kernels are the reference.
//
// Tetrahedra write rows of numbers times their volume, edges and nodes sum the rows of their tetrahedra, and tetrahedra
// sum the results of their edges and nodes. Nodes average over their neighbours before and after the law, which is the
// transpose as these averages are symmetric for weights by volume. Means of parameters are computed when these change.
#pragma once
#include "smoothing_domains.h"

namespace gradsim {

static_assert(smoothed_tet_row::mu == tet_row::mu && smoothed_tet_row::lam == tet_row::lam &&
                  smoothed_tet_row::damping == tet_row::damping && smoothed_tet_row::actuation == tet_row::actuation,
              "TetBlock reads both");

template <class T> struct SmoothedLaw {
    static constexpr T share = T(1.375);  // of mu: that part of lam stays with the edges
};

// Whether parameters differ from those of which the means are known, which they become.
template <class T>
LANES_INLINE bool parameters_change(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world) {
    constexpr int width = LaneTypes<T>::width;
    Mask<T> differ = {};
    for (int row = 0; row < 5; row++) {
        const T* value = force.tables[0].value + row * force.tables[0].stride + world * all.tet_count;
        T* known = all.known + row * all.tet_count;
        for (long long k = 0; k < all.tet_count; k += width) {
            const Lanes<T> now = load(value + k);
            differ |= now != load(known + k);
            store(known + k, now);
        }
    }
    return any(differ);
}
// Sums the parameters of the tetrahedra, then divides by the volumes of edges and nodes.
template <class T>
static __attribute__((noinline)) void find_means(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world) {
    typedef SmoothingDomains<T> Domains;
    typedef Lanes<T> L;
    constexpr int width = Domains::width;
    __builtin_memset(all.node_sums, 0, 4 * all.node_count * sizeof(T));
    auto tets = [&](long long k) LANES_LAMBDA {
        const TetBlock<T> tet(force, world * all.block_count + k);
        const L w = tet.volume * T(1.0 / 6), own = (tet.lam - SmoothedLaw<T>::share * tet.mu) * tet.volume * T(0.25);
        const L bulk_damping = load(force.tables[0].value + smoothed_tet_row::bulk_damping * force.tables[0].stride +
                                    (world * all.block_count + k) * width);
        const L edge[4] = {tet.mu * w, tet.damping * w, tet.mu * tet.actuation * w, bulk_damping * w};
        const L node[4] = {own, own * tet.actuation};
        store_rows<Domains::tet_stride, 4>(all.row_of_tets(k), edge);
        add_to_rows(all.node_sums, all.nodes + k * 4 * width, 4, node);
    };
    auto edges = [&](long long e) LANES_LAMBDA {
        L sums[4];
        all.template sum_tets<4>(e, sums);
        const L per = load(all.per_volume + e);
        for (int k = 0; k < 4; k++) store(all.edge_means + k * all.edge_count + e, sums[k] * per);
    };
    auto nodes = [&](long long block) LANES_LAMBDA {
        for (long long a = block * all.together; a < (block + 1) * all.together; a++) {
            const T per = all.per_volume[all.edge_count + a];
            for (int k = 0; k < 2; k++) all.node_means[k * all.node_count + a] = all.node_sums[4 * a + k] * per;
        }
    };
    auto none = [](long long) LANES_LAMBDA {};
    all.for_each_group(tets, edges, none, nodes, none, none, none);
}

// The trace, and the Frobenius inner product of symmetric matrices.
template <class S> LANES_INLINE S diagonal_sum(const Matrix<S>& a) { return a.x.x + a.y.y + a.z.z; }
template <class S> LANES_INLINE S inner_symmetric(const Matrix<S>& a, const Matrix<S>& b) {
    const S off = a.x.y * b.x.y + a.x.z * b.x.z + a.y.z * b.y.z;
    return a.x.x * b.x.x + a.y.y * b.y.y + a.z.z * b.z.z + (off + off);
}
// a s + b, b a multiple of the identity.
template <class S> LANES_INLINE Matrix<S> scaled_plus(const Matrix<S>& a, S s, S b) {
    Matrix<S> r = a * s;
    r.x.x = a.x.x * s + b, r.y.y = a.y.y * s + b, r.z.z = a.z.z * s + b;
    return r;
}

// The law on `width` edges, as that of a tetrahedron with lam = share mu.
template <class T> struct EdgeLaw : SmoothedLaw<T> {
    typedef Lanes<T> L;
    using SmoothedLaw<T>::share;
    Matrix<L> F, dF, C, rate;
    L mu, damping, bulk_damping, J, r, pressure;
    LANES_MEMBER EdgeLaw(const SmoothingDomains<T>& all, long long e, const L* sums, L per) {
        F = get(sums + DomainRow::F) * per, dF = get(sums + DomainRow::dF) * per;
        const T* means = all.edge_means + e;
        mu = load(means), damping = load(means + all.edge_count), bulk_damping = load(means + 3 * all.edge_count);
        const L active = load(means + 2 * all.edge_count);
        C = cofactor(F), rate = symmetric(F, dF);
        J = dot(F.x, C.x);
        r = T(1) / (inner(F, F) + T(1));
        pressure = share * (mu * (J - T(1)) - active) - T(0.75) * mu;
    }
    LANES_MEMBER Matrix<L> stress(T scale) const {
        const L along = (mu * (T(1) - r) + bulk_damping * diagonal_sum(rate)) * scale;
        return F * scaled_plus(rate, damping * scale, along) + C * (pressure * scale);
    }
};

// Writes the rows of a block of tetrahedra; with `adjoint` also the adjoints of stresses.
template <bool adjoint, class T>
LANES_INLINE void write_tets(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world, const Nodes<T>& nodes,
                             long long k) {
    typedef SmoothingDomains<T> Domains;
    typedef Lanes<T> L;
    const TetBlock<T> tet(force, world * all.block_count + k);
    const Matrix<L> F = edges(nodes.x, tet.id) * tet.rest, dF = edges(nodes.v, tet.id) * tet.rest;
    const Matrix<L> C = cofactor(F);
    const L w = tet.volume * T(1.0 / 6);
    L row[32] = {};
    put(row + DomainRow::F, F * w), put(row + DomainRow::dF, dF * w);
    row[DomainRow::J] = dot(F.x, C.x) * w;
    T* saved = all.saved_of(k);
    store_matrix(saved, Saved::F, F);
    if constexpr (adjoint) {
        const Matrix<L> A = edges(nodes.f_adj, tet.id) * tet.rest * -w;
        put(row + DomainRow::stress_adj, A);
        row[DomainRow::pressure_adj] = inner(A, C);
        store_matrix(saved, Saved::stress_adj, A);
    }
    store_rows<Domains::tet_stride, adjoint ? DomainRow::tet : DomainRow::strains>(all.row_of_tets(k), row);
}
template <class T> LANES_INLINE void begin(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world) {
    if (parameters_change(force, all, world)) find_means(force, all, world);
}

template <class T> LANES_INLINE void smoothed_tet_force(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef SmoothingDomains<T> Domains;
    typedef Lanes<T> L;
    typedef typename Domains::Row Row;
    const Domains all(force);
    begin(force, all, world);
    auto tets = [&](long long k) LANES_LAMBDA { write_tets<false>(force, all, world, nodes, k); };
    auto some_edges = [&](long long e) LANES_LAMBDA {
        L row[32], result[16] = {};
        all.template sum_tets<DomainRow::strains>(e, row);
        store(all.edge_sums + e, row[DomainRow::J]);
        const EdgeLaw<T> law(all, e, row, load(all.per_volume + e));
        put(result + DomainRow::stress, law.stress(T(1.0 / 6)));
        store_rows<Domains::edge_stride, 9>(all.row_of_edges(e), result);
    };
    auto some_nodes = [&](long long block) LANES_LAMBDA { all.template average_nodes<false>(block); };
    auto law = [&](long long block) LANES_LAMBDA {
        Row mean[Domains::together];
        all.mean_around(all.node_sums, block, mean);
        for (int l = 0; l < Domains::together; l++) {
            const long long a = block * Domains::together + l;
            const T bulk = all.node_means[a], active = all.node_means[all.node_count + a];
            all.node_laws[4 * a + DomainRow::law_pressure] = bulk * (mean[l][DomainRow::node_J] - 1) - active;
        }
    };
    auto result = [&](long long block) LANES_LAMBDA {
        Row mean[Domains::together];
        all.mean_around(all.node_laws, block, mean);
        for (int l = 0; l < Domains::together; l++)
            store(all.node_rows + 4 * (block * Domains::together + l), mean[l] * T(0.25));
    };
    auto summed = [&](long long k) LANES_LAMBDA {
        L row[16];
        all.template sum_edges<9>(k, row);
        store_matrix(all.saved_of(k), Saved::sum, get(row + DomainRow::stress));
    };
    auto finished = [&](long long k) LANES_LAMBDA {
        const TetBlock<T> tet(force, world * all.block_count + k);
        const T* saved = all.saved_of(k);
        L pressure[4];
        all.sum_nodes(k, pressure);
        const Matrix<L> C = cofactor(load_matrix(saved, Saved::F));
        const Matrix<L> P = load_matrix(saved, Saved::sum) + C * pressure[DomainRow::pressure];
        add_edges(nodes.f, tet.id, P * transpose(tet.rest) * -tet.volume);
    };
    all.for_each_group(tets, some_edges, summed, some_nodes, law, result, finished);
}

// The adjoints of the mean deformation of edges and of their parameters, per volume.
template <class T> LANES_INLINE void edge_adjoint(const EdgeLaw<T>& law, const Matrix<Lanes<T>>& A, Lanes<T> per, Lanes<T>* row) {
    typedef Lanes<T> L;
    const Matrix<L>&F = law.F, &E = law.rate, S = symmetric(F, A);
    const L AF = diagonal_sum(S), AC = inner(A, law.C), r = law.r, along = diagonal_sum(E);
    const L scaled = law.damping * per, bulk = law.bulk_damping * per, stiffness = law.mu * per;
    row[DomainRow::mu_adj] = ((T(1) - r) * AF + (law.share * (law.J - T(1)) - T(0.75)) * AC) * per;
    row[DomainRow::damping_adj] = inner_symmetric(S, E) * per;
    row[DomainRow::active_adj] = -law.share * AC * per;
    row[DomainRow::bulk_damping_adj] = along * AF * per;
    const Matrix<L> of_A = scaled_plus(E, scaled, stiffness * (T(1) - r) + along * bulk), of_F = scaled_plus(S, scaled, AF * bulk);
    put(row + DomainRow::F_adj,
        A * of_A + law.dF * of_F + F * (T(2) * stiffness * AF * r * r) + law.C * (law.share * stiffness * AC) +
            cofactor_gradient(F, A * (law.pressure * per)));
    put(row + DomainRow::dF_adj, F * of_F);
}

// The pressure of the nodes of a block, the adjoints of their mean change of volume and of their parameters, per volume.
template <class T> LANES_INLINE void node_adjoints(const SmoothingDomains<T>& all, long long block) {
    typename SmoothingDomains<T>::Row mean[SmoothingDomains<T>::together];
    all.mean_around(all.node_sums, block, mean);
    for (int l = 0; l < all.together; l++) {
        const long long a = block * all.together + l;
        const T bulk = all.node_means[a], active = all.node_means[all.node_count + a];
        const T strain = mean[l][DomainRow::node_J] - 1, adj = mean[l][DomainRow::node_pressure_adj];
        T *law = all.node_laws + 4 * a, *row = all.node_rows + 4 * a;
        law[DomainRow::law_pressure] = bulk * strain - active;
        law[DomainRow::law_J_adj] = bulk * adj;
        row[DomainRow::bulk_adj] = strain * adj;
        row[DomainRow::bulk_active_adj] = -adj;
    }
}
// The pressure and the adjoint of the change of volume that the tetrahedra of the nodes get.
template <class T> LANES_INLINE void node_results(const SmoothingDomains<T>& all, long long block) {
    typename SmoothingDomains<T>::Row mean[SmoothingDomains<T>::together];
    all.mean_around(all.node_laws, block, mean);
    for (int l = 0; l < all.together; l++) {
        T* row = all.node_rows + 4 * (block * all.together + l);
        row[DomainRow::pressure] = mean[l][DomainRow::law_pressure];
        row[DomainRow::J_adj] = mean[l][DomainRow::law_J_adj];
    }
}

// Adds the adjoints of velocities and parameters from the edges of a block of tetrahedra, and saves that of F.
template <class T>
LANES_INLINE void sum_adjoints(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world, const Nodes<T>& nodes,
                               long long k) {
    typedef Lanes<T> L;
    const long long block = world * all.block_count + k, stride = force.tables[0].stride;
    const TetBlock<T> tet(force, block);
    const L w = tet.volume * T(1.0 / 6);
    L row[32];
    all.template sum_edges<DomainRow::edge>(k, row);
    store_matrix(all.saved_of(k), Saved::sum, get(row + DomainRow::F_adj) * w);
    add_edges(nodes.v_adj, tet.id, get(row + DomainRow::dF_adj) * w * transpose(tet.rest));
    const L active = row[DomainRow::active_adj] * w;
    T* grad = force.tables[0].grad + block * LaneTypes<T>::width;
    accumulate(grad + smoothed_tet_row::mu * stride, row[DomainRow::mu_adj] * w + active * tet.actuation);
    accumulate(grad + smoothed_tet_row::damping * stride, row[DomainRow::damping_adj] * w);
    accumulate(grad + smoothed_tet_row::bulk_damping * stride, row[DomainRow::bulk_damping_adj] * w);
    accumulate(grad + smoothed_tet_row::actuation * stride, active * tet.mu);
}
// Adds the adjoints of positions, and those of parameters from the nodes.
template <class T>
LANES_INLINE void finish_adjoint(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world,
                                 const Nodes<T>& nodes, long long k) {
    typedef Lanes<T> L;
    constexpr T share = SmoothedLaw<T>::share;
    const long long block = world * all.block_count + k, stride = force.tables[0].stride;
    const TetBlock<T> tet(force, block);
    const L quarter = tet.volume * T(0.25);
    L node[4];
    all.sum_nodes(k, node);
    const T* saved = all.saved_of(k);
    const Matrix<L> F = load_matrix(saved, Saved::F), A = load_matrix(saved, Saved::stress_adj);
    const Matrix<L> F_adj = load_matrix(saved, Saved::sum) + cofactor(F) * (node[DomainRow::J_adj] * quarter) +
                            cofactor_gradient(F, A * (node[DomainRow::pressure] * T(1.5)));
    add_edges(nodes.x_adj, tet.id, F_adj * transpose(tet.rest));
    const L active = node[DomainRow::bulk_active_adj] * quarter;
    const L bulk = node[DomainRow::bulk_adj] * quarter + active * tet.actuation;
    T* grad = force.tables[0].grad + block * LaneTypes<T>::width;
    accumulate(grad + smoothed_tet_row::mu * stride, -share * bulk);
    accumulate(grad + smoothed_tet_row::lam * stride, bulk);
    accumulate(grad + smoothed_tet_row::actuation * stride, (tet.lam - share * tet.mu) * active);
}

template <class T>
LANES_INLINE void smoothed_tet_force_adjoint(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef SmoothingDomains<T> Domains;
    typedef Lanes<T> L;
    const Domains all(force);
    begin(force, all, world);
    auto tets = [&](long long k) LANES_LAMBDA { write_tets<true>(force, all, world, nodes, k); };
    auto some_edges = [&](long long e) LANES_LAMBDA {
        L row[32], result[32] = {};
        all.template sum_tets<DomainRow::tet>(e, row);
        store(all.edge_sums + e, row[DomainRow::J]);
        store(all.edge_sums + all.edge_count + Domains::width + e, row[DomainRow::pressure_adj]);
        const L per = load(all.per_volume + e);
        edge_adjoint(EdgeLaw<T>(all, e, row, per), get(row + DomainRow::stress_adj), per, result);
        store_rows<Domains::edge_stride, DomainRow::edge>(all.row_of_edges(e), result);
    };
    auto some_nodes = [&](long long block) LANES_LAMBDA { all.template average_nodes<true>(block); };
    auto law = [&](long long block) LANES_LAMBDA { node_adjoints(all, block); };
    auto result = [&](long long block) LANES_LAMBDA { node_results(all, block); };
    auto summed = [&](long long k) LANES_LAMBDA { sum_adjoints(force, all, world, nodes, k); };
    auto finished = [&](long long k) LANES_LAMBDA { finish_adjoint(force, all, world, nodes, k); };
    all.for_each_group(tets, some_edges, summed, some_nodes, law, result, finished);
}

}  // namespace gradsim
