// Vectors over the nodes and elements of a mesh, one element a lane, and transposed access to rows of nodes.
#pragma once

// Products and sums fuse, which Warp's compiler does not do by itself.
#pragma clang fp contract(fast)

#include "simd.h"

namespace gradsim {

template <class L> LANES_INLINE L root(L a) { return square_root(a); }

// x, y and z of `width` nodes.
template <class T> struct Vec {
    Lanes<T> c[3];
};
template <class T> LANES_INLINE Vec<T> operator+(const Vec<T>& a, const Vec<T>& b) {
    return {a.c[0] + b.c[0], a.c[1] + b.c[1], a.c[2] + b.c[2]};
}
template <class T> LANES_INLINE Vec<T> operator-(const Vec<T>& a, const Vec<T>& b) {
    return {a.c[0] - b.c[0], a.c[1] - b.c[1], a.c[2] - b.c[2]};
}
template <class T> LANES_INLINE Vec<T> operator*(const Vec<T>& a, Lanes<T> s) {
    return {a.c[0] * s, a.c[1] * s, a.c[2] * s};
}
template <class T> LANES_INLINE Lanes<T> dot(const Vec<T>& a, const Vec<T>& b) {
    return a.c[0] * b.c[0] + a.c[1] * b.c[1] + a.c[2] * b.c[2];
}
template <class T> LANES_INLINE Vec<T> cross(const Vec<T>& a, const Vec<T>& b) {
    return {a.c[1] * b.c[2] - a.c[2] * b.c[1], a.c[2] * b.c[0] - a.c[0] * b.c[2], a.c[0] * b.c[1] - a.c[1] * b.c[0]};
}

// A row of a node has four scalars: x, y, z and one that is unused. Its index counts scalars. Rows are read and written
// whole and transposed in registers: gathers and scatters of single scalars cost two to three times as much, and rows
// of three scalars would need two stores each.
template <class T> LANES_INLINE typename LaneTypes<T>::Node row(const T* x, int i) {
    return load_as<typename LaneTypes<T>::Node>(x + i);
}
template <class T> LANES_INLINE void add_row(T* x, int i, typename LaneTypes<T>::Node a) {
    store(x + i, a + row(x, i));
}

LANES_INLINE Lanes<float> rows4(const float* x, const int* id) {
    auto lo = SHUFFLE(row(x, id[0]), row(x, id[4]), 0, 1, 2, 3, 4, 5, 6, 7);
    auto hi = SHUFFLE(row(x, id[8]), row(x, id[12]), 0, 1, 2, 3, 4, 5, 6, 7);
    return SHUFFLE(lo, hi, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
LANES_INLINE Lanes<double> rows4(const double* x, const int* id) {
    return SHUFFLE(row(x, id[0]), row(x, id[4]), 0, 1, 2, 3, 4, 5, 6, 7);
}
LANES_INLINE void add_rows4(float* x, const int* id, Lanes<float> r) {
    add_row(x, id[0], SHUFFLE(r, r, 0, 1, 2, 3));
    add_row(x, id[4], SHUFFLE(r, r, 4, 5, 6, 7));
    add_row(x, id[8], SHUFFLE(r, r, 8, 9, 10, 11));
    add_row(x, id[12], SHUFFLE(r, r, 12, 13, 14, 15));
}
LANES_INLINE void add_rows4(double* x, const int* id, Lanes<double> r) {
    add_row(x, id[0], SHUFFLE(r, r, 0, 1, 2, 3));
    add_row(x, id[4], SHUFFLE(r, r, 4, 5, 6, 7));
}
// Interleave the low or high pairs of every group of four lanes; four such steps transpose 4 x 4 blocks in place.
LANES_INLINE Lanes<float> low(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
LANES_INLINE Lanes<float> high(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
LANES_INLINE Lanes<float> first_pairs(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
LANES_INLINE Lanes<float> second_pairs(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
LANES_INLINE Lanes<double> low(Lanes<double> a, Lanes<double> b) { return SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
LANES_INLINE Lanes<double> high(Lanes<double> a, Lanes<double> b) { return SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
LANES_INLINE Lanes<double> first_pairs(Lanes<double> a, Lanes<double> b) {
    return SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
}
LANES_INLINE Lanes<double> second_pairs(Lanes<double> a, Lanes<double> b) {
    return SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}

template <class T> LANES_INLINE Vec<T> gather(const T* x, const int* id) {
    Lanes<T> r0 = rows4(x, id), r1 = rows4(x, id + 1), r2 = rows4(x, id + 2), r3 = rows4(x, id + 3);
    Lanes<T> xy = low(r0, r1), zw = high(r0, r1), xy2 = low(r2, r3), zw2 = high(r2, r3);
    return {first_pairs(xy, xy2), second_pairs(xy, xy2), first_pairs(zw, zw2)};
}
template <class T> LANES_INLINE void scatter_add(T* x, const int* id, const Vec<T>& a) {
    Lanes<T> zero = {};
    Lanes<T> xy = low(a.c[0], a.c[1]), xy2 = high(a.c[0], a.c[1]), zw = low(a.c[2], zero), zw2 = high(a.c[2], zero);
    add_rows4(x, id, first_pairs(xy, zw));
    add_rows4(x, id + 1, second_pairs(xy, zw));
    add_rows4(x, id + 2, first_pairs(xy2, zw2));
    add_rows4(x, id + 3, second_pairs(xy2, zw2));
}

}  // namespace gradsim
