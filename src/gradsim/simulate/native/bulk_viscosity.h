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

// Nodes with sums over their tetrahedra, means of neighbours, and results: rows of four numbers.
template <class T> struct ViscousNodes {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    typedef typename LaneTypes<T>::Node Row;
    enum { rate, viscosity, pressure_adj };        // sums
    enum { pressure, rate_adj, viscosity_adj };    // results
    long long count, blocks;
    const int *nodes, *around, *neighbours;  // rows of the nodes of a block of tetrahedra, [4, width]; of the means
    const T *per_volume, *weights;
    T *sums, *laws, *results;
    LANES_MEMBER ViscousNodes(const ForceArrays<T>& force)
        : count(force.ints(2)[0]), blocks(force.count), nodes(force.ints(2) + 1), around(nodes + 4 * width * blocks),
          neighbours(around + count + 1), per_volume(force.reals(3)), weights(per_volume + count),
          sums((T*)weights + around[count]), laws(sums + 4 * count), results(laws + 4 * count) {
        __builtin_memset(sums, 0, 4 * count * sizeof(T));
    }
    LANES_MEMBER void add(long long block, L a, L b, L c) const {
        const L numbers[4] = {a, b, c};
        add_to_rows(sums, nodes + block * 4 * width, 4, numbers);
    }
    LANES_MEMBER void sum(long long block, L* to) const { sum_rows<4>(results, nodes + block * 4 * width, 4, to); }
    LANES_MEMBER Row mean_around(const T* rows, long long a) const {
        Row sum = {};
        for (int m = around[a]; m < around[a + 1]; m++) sum += load_as<Row>(rows + neighbours[m]) * weights[m];
        return sum;
    }
    // Takes the law between two averages over neighbours, of rows per volume; law(row, viscosity) returns a row.
    template <class F> LANES_MEMBER void solve(F law) const {
        for (long long a = 0; a < count; a++) store(sums + 4 * a, load_as<Row>(sums + 4 * a) * per_volume[a]);
        for (long long a = 0; a < count; a++) store(laws + 4 * a, law(mean_around(sums, a), sums[4 * a + viscosity]));
        for (long long a = 0; a < count; a++) {
            Row result = mean_around(laws, a);
            result[viscosity_adj] = laws[4 * a + viscosity_adj];
            store(results + 4 * a, result);
        }
    }
};

template <class T>
LANES_INLINE void bulk_viscosity_force(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    typedef typename ViscousNodes<T>::Row Row;
    const ViscousNodes<T> all(force);
    for (long long k = 0; k < all.blocks; k++) {
        const ViscousBlock<T> tet(force, world * all.blocks + k, nodes);
        all.add(k, inner(tet.C, tet.dF) * tet.quarter, tet.viscosity * tet.quarter, L{});
    }
    all.solve([&](Row mean, T viscosity) LANES_LAMBDA { return Row{T(0.25) * mean[all.rate] * viscosity}; });
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
    typedef typename ViscousNodes<T>::Row Row;
    const ViscousNodes<T> all(force);
    auto stress_adjoint = [&](const ViscousBlock<T>& tet) LANES_LAMBDA {
        return edges(nodes.f_adj, tet.id) * tet.rest * -tet.quarter;
    };
    for (long long k = 0; k < all.blocks; k++) {
        const ViscousBlock<T> tet(force, world * all.blocks + k, nodes);
        all.add(k, inner(tet.C, tet.dF) * tet.quarter, tet.viscosity * tet.quarter, inner(stress_adjoint(tet), tet.C));
    }
    all.solve([&](Row mean, T viscosity) LANES_LAMBDA {
        const T rate = mean[all.rate], adj = mean[all.pressure_adj];
        return Row{rate * viscosity, adj * viscosity, adj * rate};
    });
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
