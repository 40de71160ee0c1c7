// Forces of smoothed tetrahedra and their adjoint, for all elements of a world at once, `width` of them at a time.
// ../forces/smoothed_tetrahedra.py defines the law and every array; its portable kernels are the reference.
//
// Tetrahedra write rows of numbers times their volume, edges and nodes sum the rows of their tetrahedra, and tetrahedra
// sum the results of their edges and nodes. Nodes average over their neighbours before and after the law, which is the
// transpose as these averages are symmetric for weights by volume. Means of the parameters are computed when these change.
#pragma once
#include "rows.h"
#include "tetrahedra.h"

namespace gradsim {

static_assert(smoothed_tet_row::mu == tet_row::mu && smoothed_tet_row::lam == tet_row::lam &&
                  smoothed_tet_row::damping == tet_row::damping && smoothed_tet_row::actuation == tet_row::actuation,
              "TetBlock reads both");

// Numbers of the rows: of a tetrahedron, of the result of an edge, of the means, of the law and of the result of a node.
struct DomainRow {
    enum { F = 0, dF = 9, strains = 18, stress_adj = 18, tet = 27 };
    enum { stress = 0, F_adj = 0, dF_adj = 9, mu_adj = 18, damping_adj, active_adj, bulk_damping_adj, edge };
    enum { J, pressure_adj };
    enum { law_pressure, law_J_adj };
    enum { pressure, J_adj, bulk_adj, bulk_active_adj, node };
};

// The smoothing domains of a world and working memory.
template <class T> struct SmoothingDomains {
    static constexpr int width = LaneTypes<T>::width;
    static constexpr int tet_stride = (DomainRow::tet + width - 1) / width * width;
    static constexpr int edge_stride = (DomainRow::edge + width - 1) / width * width;
    typedef Lanes<T> L;
    typedef typename LaneTypes<T>::Node Row;
    long long block_count, tet_count, edge_count, node_count;  // padded to whole blocks
    int group_count;
    const int* ends;                                    // of the groups of ../forces/smoothing_order.py, [groups, 6]
    const int *tet_starts, *edge_starts, *edges, *nodes, *first, *spans, *around, *neighbours, *members;
    const T *per_volume, *weights;                      // of the domains of edges, then of nodes; of the neighbours
    T *tet_rows, *edge_rows, *node_sums, *node_laws, *node_rows;  // a block of zeros follows those of the tetrahedra
    T* saved;                                           // F and the adjoint of the stress of tetrahedra, [18, width]
    T* known;                                           // parameters of which the means were computed, [5, tets]
    T *edge_means, *node_means;                         // mu, damping, mu actuation, bulk damping; bulk modulus, bulk modulus actuation

    LANES_MEMBER SmoothingDomains(const ForceArrays<T>& force) {
        const int* fixed = force.ints(2);
        block_count = force.count, tet_count = block_count * width;
        group_count = fixed[0], edge_count = fixed[3], node_count = fixed[4];
        const long long tet_slots = fixed[1], edge_slots = fixed[2], edge_blocks = edge_count / width;
        ends = fixed + 6, tet_starts = ends + 6 * group_count, edge_starts = tet_starts + block_count;
        edges = edge_starts + edge_blocks, nodes = edges + 6 * tet_count;
        first = nodes + 4 * tet_count, spans = first + edge_blocks, around = spans + edge_blocks;
        neighbours = around + node_count + 1, members = neighbours + around[node_count];
        per_volume = force.reals(3), weights = per_volume + edge_count + node_count;
        tet_rows = (T*)weights + fixed[5];
        edge_rows = tet_rows + (tet_slots + 1) * width * tet_stride;
        node_sums = edge_rows + edge_slots * width * edge_stride, node_laws = node_sums + 4 * node_count;
        node_rows = node_laws + 4 * node_count, saved = node_rows + 4 * node_count;
        known = saved + tet_slots * width * 18;
        edge_means = known + 5 * tet_count, node_means = edge_means + 4 * edge_count;
    }
    LANES_MEMBER T* row_of_tets(long long block) const { return tet_rows + tet_starts[block]; }
    LANES_MEMBER T* row_of_edges(long long e) const { return edge_rows + edge_starts[e / width]; }
    LANES_MEMBER T* saved_of(long long block) const { return saved + tet_starts[block] / tet_stride * 18; }
    // Visits blocks of tetrahedra, edges in blocks, nodes, nodes with means of neighbours, nodes with laws of neighbours,
    // and blocks whose edges and nodes are done.
    template <class A, class B, class C, class D, class E, class F>
    LANES_MEMBER void for_each_group(A tets, B some_edges, C node, D law, E result, F finished) const {
        const int none[6] = {}, *from = none;
        for (int k = 0; k < group_count; k++) {
            const int* to = ends + 6 * k;
            for (long long block = from[0]; block < to[0]; block++) tets(block);
            for (long long block = from[1]; block < to[1]; block++) some_edges(block * width);
            for (long long a = from[2]; a < to[2]; a++) node(a);
            for (long long a = from[3]; a < to[3]; a++) law(a);
            for (long long a = from[4]; a < to[4]; a++) result(a);
            for (long long block = from[5]; block < to[5]; block++) finished(block);
            from = to;
        }
    }
    // Divides the sums of a node by its volume.
    LANES_MEMBER void average_node(long long a) const {
        store(node_sums + 4 * a, load_as<Row>(node_sums + 4 * a) * per_volume[edge_count + a]);
    }
    // The mean of rows over the neighbours of a node.
    LANES_MEMBER Row mean_around(const T* rows, long long a) const {
        Row sum = {};
        for (int m = around[a]; m < around[a + 1]; m++) sum += load_as<Row>(rows + neighbours[m]) * weights[m];
        return sum;
    }
    LANES_MEMBER void clear_node_sums() const { __builtin_memset(node_sums, 0, 4 * node_count * sizeof(T)); }
    LANES_MEMBER void add_to_nodes(long long block, L a, L b) const {
        const L zero = {};
        add_to_rows(node_sums, nodes + block * 4 * width, 4, a, b, zero, zero);
    }
    // The first `count` numbers of the tetrahedra of `width` edges, summed.
    template <int count> LANES_MEMBER void sum_tets(long long e, L* sums) const {
        T own[width * tet_stride] __attribute__((aligned(64)));
        const long long block = e / width;
        sum_rows<L, (count + width - 1) / width, tet_stride>(tet_rows, members + first[block], spans[block], own);
        load_rows<tet_stride, (count + 3) / 4 * 4>(own, sums);
    }
    // The first `count` numbers of the edges of `width` tetrahedra, summed.
    template <int count> LANES_MEMBER void sum_edges(long long block, L* sums) const {
        T own[width * edge_stride] __attribute__((aligned(64)));
        sum_rows<L, (count + width - 1) / width, edge_stride>(edge_rows, edges + block * 6 * width, 6, own);
        load_rows<edge_stride, (count + 3) / 4 * 4>(own, sums);
    }
    LANES_MEMBER void sum_nodes(long long block, L* sums) const {
        T own[width * 4] __attribute__((aligned(64)));
        sum_rows<Row, 1, 4>(node_rows, nodes + block * 4 * width, 4, own);
        load_rows<4>(own, sums);
    }
};

template <class L> LANES_INLINE void put(L* to, const Matrix<L>& m) {
    to[0] = m.x.x, to[1] = m.x.y, to[2] = m.x.z, to[3] = m.y.x, to[4] = m.y.y, to[5] = m.y.z;
    to[6] = m.z.x, to[7] = m.z.y, to[8] = m.z.z;
}
template <class L> LANES_INLINE Matrix<L> get(const L* from) {
    return {{from[0], from[1], from[2]}, {from[3], from[4], from[5]}, {from[6], from[7], from[8]}};
}
template <class T> LANES_INLINE void store_matrix(T* to, const Matrix<Lanes<T>>& m) {
    Lanes<T> own[9];
    put(own, m);
    for (int k = 0; k < 9; k++) store(to + k * LaneTypes<T>::width, own[k]);
}
template <class T> LANES_INLINE Matrix<Lanes<T>> load_matrix(const T* from) {
    Lanes<T> own[9];
    for (int k = 0; k < 9; k++) own[k] = load(from + k * LaneTypes<T>::width);
    return get(own);
}

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
    all.clear_node_sums();
    auto tets = [&](long long k) LANES_LAMBDA {
        const TetBlock<T> tet(force, world * all.block_count + k);
        const L w = tet.volume * T(1.0 / 6), own = (tet.lam - SmoothedLaw<T>::share * tet.mu) * tet.volume * T(0.25);
        const L bulk_damping = load(force.tables[0].value + smoothed_tet_row::bulk_damping * force.tables[0].stride +
                                    (world * all.block_count + k) * width);
        store_rows<Domains::tet_stride>(all.row_of_tets(k), tet.mu * w, tet.damping * w, tet.mu * tet.actuation * w,
                                        bulk_damping * w);
        all.add_to_nodes(k, own, own * tet.actuation);
    };
    auto edges = [&](long long e) LANES_LAMBDA {
        L sums[4];
        all.template sum_tets<4>(e, sums);
        const L per = load(all.per_volume + e);
        for (int k = 0; k < 4; k++) store(all.edge_means + k * all.edge_count + e, sums[k] * per);
    };
    auto node = [&](long long a) LANES_LAMBDA {
        const T per = all.per_volume[all.edge_count + a];
        for (int k = 0; k < 2; k++) all.node_means[k * all.node_count + a] = all.node_sums[4 * a + k] * per;
    };
    auto none = [](long long) LANES_LAMBDA {};
    all.for_each_group(tets, edges, node, none, none, none);
}

