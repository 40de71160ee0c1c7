// Several pixels in the lanes of a vector: sums over lanes, the exponential function, and access to images.
#pragma once
#include "frame.h"

namespace gradsim {

// x of the centres of the pixels of a row, from column x on.
template <class T> LANES_INLINE Lanes<T> centers(int x) {
    Lanes<T> r;
    for (int i = 0; i < LaneTypes<T>::width; i++) r[i] = i;
    return r + (x + T(0.5));
}

// Adds the halves of each block of lanes: those of a to the lower half of the block, those of b to the upper half.
template <int BLOCK> LANES_INLINE Lanes<float> add_halves(Lanes<float> a, Lanes<float> b) {
    if constexpr (BLOCK == 16)
        return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
               SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    else if constexpr (BLOCK == 8)
        return SHUFFLE(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
               SHUFFLE(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    else if constexpr (BLOCK == 4)
        return SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
               SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    else
        return SHUFFLE(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
               SHUFFLE(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
}
template <int BLOCK> LANES_INLINE Lanes<double> add_halves(Lanes<double> a, Lanes<double> b) {
    if constexpr (BLOCK == 8)
        return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    else if constexpr (BLOCK == 4)
        return SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    else
        return SHUFFLE(a, b, 0, 8, 2, 10, 4, 12, 6, 14) + SHUFFLE(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}

// In lane k the sum over the lanes of vector first + k, of `count` vectors.
template <class T, int STEP = 1> LANES_INLINE Lanes<T> lane_sums(const Lanes<T>* a, int first, int count) {
    constexpr int block = LaneTypes<T>::width / STEP;
    if constexpr (block == 1) return first < count ? a[first] : Lanes<T>{};
    else if (first >= count) return Lanes<T>{};
    else
        return add_halves<2 * STEP>(lane_sums<T, 2 * STEP>(a, first, count),
                                    lane_sums<T, 2 * STEP>(a, first + STEP, count));
}

// e^a within a few units in the last place, for a up to 80 (float) or 600 (double); zero below -80 or -600. From the
// Cephes library: code that Warp compiles cannot call the C library.
LANES_INLINE Lanes<float> exponential(Lanes<float> a) {
    Mask<float> underflow = a < -80.f;
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
    Mask<float> power = (__builtin_convertvector(n, Mask<float>) + 127) << 23;  // bits of 2^n
    return underflow ? Lanes<float>{} : p * load_as<Lanes<float>>(&power);
}
LANES_INLINE Lanes<double> exponential(Lanes<double> a) {
    Mask<double> underflow = a < -600.0;
    a = larger(smaller(a, splat(600.0)), splat(-600.0));
    Lanes<double> n = __builtin_elementwise_rint(a * 1.4426950408889634);
    Lanes<double> r = a - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6, s = r * r;
    Lanes<double> p = (s * 1.26177193074810590878e-4 + 3.02994407707441961300e-2) * s + 9.99999999999999999910e-1;
    Lanes<double> q = (s * 3.00198505138664455042e-6 + 2.52448340349684104192e-3) * s + 2.27265548208155028766e-1;
    q = q * s + 2.0;
    p *= r;
    Lanes<double> e = 1.0 + 2.0 * (p / (q - p));
    Mask<double> power = (__builtin_convertvector(n, Mask<double>) + 1023) << 52;  // bits of 2^n
    return underflow ? Lanes<double>{} : e * load_as<Lanes<double>>(&power);
}

// Permutations between pixels with three or four interleaved channels and one vector a channel.
template <class L> struct Interleave;
template <> struct Interleave<Lanes<float>> {
    typedef Lanes<float> L;
    LANES_INLINE L low(L a, L b) { return SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23); }
    LANES_INLINE L high(L a, L b) {
        return SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    LANES_INLINE L even(L a, L b) { return SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30); }
    LANES_INLINE L odd(L a, L b) { return SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31); }
    LANES_INLINE L pack(L a) { return SHUFFLE(a, a, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15); }
    LANES_INLINE L unpack(L a) { return SHUFFLE(a, a, 0, 1, 2, 12, 3, 4, 5, 13, 6, 7, 8, 14, 9, 10, 11, 15); }
};
template <> struct Interleave<Lanes<double>> {
    typedef Lanes<double> L;
    LANES_INLINE L low(L a, L b) { return SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
    LANES_INLINE L high(L a, L b) { return SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
    LANES_INLINE L even(L a, L b) { return SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
    LANES_INLINE L odd(L a, L b) { return SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
    LANES_INLINE L pack(L a) { return SHUFFLE(a, a, 0, 1, 2, 4, 5, 6, 3, 7); }
    LANES_INLINE L unpack(L a) { return SHUFFLE(a, a, 0, 1, 2, 6, 3, 4, 5, 7); }
};

// Writes the first `count` pixels of four vectors; the fourth is left out if there are three channels.
template <class T> LANES_INLINE void write_pixels(T* to, int channels, int count, const Lanes<T>* value) {
    typedef Interleave<Lanes<T>> I;
    enum { width = LaneTypes<T>::width };
    Lanes<T> a = I::low(value[0], value[2]), b = I::high(value[0], value[2]);
    Lanes<T> c = I::low(value[1], value[3]), d = I::high(value[1], value[3]);
    Lanes<T> four[4] = {I::low(a, c), I::high(a, c), I::low(b, d), I::high(b, d)};
    T partial[4 * width], *whole = count < width ? partial : to;
    for (int k = 0; k < 4; k++) {
        if (channels == 4) store(whole + k * width, four[k]);
        else {
            Lanes<T> three = I::pack(four[k]);
            __builtin_memcpy(whole + k * (3 * width / 4), &three, sizeof(three) / 4 * 3);
        }
    }
    if (count < width)
        for (int i = 0; i < count * channels; i++) to[i] = partial[i];
}

// Reads pixels of one or more rows, which are `stride` apart.
template <int ROWS, class T> LANES_INLINE void read_rows(const T* from, Int stride, int channels, Lanes<T>* value) {
    typedef Interleave<Lanes<T>> I;
    enum { width = LaneTypes<T>::width };
    Lanes<T> four[4];
    for (int k = 0; k < 4; k++) {
        const T* p = from + k * ROWS / 4 * stride + k % (4 / ROWS) * channels * (width / 4);
        if (channels == 4) four[k] = load(p);
        else {
            Lanes<T> three = Lanes<T>{};
            __builtin_memcpy(&three, p, sizeof(three) / 4 * 3);
            four[k] = I::unpack(three);
        }
    }
    Lanes<T> a = I::even(four[0], four[1]), b = I::even(four[2], four[3]);
    Lanes<T> c = I::odd(four[0], four[1]), d = I::odd(four[2], four[3]);
    value[0] = I::even(a, b);
    value[2] = I::odd(a, b);
    value[1] = I::even(c, d);
    value[3] = I::odd(c, d);
}

// Reads the first `count` pixels of a vector, the others as zero.
template <class T> LANES_INLINE void read_pixels(const T* from, int channels, int count, Lanes<T>* value) {
    enum { width = LaneTypes<T>::width };
    T partial[4 * width];
    if (count < width) {
        for (int i = 0; i < 4 * width; i++) partial[i] = i < count * channels ? from[i] : T(0);
        from = partial;
    }
    read_rows<1>(from, 0, channels, value);
}

// N values of each pixel, the planes interleaved by rows of the image. Rows are padded by a vector and a half, so that
// no access needs a mask.
template <class T, int N> struct Planes {
    T* base;
    Int stride;

    Planes(int height, int width, Arena& arena) : stride((width + 39) / 16 * 16) {
        base = arena.template allocate<T>(height * N * stride);
    }
    inline T* at(int plane, int x, int y) const { return base + ((Int)y * N + plane) * stride + x; }
};

}  // namespace gradsim
