// Forces of smoothed tetrahedra and their adjoint, for all elements of a world at once, `width` of them at a time.
// ../forces/smoothed_tetrahedra.py defines the law and every array; its portable kernels are the reference.
#pragma once
#include "tetrahedra.h"

namespace gradsim {

// Numbers of an edge's row: sums over its tetrahedra, then results of the edge. Those of a node have four numbers.
struct EdgeRow {
    enum { F = 0, dF = 9, mu = 18, damping, active, sums, stress_adj = sums, adjoint_sums = sums + 9, count = 32 };
};
struct NodeRow {
    enum { J, bulk, active, pressure_adj, count };
    enum { pressure = 0, J_adj, bulk_adj, active_adj };  // results
};

// The smoothing domains of a world: rows of edges and nodes, and what the passes keep of the tetrahedra.
template <class T> struct SmoothingDomains {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    long long block_count, tet_count, edge_count, node_count;  // padded to whole blocks
    const int *edges, *nodes;                                  // of each tetrahedron, [6, tets] and [4, tets]
    const T* per_volume;                                       // of the domains of edges, then of nodes
    T *edge_rows, *node_rows, *saved;

    LANES_MEMBER SmoothingDomains(const ForceArrays<T>& force) {
        const int* fixed = force.ints(2);
        block_count = force.count, tet_count = block_count * width;
        edge_count = fixed[0], node_count = fixed[1];
        edges = fixed + 2, nodes = edges + 6 * tet_count;
        per_volume = force.reals(3);
        edge_rows = (T*)per_volume + edge_count + node_count;
        node_rows = edge_rows + edge_count * EdgeRow::count;
        saved = node_rows + node_count * NodeRow::count;
    }
    LANES_MEMBER void clear() const {
        __builtin_memset(edge_rows, 0, (edge_count * EdgeRow::count + node_count * NodeRow::count) * sizeof(T));
    }
    // Adds `count` numbers of `width` tetrahedra to the rows of their edges; `rows` is [numbers, width].
    template <int count> LANES_MEMBER void add_to_edges(long long block, const T (&rows)[EdgeRow::count][width]) const {
        for (int lane = 0; lane < width; lane++) {
            T own[count];
            for (int k = 0; k < count; k++) own[k] = rows[k][lane];
            const int* edge = edges + block * width + lane;
            for (int j = 0; j < 6; j++) {
                T* row = edge_rows + (long long)edge[j * tet_count] * EdgeRow::count;
                for (int k = 0; k < count; k++) row[k] += own[k];
            }
        }
    }
    // Sums the first `count` numbers of the rows of their edges.
    template <int count> LANES_MEMBER void sum_edges(long long block, T (&rows)[EdgeRow::count][width]) const {
        for (int lane = 0; lane < width; lane++) {
            T own[count] = {};
            const int* edge = edges + block * width + lane;
            for (int j = 0; j < 6; j++) {
                const T* row = edge_rows + (long long)edge[j * tet_count] * EdgeRow::count;
                for (int k = 0; k < count; k++) own[k] += row[k];
            }
            for (int k = 0; k < count; k++) rows[k][lane] = own[k];
        }
    }
    LANES_MEMBER void add_to_nodes(long long block, const T (&rows)[NodeRow::count][width]) const {
        for (int lane = 0; lane < width; lane++)
            for (int j = 0; j < 4; j++) {
                T* row = node_rows + (long long)nodes[j * tet_count + block * width + lane] * NodeRow::count;
                for (int k = 0; k < NodeRow::count; k++) row[k] += rows[k][lane];
            }
    }
    LANES_MEMBER void sum_nodes(long long block, T (&rows)[NodeRow::count][width]) const {
        for (int lane = 0; lane < width; lane++) {
            T own[NodeRow::count] = {};
            for (int j = 0; j < 4; j++) {
                const T* row = node_rows + (long long)nodes[j * tet_count + block * width + lane] * NodeRow::count;
                for (int k = 0; k < NodeRow::count; k++) own[k] += row[k];
            }
            for (int k = 0; k < NodeRow::count; k++) rows[k][lane] = own[k];
        }
    }
    // Numbers of `width` edges or nodes, [numbers, width].
    template <int count, int size> LANES_MEMBER static void read(const T* from, T (&rows)[size][width]) {
        for (int lane = 0; lane < width; lane++)
            for (int k = 0; k < count; k++) rows[k][lane] = from[lane * size + k];
    }
    template <int count, int size> LANES_MEMBER static void write(T* to, const T (&rows)[size][width]) {
        for (int lane = 0; lane < width; lane++)
            for (int k = 0; k < count; k++) to[lane * size + k] = rows[k][lane];
    }
};

template <class T> LANES_INLINE void put(T (*rows)[LaneTypes<T>::width], const Matrix<Lanes<T>>& m) {
    const Vector<Lanes<T>>* columns[3] = {&m.x, &m.y, &m.z};
    for (int c = 0; c < 3; c++)
        store(rows[3 * c], columns[c]->x), store(rows[3 * c + 1], columns[c]->y), store(rows[3 * c + 2], columns[c]->z);
}
template <class T> LANES_INLINE Matrix<Lanes<T>> get(const T (*rows)[LaneTypes<T>::width]) {
    auto column = [&](int c) LANES_LAMBDA {
        return Vector<Lanes<T>>{load(rows[3 * c]), load(rows[3 * c + 1]), load(rows[3 * c + 2])};
    };
    return {column(0), column(1), column(2)};
}

static_assert(smoothed_tet_row::mu == tet_row::mu && smoothed_tet_row::lam == tet_row::lam &&
                  smoothed_tet_row::damping == tet_row::damping && smoothed_tet_row::actuation == tet_row::actuation,
              "TetBlock reads both");

// The law on an edge, as that of a tetrahedron with lam = share mu; `active` is mu times the actuation.
template <class T> struct EdgeLaw {
    typedef Lanes<T> L;
    static constexpr T share = T(0.625);
    Matrix<L> F, dF, C;
    L mu, damping, active, J, r, pressure;
    LANES_MEMBER EdgeLaw(const T (&rows)[EdgeRow::count][LaneTypes<T>::width], L per) {
        F = get<T>(rows + EdgeRow::F) * per, dF = get<T>(rows + EdgeRow::dF) * per;
        mu = load(rows[EdgeRow::mu]) * per, damping = load(rows[EdgeRow::damping]) * per;
        active = load(rows[EdgeRow::active]) * per;
        C = cofactor(F);
        J = dot(F.x, C.x);
        r = T(1) / (inner(F, F) + T(1));
        pressure = share * (mu * (J - T(1)) - active) - T(0.75) * mu;
    }
    LANES_MEMBER Matrix<L> stress() const {
        return F * (mu * (T(1) - r)) + C * pressure + F * symmetric(F, dF) * damping;
    }
};

// Sums the tetrahedra over edges and nodes. With `adjoint` also the adjoints of their stresses.
template <bool adjoint, class T>
LANES_INLINE void sum_over_domains(const ForceArrays<T>& force, const SmoothingDomains<T>& all, int world,
                                   const Nodes<T>& nodes) {
    constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    all.clear();
    for (long long k = 0; k < all.block_count; k++) {
        const TetBlock<T> tet(force, world * all.block_count + k);
        const Matrix<L> F = edges(nodes.x, tet.id) * tet.rest, dF = edges(nodes.v, tet.id) * tet.rest;
        const Matrix<L> C = cofactor(F);
        const L w = tet.volume * T(1.0 / 6), own = tet.lam - EdgeLaw<T>::share * tet.mu, quarter = tet.volume * T(0.25);
        T rows[EdgeRow::count][width] __attribute__((aligned(64)));
        T node[NodeRow::count][width] __attribute__((aligned(64)));
        put<T>(rows + EdgeRow::F, F * w), put<T>(rows + EdgeRow::dF, dF * w);
        store(rows[EdgeRow::mu], tet.mu * w), store(rows[EdgeRow::damping], tet.damping * w);
        store(rows[EdgeRow::active], tet.mu * tet.actuation * w);
        store(node[NodeRow::J], dot(F.x, C.x) * quarter), store(node[NodeRow::bulk], own * quarter);
        store(node[NodeRow::active], own * tet.actuation * quarter), store(node[NodeRow::pressure_adj], L{});
        T(*saved)[width] = (T(*)[width])(all.saved + k * 18 * width);
        put<T>(saved, F);
        if constexpr (adjoint) {
            const Matrix<L> A = edges(nodes.f_adj, tet.id) * tet.rest * -tet.volume;
            put<T>(rows + EdgeRow::stress_adj, A * (L{} + T(1.0 / 6)));
            put<T>(saved + 9, A);
            store(node[NodeRow::pressure_adj], inner(A, C) * T(0.25));
        }
        all.template add_to_edges<adjoint ? EdgeRow::adjoint_sums : EdgeRow::sums>(k, rows);
        all.add_to_nodes(k, node);
    }
}

template <class T> LANES_INLINE void smoothed_tet_force(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef SmoothingDomains<T> Domains;
    constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const Domains all(force);
    sum_over_domains<false>(force, all, world, nodes);
    for (long long e = 0; e < all.edge_count; e += width) {
        T rows[EdgeRow::count][width] __attribute__((aligned(64)));
        T* at = all.edge_rows + e * EdgeRow::count;
        Domains::template read<EdgeRow::sums>(at, rows);
        put<T>(rows, EdgeLaw<T>(rows, load(all.per_volume + e)).stress());
        Domains::template write<9>(at, rows);
    }
    for (long long a = 0; a < all.node_count; a++) {
        T* row = all.node_rows + a * NodeRow::count;
        const T per = all.per_volume[all.edge_count + a];
        row[NodeRow::pressure] = row[NodeRow::bulk] * per * (row[NodeRow::J] * per - 1) - row[NodeRow::active] * per;
    }
    for (long long k = 0; k < all.block_count; k++) {
        const TetBlock<T> tet(force, world * all.block_count + k);
        T rows[EdgeRow::count][width] __attribute__((aligned(64)));
        T node[NodeRow::count][width] __attribute__((aligned(64)));
        all.template sum_edges<9>(k, rows);
        all.sum_nodes(k, node);
        const Matrix<L> F = get<T>((const T(*)[width])(all.saved + k * 18 * width));
        const Matrix<L> P = get<T>(rows) * (L{} + T(1.0 / 6)) + cofactor(F) * (load(node[NodeRow::pressure]) * T(0.25));
        add_edges(nodes.f, tet.id, P * transpose(tet.rest) * -tet.volume);
    }
}

// Replaces the sums of an edge by the adjoints of its mean deformation and parameters, per volume.
template <class T> LANES_INLINE void edge_adjoint(T (&rows)[EdgeRow::count][LaneTypes<T>::width], Lanes<T> per) {
    typedef Lanes<T> L;
    const EdgeLaw<T> law(rows, per);
    const Matrix<L> A = get<T>(rows + EdgeRow::stress_adj), E = symmetric(law.F, law.dF), S = symmetric(law.F, A);
    const L AF = inner(A, law.F), AC = inner(A, law.C), r = law.r;
    const Matrix<L> F_adj = A * (law.mu * (T(1) - r)) + law.F * (T(2) * law.mu * AF * r * r) +
                            law.C * (law.share * law.mu * AC) + cofactor_gradient(law.F, A) * law.pressure +
                            (A * E + law.dF * S) * law.damping;
    put<T>(rows + EdgeRow::F, F_adj * per);
    put<T>(rows + EdgeRow::dF, law.F * S * (law.damping * per));
    store(rows[EdgeRow::mu], ((T(1) - r) * AF + (law.share * (law.J - T(1)) - T(0.75)) * AC) * per);
    store(rows[EdgeRow::damping], inner(S, E) * per);
    store(rows[EdgeRow::active], -law.share * AC * per);
}

template <class T>
LANES_INLINE void smoothed_tet_force_adjoint(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef SmoothingDomains<T> Domains;
    constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const Domains all(force);
    sum_over_domains<true>(force, all, world, nodes);
    for (long long e = 0; e < all.edge_count; e += width) {
        T rows[EdgeRow::count][width] __attribute__((aligned(64)));
        T* at = all.edge_rows + e * EdgeRow::count;
        Domains::template read<EdgeRow::adjoint_sums>(at, rows);
        edge_adjoint<T>(rows, load(all.per_volume + e));
        Domains::template write<EdgeRow::sums>(at, rows);
    }
    for (long long a = 0; a < all.node_count; a++) {
        T* row = all.node_rows + a * NodeRow::count;
        const T per = all.per_volume[all.edge_count + a], strain = row[NodeRow::J] * per - 1;
        const T bulk = row[NodeRow::bulk] * per, adj = row[NodeRow::pressure_adj];
        row[NodeRow::pressure] = bulk * strain - row[NodeRow::active] * per;
        row[NodeRow::J_adj] = bulk * adj * per, row[NodeRow::bulk_adj] = strain * adj * per;
        row[NodeRow::active_adj] = -adj * per;
    }
    for (long long k = 0; k < all.block_count; k++) {
        const long long block = world * all.block_count + k;
        const TetBlock<T> tet(force, block);
        T rows[EdgeRow::count][width] __attribute__((aligned(64)));
        T node[NodeRow::count][width] __attribute__((aligned(64)));
        all.template sum_edges<EdgeRow::sums>(k, rows);
        all.sum_nodes(k, node);
        const T(*saved)[width] = (const T(*)[width])(all.saved + k * 18 * width);
        const Matrix<L> F = get<T>(saved), A = get<T>(saved + 9);
        const L w = tet.volume * T(1.0 / 6), quarter = tet.volume * T(0.25);
        const Matrix<L> F_adj = get<T>(rows + EdgeRow::F) * w + cofactor(F) * (load(node[NodeRow::J_adj]) * quarter) +
                                cofactor_gradient(F, A) * (load(node[NodeRow::pressure]) * T(0.25));
        add_edges(nodes.x_adj, tet.id, F_adj * transpose(tet.rest));
        add_edges(nodes.v_adj, tet.id, get<T>(rows + EdgeRow::dF) * w * transpose(tet.rest));
        const L active = load(node[NodeRow::active_adj]), edge_active = load(rows[EdgeRow::active]) * w;
        const L bulk = (load(node[NodeRow::bulk_adj]) + active * tet.actuation) * quarter;
        T* grad = force.tables[0].grad + block * width;
        const long long stride = force.tables[0].stride;
        accumulate(grad + smoothed_tet_row::mu * stride,
                   load(rows[EdgeRow::mu]) * w + edge_active * tet.actuation - EdgeLaw<T>::share * bulk);
        accumulate(grad + smoothed_tet_row::lam * stride, bulk);
        accumulate(grad + smoothed_tet_row::damping * stride, load(rows[EdgeRow::damping]) * w);
        accumulate(grad + smoothed_tet_row::actuation * stride,
                   edge_active * tet.mu + (tet.lam - EdgeLaw<T>::share * tet.mu) * active * quarter);
    }
}

}  // namespace gradsim