// The law on `width` edges, as that of a tetrahedron with lam = share mu.
template <class T> struct EdgeLaw : SmoothedLaw<T> {
    typedef Lanes<T> L;
    using SmoothedLaw<T>::share;
    Matrix<L> F, dF, C;
    L mu, damping, bulk_damping, J, r, pressure;
    LANES_MEMBER EdgeLaw(const SmoothingDomains<T>& all, long long e, const L* sums, L per) {
        F = get(sums + DomainRow::F) * per, dF = get(sums + DomainRow::dF) * per;
        const T* means = all.edge_means + e;
        mu = load(means), damping = load(means + all.edge_count), bulk_damping = load(means + 3 * all.edge_count);
        const L active = load(means + 2 * all.edge_count);
        C = cofactor(F);
        J = dot(F.x, C.x);
        r = T(1) / (inner(F, F) + T(1));
        pressure = share * (mu * (J - T(1)) - active) - T(0.75) * mu;
    }
    LANES_MEMBER Matrix<L> stress(T scale) const {
        const Matrix<L> rate = symmetric(F, dF);
        const L along = mu * (T(1) - r) + bulk_damping * inner(F, dF);
        return F * (along * scale) + C * (pressure * scale) + F * rate * (damping * scale);
    }
};

// Writes the rows of a block of tetrahedra and adds to the sums of nodes; with `adjoint` also the adjoints of stresses.
template <bool adjoint, class T>
LANES_INLINE void write_tets(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world, const Nodes<T>& nodes,
                             long long k) {
    typedef SmoothingDomains<T> Domains;
    typedef Lanes<T> L;
    const TetBlock<T> tet(force, world * all.block_count + k);
    const Matrix<L> F = edges(nodes.x, tet.id) * tet.rest, dF = edges(nodes.v, tet.id) * tet.rest;
    const Matrix<L> C = cofactor(F);
    const L w = tet.volume * T(1.0 / 6);
    L row[28] = {}, pressure_adj = {};
    put(row + DomainRow::F, F * w), put(row + DomainRow::dF, dF * w);
    T* saved = all.saved_of(k);
    store_matrix(saved, F);
    if constexpr (adjoint) {
        const Matrix<L> G = edges(nodes.f_adj, tet.id) * tet.rest, A = G * -tet.volume;
        put(row + DomainRow::stress_adj, G * -w);
        store_matrix(saved + 9 * Domains::width, A);
        pressure_adj = inner(A, C) * T(0.25);
    }
    store_rows<Domains::tet_stride, adjoint ? 28 : 20>(all.row_of_tets(k), row);
    all.add_to_nodes(k, dot(F.x, C.x) * tet.volume * T(0.25), pressure_adj);
}
template <class T> LANES_INLINE void begin(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world) {
    if (parameters_change(force, all, world)) find_means(force, all, world);
    all.clear_node_sums();
}

