// External forces on nodes and their adjoint, `width` nodes at a time; ../forces/external.py is the reference.
#pragma once
#include "nodes.h"

namespace gradsim {

template <class T>
LANES_INLINE void external_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    constexpr int width = LaneTypes<T>::width;
    const T* p = force.tables[0].value + block * width;
    const long long stride = force.tables[0].stride;
    scatter_add(nodes.f, force.ints(0) + block * width, load_vectors(p + external_row::force_x * stride, stride));
}

template <class T>
LANES_INLINE void external_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    constexpr int width = LaneTypes<T>::width;
    T* grad = force.tables[0].grad + block * width;
    const long long stride = force.tables[0].stride;
    accumulate_vectors(grad + external_row::force_x * stride, stride,
                       gather(nodes.f_adj, force.ints(0) + block * width));
}

}  // namespace gradsim
