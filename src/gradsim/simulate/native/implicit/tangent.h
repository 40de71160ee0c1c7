// The matrix of an implicit step, -df/dx - df/dv / h made symmetric, from the adjoints of the forces: for every coordinate
// of the nodes of an element, the adjoint of a unit force. Any force in blocks of elements so has a tangent.
#pragma once
#include "world_rollout.h"

namespace gradsim {

// Adds the matrices of `width` elements, rows [3 nodes, 3 nodes, width], to the blocks of the sparse matrix. The map has
// for every pair of nodes of an element four times a block plus its form, or -1.
template <class T>
LANES_INLINE void scatter_matrices(const T* rows, int nodes, const int* map, double* blocks) {
    constexpr int width = LaneTypes<T>::width;
    const int size = 3 * nodes;
    for (int a = 0; a < nodes; a++)
        for (int b = a; b < nodes; b++, map += width)
            for (int lane = 0; lane < width; lane++) {
                if (map[lane] < 0) continue;
                double s[3][3], *block = blocks + 9 * (long long)(map[lane] / 4);
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 3; j++) {
                        const int p = 3 * a + i, q = 3 * b + j;
                        s[i][j] = 0.5 * ((double)rows[(p * size + q) * width + lane] + (double)rows[(q * size + p) * width + lane]);
                    }
                const int form = map[lane] % 4;
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 3; j++)
                        block[3 * j + i] += form == block_form::plain ? s[i][j] : form == block_form::transposed ? s[j][i] : s[i][j] + s[j][i];
            }
}

template <class T>
static __attribute__((noinline)) void add_tangent(const ForceArrays<T>& force, const ForceTangent<T>& tangent,
                                                  const ImplicitSystem<T>& system, const Nodes<T>& nodes, int world,
                                                  T per_h) {
    constexpr int width = LaneTypes<T>::width;
    const int count = (int)tangent.nodes, size = 3 * count, scalars = 4 * count * width;
    Nodes<T> own = nodes;
    T* memory = system.element_memory;
    own.x = memory, own.v = memory + scalars, own.f_adj = memory + 2 * scalars;
    own.x_adj = memory + 3 * scalars, own.v_adj = memory + 4 * scalars;
    T* rows = memory + 5 * scalars;
    own.table = {rows + 9 * count * count * width, system.unused, count * width};
    own.xi_adj = system.unused;
    ForceArrays<T> one = force;
    one.count = 1, one.kind = tangent.kind;
    for (int k = 0; k < 3; k++) one.tables[k].grad = system.unused;
    for (long long b = 0; b < force.count; b++) {
        const long long block = world * force.count + b, first = block * count * width;
        const int* id = force.ints(0) + first;
        for (int k = 0; k < count * width; k++)
            for (int c = 0; c < 4; c++) own.x[4 * k + c] = nodes.x[id[k] + c], own.v[4 * k + c] = nodes.v[id[k] + c];
        for (int k = 0; k < count * width; k++)
            own.table.value[node_row::inverse_mass * own.table.stride + k] =
                nodes.table.value[node_row::inverse_mass * nodes.table.stride + id[k] / 4];
        one.constants[0] = system.element_nodes - first;
        for (int p = 0; p < size; p++) {
            __builtin_memset(own.f_adj, 0, sizeof(T) * 3 * scalars);
            for (int lane = 0; lane < width; lane++) own.f_adj[4 * (p / 3 * width + lane) + p % 3] = 1;
            add_force_adjoints(one, own, (int)block);
            for (int q = 0; q < size; q++)
                for (int lane = 0; lane < width; lane++) {
                    const int k = 4 * (q / 3 * width + lane) + q % 3;
                    rows[(p * size + q) * width + lane] = -(own.x_adj[k] + per_h * own.v_adj[k]);
                }
        }
        scatter_matrices(rows, count, tangent.map + b * (count * (count + 1) / 2) * width, system.blocks);
    }
}

}  // namespace gradsim
