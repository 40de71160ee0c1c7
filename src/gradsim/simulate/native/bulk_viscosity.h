// Pressure from the rate of volume around nodes and its adjoint, for all tetrahedra of a world at once, `width` of them
// at a time; ../forces/bulk_viscosity.py is the reference.
#pragma once
#include "rows.h"
#include "tetrahedra.h"

namespace gradsim {

// A block of tetrahedra: nodes, shape, deformation and its rate.
template <class T> struct ViscousBlock {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const int* id;
    Matrix<L> rest, F, dF, C;
    L volume, quarter, viscosity;
    LANES_MEMBER ViscousBlock(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
        id = force.ints(0) + block * 4 * width;
        const T* s = force.reals(1) + block * 10 * width;
        auto row = [&](int k) LANES_LAMBDA { return load_vectors(s + 3 * k * width, width); };
        rest = transpose(Matrix<L>{row(0), row(1), row(2)});
        volume = load(s + 9 * width), quarter = volume * T(0.25);
        viscosity = load(force.tables[0].value + block * width);
        F = edges(nodes.x, id) * rest, dF = edges(nodes.v, id) * rest, C = cofactor(F);
    }
};

// Nodes with sums over their tetrahedra and results: rows of four numbers.
template <class T> struct ViscousNodes {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    enum { rate, viscosity, pressure_adj };        // sums
    enum { pressure, rate_adj, viscosity_adj };    // results
    long long count, blocks;
    const int* nodes;  // rows of the nodes of a block of tetrahedra, [4, width]
    const T* per_volume;
    T *sums, *results;
    LANES_MEMBER ViscousNodes(const ForceArrays<T>& force)
        : count(force.ints(2)[0]), blocks(force.count), nodes(force.ints(2) + 1), per_volume(force.reals(3)),
          sums((T*)per_volume + count), results(sums + 4 * count) {
        __builtin_memset(sums, 0, 4 * count * sizeof(T));
    }
    LANES_MEMBER void add(long long block, L a, L b, L c) const {
        add_to_rows(sums, nodes + block * 4 * width, 4, a, b, c, L{});
    }
    LANES_MEMBER void sum(long long block, L* to) const {
        T own[4 * width] __attribute__((aligned(64)));
        sum_rows<typename LaneTypes<T>::Node, 1, 4>(results, nodes + block * 4 * width, 4, own);
        load_rows<4>(own, to);
    }
};

template <class T>
LANES_INLINE void bulk_viscosity_force(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const ViscousNodes<T> all(force);
    for (long long k = 0; k < all.blocks; k++) {
        const ViscousBlock<T> tet(force, world * all.blocks + k, nodes);
        all.add(k, inner(tet.C, tet.dF) * tet.quarter, tet.viscosity * tet.quarter, L{});
    }
    for (long long a = 0; a < all.count; a++) {
        const T *sums = all.sums + 4 * a, per = all.per_volume[a];
        all.results[4 * a + all.pressure] = T(0.25) * sums[all.rate] * sums[all.viscosity] * per * per;
    }
    for (long long k = 0; k < all.blocks; k++) {
        const ViscousBlock<T> tet(force, world * all.blocks + k, nodes);
        L row[4];
        all.sum(k, row);
        add_edges(nodes.f, tet.id, tet.C * (row[all.pressure] * -tet.volume) * transpose(tet.rest));
    }
}

template <class T>
LANES_INLINE void bulk_viscosity_force_adjoint(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const ViscousNodes<T> all(force);
    auto stress_adjoint = [&](const ViscousBlock<T>& tet) LANES_LAMBDA {
        return edges(nodes.f_adj, tet.id) * tet.rest * -tet.quarter;
    };
    for (long long k = 0; k < all.blocks; k++) {
        const ViscousBlock<T> tet(force, world * all.blocks + k, nodes);
        all.add(k, inner(tet.C, tet.dF) * tet.quarter, tet.viscosity * tet.quarter, inner(stress_adjoint(tet), tet.C));
    }
    for (long long a = 0; a < all.count; a++) {
        const T *sums = all.sums + 4 * a, per = all.per_volume[a], adj = sums[all.pressure_adj];
        T* result = all.results + 4 * a;
        const T rate = sums[all.rate] * per, viscosity = sums[all.viscosity] * per;
        result[all.pressure] = rate * viscosity;
        result[all.rate_adj] = adj * viscosity * per, result[all.viscosity_adj] = adj * rate * per;
    }
    for (long long k = 0; k < all.blocks; k++) {
        const long long block = world * all.blocks + k;
        const ViscousBlock<T> tet(force, block, nodes);
        L row[4];
        all.sum(k, row);
        const L rate_adj = row[all.rate_adj] * tet.quarter;
        const Matrix<L> rest = transpose(tet.rest);
        const Matrix<L> F_adj = cofactor_gradient(tet.F, stress_adjoint(tet)) * row[all.pressure] +
                                cofactor_gradient(tet.F, tet.dF) * rate_adj;
        add_edges(nodes.x_adj, tet.id, F_adj * rest);
        add_edges(nodes.v_adj, tet.id, tet.C * rate_adj * rest);
        accumulate(force.tables[0].grad + block * tet.width, row[all.viscosity_adj] * tet.quarter);
    }
}

}  // namespace gradsim