template <class T> LANES_INLINE void smoothed_tet_force(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef SmoothingDomains<T> Domains;
    typedef Lanes<T> L;
    typedef typename Domains::Row Row;
    const Domains all(force);
    begin(force, all, world);
    auto tets = [&](long long k) LANES_LAMBDA { write_tets<false>(force, all, world, nodes, k); };
    auto some_edges = [&](long long e) LANES_LAMBDA {
        L row[20], result[12] = {};
        all.template sum_tets<DomainRow::strains>(e, row);
        const EdgeLaw<T> law(all, e, row, load(all.per_volume + e));
        put(result + DomainRow::stress, law.stress(T(1.0 / 6)));
        store_rows<Domains::edge_stride, 12>(all.row_of_edges(e), result);
    };
    auto node = [&](long long a) LANES_LAMBDA { all.average_node(a); };
    auto law = [&](long long a) LANES_LAMBDA {
        const T bulk = all.node_means[a], active = all.node_means[all.node_count + a];
        const Row mean = all.mean_around(all.node_sums, a);
        store(all.node_laws + 4 * a, Row{bulk * (mean[DomainRow::J] - 1) - active});
    };
    auto result = [&](long long a) LANES_LAMBDA {
        store(all.node_rows + 4 * a, all.mean_around(all.node_laws, a) * T(0.25));
    };
    auto finished = [&](long long k) LANES_LAMBDA {
        const TetBlock<T> tet(force, world * all.block_count + k);
        L row[12], pressure[4];
        all.template sum_edges<9>(k, row);
        all.sum_nodes(k, pressure);
        const Matrix<L> C = cofactor(load_matrix(all.saved_of(k)));
        const Matrix<L> P = get(row + DomainRow::stress) + C * pressure[DomainRow::pressure];
        add_edges(nodes.f, tet.id, P * transpose(tet.rest) * -tet.volume);
    };
    all.for_each_group(tets, some_edges, node, law, result, finished);
}

