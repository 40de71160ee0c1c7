// Sine and cosine of numbers and lanes: Warp's CPU compiler provides no math library to native code.
#pragma once
#include "space.h"

namespace gradsim {

// Constants of one precision: parts of pi / 2 whose products with small integers are exact, and a number whose sum with
// another rounds that to an integer.
template <class T> struct TrigonometricConstants;
template <> struct TrigonometricConstants<double> {
    static constexpr double a = 1.57079625129699707031, b = 7.54978941586159635335e-8, c = 5.39030285815811905290e-15;
    static constexpr double round = 6755399441055744.0;
};
template <> struct TrigonometricConstants<float> {
    static constexpr float a = 1.5703125f, b = 4.837512969970703125e-4f, c = 7.54978995489188216e-8f;
    static constexpr float round = 12582912.0f;
};

// Sine and cosine of |x| <= pi / 4: the polynomials of Moshier's Cephes library, to rounding.
template <class S> LANES_INLINE void small_sine_cosine(S x, S& sine, S& cosine, double) {
    const S z = x * x;
    S p = 1.58962301576546568060e-10 * z - 2.50507477628578072866e-8;
    p = (p * z + 2.75573136213857245213e-6) * z - 1.98412698295895385996e-4;
    p = (p * z + 8.33333333332211858878e-3) * z - 1.66666666666666307295e-1;
    S q = -1.13585365213876817300e-11 * z + 2.08757008419747316778e-9;
    q = (q * z - 2.75573141792967388112e-7) * z + 2.48015872888517045348e-5;
    q = (q * z - 1.38888888888730564116e-3) * z + 4.16666666666665929218e-2;
    sine = x + x * (z * p);
    cosine = 1.0 - (0.5 * z - z * z * q);
}
template <class S> LANES_INLINE void small_sine_cosine(S x, S& sine, S& cosine, float) {
    const S z = x * x;
    const S p = (-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f;
    const S q = (2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f;
    sine = x + x * (z * p);
    cosine = 1.0f - (0.5f * z - z * z * q);
}

template <class T, class S> LANES_INLINE void sine_cosine(S x, S& sine, S& cosine) {
    typedef TrigonometricConstants<T> Constants;
    const S turns = (x * T(0.63661977236758134308) + Constants::round) - Constants::round;  // quarters, rounded
    const S reduced = ((x - turns * Constants::a) - turns * Constants::b) - turns * Constants::c;
    S s, c;
    small_sine_cosine(reduced, s, c, T());
    const S halves = (turns * T(0.5) + Constants::round) - Constants::round;
    const S odd = magnitude(turns - 2 * halves);  // 1 for odd quarters
    const S quarter = turns - 4 * ((turns * T(0.25) + Constants::round) - Constants::round);  // -2 to 2
    const S zero = S{};
    sine = odd > zero ? c : s;
    cosine = odd > zero ? s : c;
    const S two = zero + T(1.5), one = zero + T(0.5);
    sine = ((quarter < -one) | (quarter > two)) ? -sine : sine;
    cosine = ((quarter > one) | (quarter < -two)) ? -cosine : cosine;
}

}  // namespace gradsim
