// External forces on nodes and their adjoint, `width` nodes at a time; ../forces/external.py is the reference.
#pragma once
#include "nodes.h"

namespace gradsim {

template <class T>
LANES_INLINE void external_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    constexpr int width = LaneTypes<T>::width;
    const T* p = force.tables[0].value + block * width;
    const long long stride = force.tables[0].stride;
    scatter_add(nodes.f, force.ints(0) + block * width,
                Vec<T>{load(p + external_row::force_x * stride), load(p + external_row::force_y * stride),
                       load(p + external_row::force_z * stride)});
}

template <class T>
LANES_INLINE void external_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    constexpr int width = LaneTypes<T>::width;
    T* grad = force.tables[0].grad + block * width;
    const Vec<T> a = gather(nodes.f_adj, force.ints(0) + block * width);
    for (int k = 0; k < 3; k++) accumulate(grad + (external_row::force_x + k) * force.tables[0].stride, a.c[k]);
}

}  // namespace gradsim