// The adjoints of the mean deformation of edges and of their parameters, per volume.
template <class T> LANES_INLINE void edge_adjoint(const EdgeLaw<T>& law, const Matrix<Lanes<T>>& A, Lanes<T> per, Lanes<T>* row) {
    typedef Lanes<T> L;
    const Matrix<L> E = symmetric(law.F, law.dF), S = symmetric(law.F, A);
    const L AF = inner(A, law.F), AC = inner(A, law.C), r = law.r;
    const L scaled = law.damping * per, bulk = law.bulk_damping * per, rate = inner(law.F, law.dF);
    put(row + DomainRow::F_adj,
        A * (law.mu * (T(1) - r) * per) + law.F * (T(2) * law.mu * AF * r * r * per) + law.C * (law.share * law.mu * AC * per) +
            cofactor_gradient(law.F, A) * (law.pressure * per) + (A * E + law.dF * S) * scaled + (A * rate + law.dF * AF) * bulk);
    put(row + DomainRow::dF_adj, law.F * S * scaled + law.F * (AF * bulk));
    row[DomainRow::mu_adj] = ((T(1) - r) * AF + (law.share * (law.J - T(1)) - T(0.75)) * AC) * per;
    row[DomainRow::damping_adj] = inner(S, E) * per;
    row[DomainRow::active_adj] = -law.share * AC * per;
    row[DomainRow::bulk_damping_adj] = rate * AF * per;
}

// The pressure of a node, the adjoints of its mean change of volume and of its parameters, per volume.
template <class T> LANES_INLINE void node_adjoint(const SmoothingDomains<T>& all, long long a) {
    const auto mean = all.mean_around(all.node_sums, a);
    const T bulk = all.node_means[a], active = all.node_means[all.node_count + a];
    const T strain = mean[DomainRow::J] - 1, adj = mean[DomainRow::pressure_adj];
    T *law = all.node_laws + 4 * a, *row = all.node_rows + 4 * a;
    law[DomainRow::law_pressure] = bulk * strain - active;
    law[DomainRow::law_J_adj] = bulk * adj;
    row[DomainRow::bulk_adj] = strain * adj;
    row[DomainRow::bulk_active_adj] = -adj;
}
// The pressure and the adjoint of the change of volume that the tetrahedra of a node get.
template <class T> LANES_INLINE void node_result(const SmoothingDomains<T>& all, long long a) {
    const auto mean = all.mean_around(all.node_laws, a);
    T* row = all.node_rows + 4 * a;
    row[DomainRow::pressure] = mean[DomainRow::law_pressure];
    row[DomainRow::J_adj] = mean[DomainRow::law_J_adj];
}

