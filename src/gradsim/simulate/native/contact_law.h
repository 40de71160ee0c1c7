// The contact law and its adjoint, one contact per lane.
// ../forces/contact_law.py defines it; its portable functions are the reference. A point out of contact has depth 0,
// where force and gradients vanish.
#pragma once
#include "restitution.h"
#include "sticking.h"

namespace gradsim {

constexpr int contact_gradients = rigid_contact_row::stick_stiffness;  // rows with gradients

template <class S> struct ContactLaw {
    S ke, kd, kf, mu, delta, per_delta;
    bool any_nonsmooth;            // some lanes have delta = 0
    S loss, slope, speed, inverse;  // of a restitution
    bool restitution;              // instead of kd
    S stick;                       // kt / ke of sticking friction, for which kf is its damping
    bool sticking;
};
template <class S> LANES_INLINE auto broadcast(const ContactLaw<S>& a) -> ContactLaw<decltype(broadcast(a.ke))> {
    return {broadcast(a.ke),    broadcast(a.kd),        broadcast(a.kf), broadcast(a.mu),
            broadcast(a.delta), broadcast(a.per_delta), a.any_nonsmooth, broadcast(a.loss),
            broadcast(a.slope), broadcast(a.speed),     broadcast(a.inverse), a.restitution,
            broadcast(a.stick), a.sticking};
}

// Normal force: elastic = ke lever, where t = min(c / delta, 1) unites the parabola and the line of the law, and
// damping. With a restitution, `stored` is 2 E/m and part the ratio of normal and elastic force.
template <class L> struct Normal {
    L t, lever, blend, vn, elastic, drag, part, force;
    template <class T>
    LANES_MEMBER Normal(const ContactLaw<L>& law, L c, const Vector<L>& n, const Vector<L>& u, L stored, T) {
        t = smaller(c * law.per_delta, splat(T(1)));
        lever = t * (c - T(0.5) * law.delta * t);
        vn = dot(n, u);
        elastic = law.ke * lever;
        if (law.restitution) {
            const L ratio = DampingRatio<L>(law, -vn, stored, T(0)).value;
            part = ratio < 0 ? T(1) / (T(1) - ratio) : T(1) + ratio;
            force = elastic * part;
            return;
        }
        blend = t * t * (T(3) - T(2) * t);
        drag = -law.kd * blend * vn;
        auto separating = drag < 0;
        if (law.any_nonsmooth) separating &= law.delta > 0;
        part = separating ? elastic / (elastic - drag) : splat(T(1));
        force = separating ? elastic * part : elastic + drag;
        if (law.any_nonsmooth) force = larger(force, L{});
    }
};

template <class T>
LANES_INLINE Vector<Lanes<T>> contact_force(const ContactLaw<Lanes<T>>& law, Lanes<T> c, const Vector<Lanes<T>>& n,
                                            const Vector<Lanes<T>>& v, Lanes<T> stored = {}) {
    typedef Lanes<T> L;
    const Normal<L> normal(law, c, n, v, stored, T(0));
    const Vector<L> u = v - n * normal.vn;
    const L slip2 = dot(u, u), a = law.mu * normal.force;
    L k = a * law.kf * inverse_root(law.kf * law.kf * slip2 + a * a + T(1e-30));
    if (law.any_nonsmooth) {
        const L slip = square_root(slip2 + T(1e-30));
        k = law.delta > 0 ? k : law.kf * slip > a ? a / slip : law.kf;
    }
    return n * normal.force - u * k;
}

// Adjoints of all inputs of the force, for the adjoint b of the force; also the force itself.
template <class L> struct ContactAdjoint {
    Vector<L> force, n, v;
    L c, stored, law[contact_gradients];  // rows after those of contact_row: only with a restitution
};
// Computes the adjoints of depth, normal, velocity and normal force's parameters, for the adjoints b of the force, u_adj
// of the slip velocity and fn_adj of the normal force.
template <class T>
LANES_INLINE void set_normal_adjoint(const ContactLaw<Lanes<T>>& law, const Normal<Lanes<T>>& normal,
                                     const Vector<Lanes<T>>& b, const Vector<Lanes<T>>& n, const Vector<Lanes<T>>& v,
                                     Lanes<T> stored, const Vector<Lanes<T>>& u_adj, Lanes<T> fn_adj,
                                     ContactAdjoint<Lanes<T>>& adj) {
    typedef Lanes<T> L;
    const L fn = normal.force, vn = normal.vn, t = normal.t;
    const auto active = fn > 0;
    if (law.restitution) {
        const L gain = normal.part, lever_adj = fn_adj * law.ke * gain;
        const DampingRatio<L> ratio(law, -vn, stored, T(0));
        const L gain_ratio = ratio.value < 0 ? gain * gain : splat(T(1));
        const auto damping = ratio.adjoint(law, fn_adj * normal.elastic * gain_ratio, T(0));
        const L vn_adj = -damping.rate - dot(u_adj, n);
        adj.c = lever_adj * t;
        adj.n = b * fn - u_adj * vn + v * vn_adj;
        adj.v = u_adj + n * vn_adj;
        adj.stored = damping.stored;
        adj.law[contact_row::ke] = fn_adj * normal.lever * gain;
        adj.law[contact_row::kd] = {};
        adj.law[contact_row::delta] = law.delta > 0 ? T(-0.5) * lever_adj * t * t : L{};
        adj.law[rigid_contact_row::loss] = damping.loss;
        adj.law[rigid_contact_row::slope] = damping.slope;
        adj.law[rigid_contact_row::speed] = damping.speed;
        adj.law[rigid_contact_row::inverse] = damping.inverse;
        return;
    }
    const L part = active ? normal.part : L{};
    const L elastic_adj = fn_adj * part * (T(2) - part), drag_adj = fn_adj * part * part;
    const L vn_adj = -drag_adj * law.kd * normal.blend - dot(u_adj, n);
    const L blend_adj = -drag_adj * law.kd * vn, blend_c = T(6) * t * (T(1) - t) * law.per_delta;
    adj.c = elastic_adj * law.ke * t + blend_adj * blend_c;
    adj.n = b * fn - u_adj * vn + v * vn_adj;
    adj.v = u_adj + n * vn_adj;
    adj.law[contact_row::ke] = elastic_adj * normal.lever;
    adj.law[contact_row::kd] = -drag_adj * normal.blend * vn;
    adj.law[contact_row::delta] = T(-0.5) * elastic_adj * law.ke * t * t - blend_adj * blend_c * t;
    L& delta_adj = adj.law[contact_row::delta];
    if (law.any_nonsmooth) delta_adj = law.delta > 0 ? delta_adj : L{};
}
template <class T>
LANES_INLINE ContactAdjoint<Lanes<T>> contact_force_adjoint(const ContactLaw<Lanes<T>>& law, const Vector<Lanes<T>>& b,
                                                            Lanes<T> c, const Vector<Lanes<T>>& n,
                                                            const Vector<Lanes<T>>& v, Lanes<T> stored = {}) {
    typedef Lanes<T> L;
    const Normal<L> normal(law, c, n, v, stored, T(0));
    const L fn = normal.force;
    const auto active = fn > 0;
    const Vector<L> u = v - n * normal.vn;
    const L slip2 = dot(u, u), a = law.mu * fn;
    // Friction -k u: k and its derivatives in a, in kf and in u^2.
    L r = inverse_root(law.kf * law.kf * slip2 + a * a + T(1e-30));
    r = active ? r : L{};
    const L kr = law.kf * r, ar = a * r;
    L k = a * kr, k_a = kr * kr * kr * slip2, k_kf = ar * ar * ar, k_slip2 = T(-0.5) * k * kr * kr;
    if (law.any_nonsmooth) {
        const L slip = square_root(slip2 + T(1e-30)), zero = {};
        const auto smooth = law.delta > 0;
        const auto sliding = law.kf * slip > a;
        const L sliding_k = a / slip;
        k = smooth ? k : active ? (sliding ? sliding_k : law.kf) : zero;
        k_a = smooth ? k_a : (active & sliding) ? T(1) / slip : zero;
        k_kf = smooth ? k_kf : (active & ~sliding) ? splat(T(1)) : zero;
        k_slip2 = smooth ? k_slip2 : (active & sliding) ? T(-0.5) * sliding_k / (slip2 + T(1e-30)) : zero;
    }
    const L k_adj = -dot(b, u);
    const Vector<L> u_adj = u * (T(2) * k_adj * k_slip2) - b * k;
    L fn_adj = dot(b, n) + k_adj * k_a * law.mu;
    fn_adj = active ? fn_adj : L{};
    ContactAdjoint<L> adj;
    adj.force = n * fn - u * k;
    adj.law[contact_row::kf] = k_adj * k_kf;
    adj.law[contact_row::mu] = k_adj * k_a * fn;
    set_normal_adjoint<T>(law, normal, b, n, v, stored, u_adj, fn_adj, adj);
    return adj;
}

// As `contact_force` with sticking friction, at the time h after the start of a step: xi is the anchor there, and `moved`
// becomes that after the whole step, unless it is null.
template <class T>
LANES_INLINE Vector<Lanes<T>> anchored_force(const ContactLaw<Lanes<T>>& law, Lanes<T> c, const Vector<Lanes<T>>& n,
                                             const Vector<Lanes<T>>& v, Lanes<T> stored, const Vector<Lanes<T>>& xi, T h,
                                             T dt, Vector<Lanes<T>>* moved) {
    typedef Lanes<T> L;
    const Normal<L> normal(law, c, n, v, stored, T(0));
    const L fn = normal.force, kt = law.stick * law.ke;
    const StickingFriction<L> friction(n, v, normal.vn, fn, xi, law.mu, kt, law.kf, h);
    if (moved && h == dt) *moved = friction.anchor;
    if (moved && h != dt) *moved = StickingFriction<L>(n, v, normal.vn, fn, xi, law.mu, kt, law.kf, dt).anchor;
    return n * fn + friction.force();
}
// As `contact_force_adjoint`, for the adjoint y of the anchor after the step, null in other evaluations; sets the adjoint
// of the anchor and, with y, the anchor after the step.
template <class T>
LANES_INLINE ContactAdjoint<Lanes<T>> anchored_force_adjoint(
    const ContactLaw<Lanes<T>>& law, const Vector<Lanes<T>>& b, const Vector<Lanes<T>>* y, Lanes<T> c,
    const Vector<Lanes<T>>& n, const Vector<Lanes<T>>& v, Lanes<T> stored, const Vector<Lanes<T>>& xi, T h, T dt,
    Vector<Lanes<T>>& xi_adj, Vector<Lanes<T>>& moved) {
    typedef Lanes<T> L;
    const Normal<L> normal(law, c, n, v, stored, T(0));
    const L fn = normal.force, kt = law.stick * law.ke;
    const StickingFriction<L> friction(n, v, normal.vn, fn, xi, law.mu, kt, law.kf, h);
    auto own = friction.adjoint(b, y && h == dt ? *y : Vector<L>{}, h);
    if (y) {
        const StickingFriction<L> step(n, v, normal.vn, fn, xi, law.mu, kt, law.kf, dt);
        if (h != dt) own += step.adjoint(Vector<L>{}, *y, dt);
        moved = step.anchor;
    }
    xi_adj = own.xi;
    const L fn_adj = fn > 0 ? dot(b, n) + own.fn : L{};
    ContactAdjoint<L> adj;
    adj.force = n * fn + friction.force();
    set_normal_adjoint<T>(law, normal, b, n, v, stored, own.u, fn_adj, adj);
    adj.n += own.n;
    adj.law[contact_row::ke] += law.stick * own.kt;
    adj.law[contact_row::kf] = own.kf;
    adj.law[contact_row::mu] = own.mu;
    return adj;
}

}  // namespace gradsim
