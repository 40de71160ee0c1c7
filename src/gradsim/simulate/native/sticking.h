// Sticking friction and its adjoint, one contact per lane.
// ../forces/sticking.py defines it; its portable functions are the reference.
#pragma once
#include "space.h"

namespace gradsim {

// Friction for a normal force fn and the velocity v with normal component vn, and the anchor after the time h. Without
// a normal force both vanish.
template <class L> struct StickingFriction {
    Vector<L> n, v, u, xi, q, anchor, t;
    L vn, fn, mu, kt, kf, a, slip2, per_gate, limit_a, limit, per_r, per_kt, along, per_root, tau;
    template <class T>
    LANES_MEMBER StickingFriction(const Vector<L>& n_, const Vector<L>& v_, L vn_, L fn_, const Vector<L>& xi_, L mu_,
                                  L kt_, L kf_, T h)
        : n(n_), v(v_), xi(xi_), vn(vn_), fn(fn_), mu(mu_), kt(kt_), kf(kf_) {
        u = v - n * vn;
        along = dot(n, xi);
        q = xi - n * along + u * h;
        a = mu * fn;
        slip2 = dot(u, u);
        per_gate = T(1) / (a * a + kf * kf * slip2 + T(1e-30));
        per_kt = T(1) / (kt + T(1e-30));
        limit_a = T(1.5) * (a * per_kt) * (a * per_gate);
        limit = limit_a * a;
        per_r = inverse_root(dot(q, q) + T(1e-30));
        anchor = q * smaller(limit * per_r, splat(T(1)));
        t = anchor * kt + u * kf;
        const L length = square_root(dot(t, t)), large = larger(length, a) + T(1e-30);
        L ratio = smaller(length, a) / large;
        ratio = ratio * ratio, ratio = ratio * ratio;
        per_root = T(1) / (large * square_root(square_root(square_root(ratio * ratio + T(1)))));
        tau = length * per_root;
    }
    LANES_MEMBER Vector<L> force() const { return t * (-a * per_root); }

    // Adjoints of normal force, slip velocity, anchor, normal (through the anchor only), mu, kt and kf.
    struct Adjoint {
        L fn, mu, kt, kf;
        Vector<L> u, xi, n;
        LANES_MEMBER void operator+=(const Adjoint& o) {
            fn += o.fn, mu += o.mu, kt += o.kt, kf += o.kf, u += o.u, xi += o.xi, n += o.n;
        }
    };
    // For the adjoints b of the force and y of the anchor after the time h.
    template <class T> LANES_MEMBER Adjoint adjoint(const Vector<L>& b, const Vector<L>& y, T h) const {
        const auto active = fn > 0;
        const auto slides = limit * per_r < T(1);
        const L zero = {}, k = a * per_root, k_adj = -dot(b, t), tau3 = tau * tau * tau * per_root;
        const Vector<L> t_adj = -(b * k) - t * (k_adj * k * tau3 * tau3);
        const L tau4 = tau * tau * tau * tau;
        L a_adj = k_adj * tau4 * tau4 * per_root, kt_adj = dot(t_adj, anchor), kf_adj = dot(t_adj, u);
        Vector<L> anchor_adj = y + t_adj * kt;
        anchor_adj = anchor_adj * (active ? zero + T(1) : zero);
        const L limit_adj = slides ? dot(q, anchor_adj) * per_r : zero, log_adj = limit_adj * limit;
        const L scale = slides ? limit * per_r : zero + T(1);
        const Vector<L> q_adj = (anchor_adj - q * (limit_adj * per_r)) * scale;
        a_adj += limit_adj * limit_a * (T(3) - T(2) * a * a * per_gate);
        kt_adj -= log_adj * per_kt;
        kf_adj -= T(2) * log_adj * kf * slip2 * per_gate;
        const Vector<L> u_adj = t_adj * kf - u * (T(2) * log_adj * kf * kf * per_gate) + q_adj * h;
        const L q_n = dot(n, q_adj);
        return {active ? a_adj * mu : zero, a_adj * fn, kt_adj, kf_adj, u_adj, q_adj - n * q_n, -(q_adj * along) - xi * q_n};
    }
};

}  // namespace gradsim