// Adds the adjoints of the parameters of a block of tetrahedra.
template <class T>
LANES_INLINE void add_parameter_adjoints(const ForceArrays<T>& force, long long block, const TetBlock<T>& tet,
                                         const Lanes<T>* edge, const Lanes<T>* node) {
    typedef Lanes<T> L;
    constexpr T share = SmoothedLaw<T>::share;
    const L w = tet.volume * T(1.0 / 6), quarter = tet.volume * T(0.25);
    const L active = node[DomainRow::bulk_active_adj], edge_active = edge[DomainRow::active_adj] * w;
    const L bulk = (node[DomainRow::bulk_adj] + active * tet.actuation) * quarter;
    T* grad = force.tables[0].grad + block * LaneTypes<T>::width;
    const long long stride = force.tables[0].stride;
    accumulate(grad + smoothed_tet_row::mu * stride,
               edge[DomainRow::mu_adj] * w + edge_active * tet.actuation - share * bulk);
    accumulate(grad + smoothed_tet_row::lam * stride, bulk);
    accumulate(grad + smoothed_tet_row::damping * stride, edge[DomainRow::damping_adj] * w);
    accumulate(grad + smoothed_tet_row::bulk_damping * stride, edge[DomainRow::bulk_damping_adj] * w);
    accumulate(grad + smoothed_tet_row::actuation * stride,
               edge_active * tet.mu + (tet.lam - share * tet.mu) * active * quarter);
}

template <class T>
LANES_INLINE void finish_adjoint(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world,
                                 const Nodes<T>& nodes, long long k) {
    typedef Lanes<T> L;
    const long long block = world * all.block_count + k;
    const TetBlock<T> tet(force, block);
    L row[24], node[4];
    all.template sum_edges<DomainRow::edge>(k, row);
    all.sum_nodes(k, node);
    const T* saved = all.saved_of(k);
    const Matrix<L> F = load_matrix(saved), A = load_matrix(saved + 9 * LaneTypes<T>::width), rest = transpose(tet.rest);
    const L w = tet.volume * T(1.0 / 6);
    const Matrix<L> F_adj = get(row + DomainRow::F_adj) * w +
                            cofactor(F) * (node[DomainRow::J_adj] * tet.volume * T(0.25)) +
                            cofactor_gradient(F, A) * (node[DomainRow::pressure] * T(0.25));
    add_edges(nodes.x_adj, tet.id, F_adj * rest);
    add_edges(nodes.v_adj, tet.id, get(row + DomainRow::dF_adj) * w * rest);
    add_parameter_adjoints(force, block, tet, row, node);
}

template <class T>
LANES_INLINE void smoothed_tet_force_adjoint(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef SmoothingDomains<T> Domains;
    typedef Lanes<T> L;
    const Domains all(force);
    begin(force, all, world);
    auto tets = [&](long long k) LANES_LAMBDA { write_tets<true>(force, all, world, nodes, k); };
    auto some_edges = [&](long long e) LANES_LAMBDA {
        L row[28], result[24] = {};
        all.template sum_tets<DomainRow::tet>(e, row);
        const L per = load(all.per_volume + e);
        edge_adjoint(EdgeLaw<T>(all, e, row, per), get(row + DomainRow::stress_adj), per, result);
        store_rows<Domains::edge_stride, 24>(all.row_of_edges(e), result);
    };
    auto node = [&](long long a) LANES_LAMBDA { all.average_node(a); };
    auto law = [&](long long a) LANES_LAMBDA { node_adjoint(all, a); };
    auto result = [&](long long a) LANES_LAMBDA { node_result(all, a); };
    auto finished = [&](long long k) LANES_LAMBDA { finish_adjoint(force, all, world, nodes, k); };
    all.for_each_group(tets, some_edges, node, law, result, finished);
}

}  // namespace gradsim
