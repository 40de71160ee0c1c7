// atan2 of lanes: Warp's CPU compiler provides no math library, scalar or vectorized, to native code.
#pragma once
#include "lanes.h"

namespace gradsim {

// atan of |t| <= tan(pi / 8): the polynomials of Moshier's Cephes library, to rounding.
LANES_INLINE Lanes<float> small_atan(Lanes<float> t) {
    const Lanes<float> z = t * t;
    Lanes<float> p = 8.05374449538e-2f * z - 1.38776856032e-1f;
    p = (p * z + 1.99777106478e-1f) * z - 3.33329491539e-1f;
    return p * z * t + t;
}
LANES_INLINE Lanes<double> small_atan(Lanes<double> t) {
    const Lanes<double> z = t * t;
    Lanes<double> p = -8.750608600031904122785e-1 * z - 1.615753718733365076637e1, q = z + 2.485846490142306297962e1;
    p = (p * z - 7.500855792314704667340e1) * z - 1.228866684490136173410e2;
    q = (q * z + 1.650270098316988542046e2) * z + 4.328810604912902668951e2;
    p = p * z - 6.485021904942025371773e1;
    q = (q * z + 4.853903996359136964868e2) * z + 1.945506571482613964425e2;
    return t + t * (z * (p / q));
}

// atan2(y, x), between -pi and pi; 0 where both are 0.
template <class T> LANES_INLINE Lanes<T> atan2(Lanes<T> y, Lanes<T> x) {
    const T pi = T(3.14159265358979323846);
    const Lanes<T> u = magnitude(x), w = magnitude(y);
    const Lanes<T> high = larger(u, w), low = u + w - high;
    const auto steep = low > T(0.41421356237309505) * high;  // beyond pi / 8: measured from pi / 4
    const Lanes<T> numerator = steep ? low - high : low, denominator = steep ? low + high : high;
    Lanes<T> r = small_atan(numerator / larger(denominator, splat(T(1e-30))));
    r = steep ? r + pi / T(4) : r;
    r = w > u ? pi / T(2) - r : r;
    r = x < T(0) ? pi - r : r;
    return __builtin_elementwise_copysign(r, y);
}

}  // namespace gradsim
