// Damping of nodes proportional to their mass, and its adjoint, `width` nodes at a time; ../forces/mass_damping.py is the
// reference.
#pragma once
#include "nodes.h"

namespace gradsim {

template <class T> struct DampedNodes {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const int* id;
    L rate, inverse_mass = {}, mass;  // the mass of pinned nodes is taken as 0
    LANES_MEMBER DampedNodes(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes)
        : id(force.ints(0) + block * width), rate(load(force.tables[0].value + block * width)) {
        const T* row = nodes.table.value + node_row::inverse_mass * nodes.table.stride;
        for (int k = 0; k < width; k++) inverse_mass[k] = row[id[k] / 4];
        const L zero = {};
        mass = inverse_mass > 0 ? T(1) / inverse_mass : zero;
    }
};

template <class T>
LANES_INLINE void mass_damping_force(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    const DampedNodes<T> own(force, block, nodes);
    scatter_add(nodes.f, own.id, gather(nodes.v, own.id) * -(own.rate * own.mass));
}

template <class T>
LANES_INLINE void mass_damping_force_adjoint(const ForceArrays<T>& force, long long block, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const DampedNodes<T> own(force, block, nodes);
    const Vector<L> f_adj = gather(nodes.f_adj, own.id);
    const L power = dot(gather(nodes.v, own.id), f_adj) * own.mass;
    scatter_add(nodes.v_adj, own.id, f_adj * -(own.rate * own.mass));
    accumulate(force.tables[0].grad + block * own.width, -power);
    const L mass_adj = own.rate * power * own.mass;
    T* row = nodes.table.grad + node_row::inverse_mass * nodes.table.stride;
    for (int k = 0; k < own.width; k++) row[own.id[k] / 4] += mass_adj[k];
}

}  // namespace gradsim
