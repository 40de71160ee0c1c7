// The smoothing domains of a world's tetrahedra: lists, working memory, and sums of rows over them.
// ../forces/smoothing_order.py defines the order.
#pragma once
#include "rows.h"
#include "tetrahedra.h"

namespace gradsim {

// Numbers of the rows: of a tetrahedron, of the result of an edge, of the means, the law and the result of a node.
struct DomainRow {
    enum { F = 0, dF = 9, J = 18, strains = 19, pressure_adj = 19, stress_adj = 20, tet = 29 };
    enum { stress = 0, F_adj = 0, dF_adj = 9, mu_adj = 18, damping_adj, active_adj, bulk_damping_adj, edge };
    enum { node_J, node_pressure_adj };
    enum { law_pressure, law_J_adj };
    enum { pressure, J_adj, bulk_adj, bulk_active_adj, node };
};
// Matrices that tetrahedra save: F, the adjoint of the stress, and the sum over edges of stresses or of adjoints of F.
struct Saved {
    enum { F, stress_adj = 9, sum = 18, count = 27 };
};

// The smoothing domains of a world and working memory.
template <class T> struct SmoothingDomains {
    static constexpr int width = LaneTypes<T>::width, together = 4;  // nodes of a block
    static constexpr int tet_stride = (DomainRow::tet + width - 1) / width * width;
    static constexpr int edge_stride = (DomainRow::edge + width - 1) / width * width;
    typedef Lanes<T> L;
    typedef typename LaneTypes<T>::Node Row;
    long long block_count, tet_count, edge_count, node_count;  // padded to whole blocks
    int group_count;
    const int* ends;                                    // of the groups of ../forces/smoothing_order.py, [groups, 7]
    const int *tet_starts, *saved_starts, *edge_starts, *edges, *nodes, *first, *spans;
    const int *node_first, *node_spans;                 // of the blocks of nodes in the lists of their neighbours
    const int *neighbours, *incident, *members;         // incident edges: those to the neighbours
    const T *per_volume, *weights;                      // of the domains of edges, then of nodes; of the neighbours
    T *tet_rows, *edge_rows, *node_sums, *node_laws, *node_rows;  // a block of zeros follows those of the tetrahedra
    T* edge_sums;                                       // J and the adjoint of the pressure of edges, then zeros
    T* saved;                                           // of tetrahedra: `Saved`, [27, width]
    T* known;                                           // parameters of which the means were computed, [5, tets]
    T* edge_means;                                      // mu, damping, mu actuation, bulk damping
    T* node_means;                                      // bulk modulus, bulk modulus actuation

    LANES_MEMBER SmoothingDomains(const ForceArrays<T>& force) {
        const int* fixed = force.ints(2);
        block_count = force.count, tet_count = block_count * width;
        group_count = fixed[0], edge_count = fixed[4], node_count = fixed[5];
        const long long tet_slots = fixed[1], edge_slots = fixed[3], neighbour_count = fixed[6];
        const long long edge_blocks = edge_count / width, node_blocks = node_count / together;
        ends = fixed + 7, tet_starts = ends + 7 * group_count, saved_starts = tet_starts + block_count;
        edge_starts = saved_starts + block_count;
        edges = edge_starts + edge_blocks, nodes = edges + 6 * tet_count;
        first = nodes + 4 * tet_count, spans = first + edge_blocks, node_first = spans + edge_blocks;
        node_spans = node_first + node_blocks, neighbours = node_spans + node_blocks;
        incident = neighbours + neighbour_count, members = incident + neighbour_count;
        per_volume = force.reals(3), weights = per_volume + edge_count + node_count;
        tet_rows = (T*)weights + neighbour_count;
        edge_rows = tet_rows + (tet_slots + 1) * width * tet_stride;
        node_sums = edge_rows + edge_slots * width * edge_stride, node_laws = node_sums + 4 * node_count;
        node_rows = node_laws + 4 * node_count, edge_sums = node_rows + 4 * node_count;
        known = edge_sums + 2 * (edge_count + width);
        edge_means = known + 5 * tet_count, node_means = edge_means + 4 * edge_count;
        saved = node_means + 2 * node_count;
    }
    LANES_MEMBER T* row_of_tets(long long block) const { return tet_rows + tet_starts[block]; }
    LANES_MEMBER T* row_of_edges(long long e) const { return edge_rows + edge_starts[e / width]; }
    LANES_MEMBER T* saved_of(long long block) const { return saved + saved_starts[block]; }
    // Visits blocks of tetrahedra, edges in blocks, blocks of tetrahedra whose edges are done, blocks of nodes, those with
    // means of neighbours, those with laws of neighbours, and blocks of tetrahedra whose nodes are done.
    template <class A, class B, class C, class D, class E, class F, class G>
    LANES_MEMBER void for_each_group(A tets, B some_edges, C summed, D some_nodes, E law, F result, G finished) const {
        const int none[7] = {}, *from = none;
        for (int k = 0; k < group_count; k++) {
            const int* to = ends + 7 * k;
            for (long long block = from[0]; block < to[0]; block++) tets(block);
            for (long long block = from[1]; block < to[1]; block++) some_edges(block * width);
            for (long long block = from[2]; block < to[2]; block++) summed(block);
            for (long long block = from[3]; block < to[3]; block++) some_nodes(block);
            for (long long block = from[4]; block < to[4]; block++) law(block);
            for (long long block = from[5]; block < to[5]; block++) result(block);
            for (long long block = from[6]; block < to[6]; block++) finished(block);
            from = to;
        }
    }
    // The sums over tetrahedra of a node are half of those over its edges, of which each tetrahedron has three.
    template <bool adjoint> LANES_MEMBER void average_nodes(long long block) const {
        T J[together] = {}, pressure_adj[together] = {};
        const int *own = incident + node_first[block], *end = own + node_spans[block] * together;
        for (; own < end; own += together) {
            UNROLLED for (int l = 0; l < together; l++) {
                J[l] += edge_sums[own[l]];
                if constexpr (adjoint) pressure_adj[l] += edge_sums[edge_count + width + own[l]];
            }
        }
        const long long a = block * together;
        for (int l = 0; l < together; l++) {
            const T per = per_volume[edge_count + a + l] * T(0.5);
            T* sums = node_sums + 4 * (a + l);
            sums[DomainRow::node_J] = J[l] * per, sums[DomainRow::node_pressure_adj] = pressure_adj[l] * per;
        }
    }
    // The means of rows over the neighbours of the nodes of a block.
    LANES_MEMBER void mean_around(const T* rows, long long block, Row* sum) const {
        const int *own = neighbours + node_first[block], *end = own + node_spans[block] * together;
        const T* weight = weights + node_first[block];
        UNROLLED for (int l = 0; l < together; l++) sum[l] = Row{};
        for (; own < end; own += together, weight += together) {
            UNROLLED for (int l = 0; l < together; l++) sum[l] += load_as<Row>(rows + own[l]) * weight[l];
        }
    }
    // The sums of the first `numbers` numbers of the tetrahedra of `width` edges.
    template <int numbers> LANES_MEMBER void sum_tets(long long e, L* sums) const {
        sum_rows<numbers>(tet_rows, members + first[e / width], spans[e / width], sums);
    }
    // The sums of the first `numbers` numbers of the edges of `width` tetrahedra.
    template <int numbers> LANES_MEMBER void sum_edges(long long block, L* sums) const {
        sum_rows<numbers>(edge_rows, edges + block * 6 * width, 6, sums);
    }
    LANES_MEMBER void sum_nodes(long long block, L* sums) const {
        sum_rows<4>(node_rows, nodes + block * 4 * width, 4, sums);
    }
};

template <class L> LANES_INLINE void put(L* to, const Matrix<L>& m) {
    to[0] = m.x.x, to[1] = m.x.y, to[2] = m.x.z, to[3] = m.y.x, to[4] = m.y.y, to[5] = m.y.z;
    to[6] = m.z.x, to[7] = m.z.y, to[8] = m.z.z;
}
template <class L> LANES_INLINE Matrix<L> get(const L* from) {
    return {{from[0], from[1], from[2]}, {from[3], from[4], from[5]}, {from[6], from[7], from[8]}};
}
template <class T> LANES_INLINE void store_matrix(T* saved, int at, const Matrix<Lanes<T>>& m) {
    T* to = saved + at * LaneTypes<T>::width;
    Lanes<T> own[9];
    put(own, m);
    for (int k = 0; k < 9; k++) store(to + k * LaneTypes<T>::width, own[k]);
}
template <class T> LANES_INLINE Matrix<Lanes<T>> load_matrix(const T* saved, int at) {
    const T* from = saved + at * LaneTypes<T>::width;
    Lanes<T> own[9];
    for (int k = 0; k < 9; k++) own[k] = load(from + k * LaneTypes<T>::width);
    return get(own);
}

}  // namespace gradsim
