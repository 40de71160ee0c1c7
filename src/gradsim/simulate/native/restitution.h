// Damping of contact by a coefficient of restitution and its adjoint, one contact per lane.
// ../forces/restitution.py defines it; its portable functions are the reference.
#pragma once
#include "space.h"

namespace gradsim {

// The ratio of damping and elastic force, for a rate of the depth and stored = 2 E/m.
template <class L> struct DampingRatio {
    L s, per_s, x, factor, factor_x, factor_inverse, excess, q, q_z, value;
    template <class Law, class T> LANES_MEMBER DampingRatio(const Law& law, L rate, L stored, T) {
        const L speed2 = rate * rate + stored + T(1e-30);
        per_s = inverse_root(speed2);
        s = speed2 * per_s;
        x = rate * per_s;
        // Impact speed over s, and its derivatives with respect to phase and 1/e.
        const L root = square_root(law.inverse), w = T(0.5) - T(0.5) * x * x * x;
        const L b = T(2) * (T(1) - root) * (T(1) - root), a = law.inverse - T(1) - b;
        factor = w * (a + b * w) + T(1);
        factor_x = (a + T(2) * b * w) * (T(-1.5) * x * x);
        factor_inverse = w + (T(2) - T(2) / root) * (w * w - w);
        excess = s * factor - law.speed;
        const L z = law.slope * excess, length = square_root(z * z + T(1));
        q = z + length;
        q_z = q / length;
        value = law.loss * q * x;
    }
    struct Adjoint {
        L rate, stored, loss, slope, speed, inverse;
    };
    // For the adjoint b of the ratio.
    template <class Law, class T> LANES_MEMBER Adjoint adjoint(const Law& law, L b, T) const {
        const L z_adj = b * x * law.loss * q_z, v_adj = z_adj * law.slope;
        const L x_adj = b * law.loss * q + v_adj * s * factor_x, s_adj = v_adj * factor;
        return {x_adj * (T(1) - x * x) * per_s + s_adj * x, T(0.5) * per_s * (s_adj - x_adj * x * per_s), b * x * q,
                z_adj * excess, -v_adj, v_adj * s * factor_inverse};
    }
};

// Elastic energy over ke at depth c, where t = min(c / delta, 1), and its derivative with respect to delta.
template <class T, class L> LANES_INLINE L energy_lever(L c, L t, L delta, T) {
    return delta * delta * t * t * t * T(1.0 / 6) + (c - delta * t) * c * T(0.5);
}
template <class T, class L> LANES_INLINE L energy_lever_delta(L c, L t, L delta, T) {
    return delta > 0 ? (delta * t - c) * T(0.5) - delta * t * t * t * T(1.0 / 6) : L{};
}

}  // namespace gradsim
