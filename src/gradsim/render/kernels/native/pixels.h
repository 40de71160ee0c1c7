// A row of pixels side by side in one vector of the machine: 16 floats or 8 doubles.
//
// Clang's vector extensions are used throughout; the compiler splits what the machine lacks.
#pragma once
#include "frame.h"

namespace gradsim {

// Centres of the pixels from column x on.
template <class T> LANES_INLINE Lanes<T> centers(int x) {
    Lanes<T> r;
    for (int i = 0; i < LaneTypes<T>::width; i++) r[i] = i;
    return r + (x + T(0.5));
}

// Sums of two vectors' lanes, by halves: of a in the lower half of each block of lanes, of b in the upper one.
#define FOLD(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
template <int BLOCK> LANES_INLINE Lanes<float> fold(Lanes<float> a, Lanes<float> b) {
    if constexpr (BLOCK == 16)
        return FOLD(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
               FOLD(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    else if constexpr (BLOCK == 8)
        return FOLD(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
               FOLD(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    else if constexpr (BLOCK == 4)
        return FOLD(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
               FOLD(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    else
        return FOLD(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
               FOLD(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
}
template <int BLOCK> LANES_INLINE Lanes<double> fold(Lanes<double> a, Lanes<double> b) {
    if constexpr (BLOCK == 8)
        return FOLD(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + FOLD(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    else if constexpr (BLOCK == 4)
        return FOLD(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + FOLD(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    else
        return FOLD(a, b, 0, 8, 2, 10, 4, 12, 6, 14) + FOLD(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}
#undef FOLD

// The sum of the lanes of vector first + k in lane k; there are `count` vectors.
template <class T, int STEP = 1> LANES_INLINE Lanes<T> totals(const Lanes<T>* a, int first, int count) {
    constexpr int block = LaneTypes<T>::width / STEP;
    if constexpr (block == 1) return first < count ? a[first] : Lanes<T>{};
    else if (first >= count) return Lanes<T>{};
    else return fold<2 * STEP>(totals<T, 2 * STEP>(a, first, count), totals<T, 2 * STEP>(a, first + STEP, count));
}

// e^a to the last bits, zero where it would be too small to be multiplied further; a up to 80 (float) or 600 (double).
// After Cephes; the library of mathematics is out of reach for code that Warp compiles.
LANES_INLINE Lanes<float> exponential(Lanes<float> a) {
    Mask<float> gone = a < -80.f;
    a = larger(smaller(a, splat(80.f)), splat(-80.f));
    Lanes<float> n = __builtin_elementwise_rint(a * 1.44269504088896341f);
    Lanes<float> r = a - n * 0.693145751953125f - n * 1.428606765330187045e-06f;
    Lanes<float> p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.f;
    Mask<float> bits = (__builtin_convertvector(n, Mask<float>) + 127) << 23;
    return gone ? Lanes<float>{} : p * load_as<Lanes<float>>(&bits);
}
LANES_INLINE Lanes<double> exponential(Lanes<double> a) {
    Mask<double> gone = a < -600.0;
    a = larger(smaller(a, splat(600.0)), splat(-600.0));
    Lanes<double> n = __builtin_elementwise_rint(a * 1.4426950408889634);
    Lanes<double> r = a - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6, s = r * r;
    Lanes<double> p = (s * 1.26177193074810590878e-4 + 3.02994407707441961300e-2) * s + 9.99999999999999999910e-1;
    Lanes<double> q = (s * 3.00198505138664455042e-6 + 2.52448340349684104192e-3) * s + 2.27265548208155028766e-1;
    q = q * s + 2.0;
    p *= r;
    Lanes<double> e = 1.0 + 2.0 * (p / (q - p));
    Mask<double> bits = (__builtin_convertvector(n, Mask<double>) + 1023) << 52;
    return gone ? Lanes<double>{} : e * load_as<Lanes<double>>(&bits);
}

// Pixels whose values stand side by side in memory, four or three of them, to vectors of one value each, and back.
template <class R> struct Zip;
template <> struct Zip<Lanes<float>> {
    typedef Lanes<float> R;
    LANES_INLINE R low(R a, R b) {
        return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    }
    LANES_INLINE R high(R a, R b) {
        return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    LANES_INLINE R even(R a, R b) {
        return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    }
    LANES_INLINE R odd(R a, R b) {
        return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    }
    LANES_INLINE R pack(R a) {
        return __builtin_shufflevector(a, a, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
    }
    LANES_INLINE R unpack(R a) {
        return __builtin_shufflevector(a, a, 0, 1, 2, 12, 3, 4, 5, 13, 6, 7, 8, 14, 9, 10, 11, 15);
    }
};
template <> struct Zip<Lanes<double>> {
    typedef Lanes<double> R;
    LANES_INLINE R low(R a, R b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
    LANES_INLINE R high(R a, R b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
    LANES_INLINE R even(R a, R b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
    LANES_INLINE R odd(R a, R b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
    LANES_INLINE R pack(R a) { return __builtin_shufflevector(a, a, 0, 1, 2, 4, 5, 6, 3, 7); }
    LANES_INLINE R unpack(R a) { return __builtin_shufflevector(a, a, 0, 1, 2, 6, 3, 4, 5, 7); }
};

template <class T> LANES_INLINE void write_pixels(T* to, int channels, int count, const Lanes<T>* value) {
    typedef Zip<Lanes<T>> Z;
    enum { width = LaneTypes<T>::width };
    Lanes<T> a = Z::low(value[0], value[2]), b = Z::high(value[0], value[2]);
    Lanes<T> c = Z::low(value[1], value[3]), d = Z::high(value[1], value[3]);
    Lanes<T> four[4] = {Z::low(a, c), Z::high(a, c), Z::low(b, d), Z::high(b, d)};
    T spill[4 * width], *whole = count < width ? spill : to;
    for (int k = 0; k < 4; k++) {
        if (channels == 4) store(whole + k * width, four[k]);
        else {
            Lanes<T> three = Z::pack(four[k]);
            __builtin_memcpy(whole + k * (3 * width / 4), &three, sizeof(three) / 4 * 3);
        }
    }
    if (count < width)
        for (int i = 0; i < count * channels; i++) to[i] = spill[i];
}

// Pixels in one or more rows, these `stride` apart.
template <int ROWS, class T> LANES_INLINE void read_rows(const T* from, Int stride, int channels, Lanes<T>* value) {
    typedef Zip<Lanes<T>> Z;
    enum { width = LaneTypes<T>::width };
    Lanes<T> four[4];
    for (int k = 0; k < 4; k++) {
        const T* p = from + k * ROWS / 4 * stride + k % (4 / ROWS) * channels * (width / 4);
        if (channels == 4) four[k] = load(p);
        else {
            Lanes<T> three = Lanes<T>{};
            __builtin_memcpy(&three, p, sizeof(three) / 4 * 3);
            four[k] = Z::unpack(three);
        }
    }
    Lanes<T> a = Z::even(four[0], four[1]), b = Z::even(four[2], four[3]);
    Lanes<T> c = Z::odd(four[0], four[1]), d = Z::odd(four[2], four[3]);
    value[0] = Z::even(a, b);
    value[2] = Z::odd(a, b);
    value[1] = Z::even(c, d);
    value[3] = Z::odd(c, d);
}

template <class T> LANES_INLINE void read_pixels(const T* from, int channels, int count, Lanes<T>* value) {
    enum { width = LaneTypes<T>::width };
    T spill[4 * width];
    if (count < width) {
        for (int i = 0; i < 4 * width; i++) spill[i] = i < count * channels ? from[i] : T(0);
        from = spill;
    }
    read_rows<1>(from, 0, channels, value);
}

// Several values a pixel for the rows of an image, the values of a row of the image close together. Rows are longer
// than the image by a vector and a half, so that no access needs a mask.
template <class T, int N> struct Planes {
    T* base;
    Int stride;

    Planes(int height, int width, Arena& arena) : stride((width + 39) / 16 * 16) {
        base = arena.template take<T>(height * N * stride);
    }
    inline T* at(int plane, int x, int y) const { return base + ((Int)y * N + plane) * stride + x; }
};

}  // namespace gradsim
