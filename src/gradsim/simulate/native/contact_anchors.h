// The anchors of sticking friction in one evaluation of the contact forces, one contact per lane.
#pragma once
#include "contact_law.h"

namespace gradsim {

// Axes of the anchors relative to those of the contact: turned by R, or the same.
template <class L> struct TurnedAxes {
    Matrix<L> R;
    LANES_MEMBER Vector<L> in(const Vector<L>& a) const { return transpose(R) * a; }
    LANES_MEMBER Vector<L> out(const Vector<L>& a) const { return R * a; }
    // Adds to the adjoint of a rotation of the contact's axes, for a vector in them and its adjoint.
    LANES_MEMBER static void add_adjoint(const Vector<L>& adj, const Vector<L>& a, Vector<L>& rotation) {
        rotation += cross(adj, a);
    }
};
template <class L> struct SameAxes {
    LANES_MEMBER const Vector<L>& in(const Vector<L>& a) const { return a; }
    LANES_MEMBER const Vector<L>& out(const Vector<L>& a) const { return a; }
    LANES_MEMBER static void add_adjoint(const Vector<L>&, const Vector<L>&, Vector<L>&) {}
};

// Blocks of three rows of lanes.
template <class T, class Axes = TurnedAxes<Lanes<T>>> struct Anchors {
    typedef Lanes<T> L;
    const T* now;       // null: all are zero
    T* next;            // null unless the evaluation computes those after the step
    const T* next_adj;  // null: all are zero
    T* now_adj;
    T h, dt;  // time that the anchors advance in the evaluation, and that of the step
    Axes axes;
    enum { width = LaneTypes<T>::width, block_size = 3 * width };

    LANES_MEMBER Vector<L> read(const T* p, int block) const {
        if (!p) return {};
        p += block * block_size;
        return axes.in(Vector<L>{load(p), load(p + width), load(p + 2 * width)});
    }
    // As `anchored_force`; `block` is that of the anchors.
    LANES_MEMBER Vector<L> force(const ContactLaw<L>& law, int block, L c, const Vector<L>& n, const Vector<L>& v,
                                 L stored) const {
        Vector<L> moved;
        const Vector<L> f = anchored_force<T>(law, c, n, v, stored, read(now, block), h, dt, next ? &moved : nullptr);
        if (next) {
            const Vector<L> a = axes.out(moved);
            T* p = next + block * block_size;
            store(p, a.x), store(p + width, a.y), store(p + 2 * width, a.z);
        }
        return f;
    }
    // As `anchored_force_adjoint`; adds to the adjoint of a rotation of the contact's axes against the anchors.
    LANES_MEMBER ContactAdjoint<L> force_adjoint(const ContactLaw<L>& law, int block, const Vector<L>& b, L c,
                                                 const Vector<L>& n, const Vector<L>& v, L stored,
                                                 Vector<L>& rotation) const {
        const Vector<L> xi = read(now, block), y = read(next_adj, block);
        Vector<L> xi_adj, moved;
        const ContactAdjoint<L> adj =
            anchored_force_adjoint<T>(law, b, next_adj ? &y : nullptr, c, n, v, stored, xi, h, dt, xi_adj, moved);
        axes.add_adjoint(xi_adj, xi, rotation);
        if (next_adj) axes.add_adjoint(moved, y, rotation);
        const Vector<L> a = axes.out(xi_adj);
        T* p = now_adj + block * block_size;
        accumulate(p, a.x), accumulate(p + width, a.y), accumulate(p + 2 * width, a.z);
        return adj;
    }
};

}  // namespace gradsim
