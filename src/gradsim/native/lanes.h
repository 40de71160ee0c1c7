// Gathers and scatters of node vectors, one node a lane, and access to vectors in parameter arrays.
#pragma once
#include "space.h"

namespace gradsim {

// Vectors of consecutive elements whose x, y and z lie in consecutive rows, `stride` apart, of a parameter array.
template <class T> LANES_INLINE Vector<Lanes<T>> load_vectors(const T* p, long long stride) {
    return {load(p), load(p + stride), load(p + 2 * stride)};
}
template <class T> LANES_INLINE void accumulate_vectors(T* p, long long stride, const Vector<Lanes<T>>& a) {
    accumulate(p, a.x), accumulate(p + stride, a.y), accumulate(p + 2 * stride, a.z);
}

// A node has four scalars: x, y, z and one that is unused. Its index counts scalars. Nodes are read and written whole
// and transposed in registers: gathers and scatters of single scalars cost two to three times as much, and nodes of
// three scalars would need two stores each.
template <class T> LANES_INLINE typename LaneTypes<T>::Node load_node(const T* x, int i) {
    return load_as<typename LaneTypes<T>::Node>(x + i);
}
template <class T> LANES_INLINE void add_to_node(T* x, int i, typename LaneTypes<T>::Node a) {
    store(x + i, a + load_node(x, i));
}

LANES_INLINE Lanes<float> every_fourth_node(const float* x, const int* id) {
    auto lo = SHUFFLE(load_node(x, id[0]), load_node(x, id[4]), 0, 1, 2, 3, 4, 5, 6, 7);
    auto hi = SHUFFLE(load_node(x, id[8]), load_node(x, id[12]), 0, 1, 2, 3, 4, 5, 6, 7);
    return SHUFFLE(lo, hi, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
LANES_INLINE Lanes<double> every_fourth_node(const double* x, const int* id) {
    return SHUFFLE(load_node(x, id[0]), load_node(x, id[4]), 0, 1, 2, 3, 4, 5, 6, 7);
}
LANES_INLINE void add_to_every_fourth_node(float* x, const int* id, Lanes<float> r) {
    add_to_node(x, id[0], SHUFFLE(r, r, 0, 1, 2, 3));
    add_to_node(x, id[4], SHUFFLE(r, r, 4, 5, 6, 7));
    add_to_node(x, id[8], SHUFFLE(r, r, 8, 9, 10, 11));
    add_to_node(x, id[12], SHUFFLE(r, r, 12, 13, 14, 15));
}
LANES_INLINE void add_to_every_fourth_node(double* x, const int* id, Lanes<double> r) {
    add_to_node(x, id[0], SHUFFLE(r, r, 0, 1, 2, 3));
    add_to_node(x, id[4], SHUFFLE(r, r, 4, 5, 6, 7));
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

// Positions, velocities or forces of the nodes id[0], id[1], ..., one a lane.
template <class T> LANES_INLINE Vector<Lanes<T>> gather(const T* x, const int* id) {
    Lanes<T> r0 = every_fourth_node(x, id), r1 = every_fourth_node(x, id + 1);
    Lanes<T> r2 = every_fourth_node(x, id + 2), r3 = every_fourth_node(x, id + 3);
    Lanes<T> xy = low(r0, r1), zw = high(r0, r1), xy2 = low(r2, r3), zw2 = high(r2, r3);
    return {first_pairs(xy, xy2), second_pairs(xy, xy2), first_pairs(zw, zw2)};
}
template <class T> LANES_INLINE void scatter_add(T* x, const int* id, const Vector<Lanes<T>>& a) {
    Lanes<T> zero = {};
    Lanes<T> xy = low(a.x, a.y), xy2 = high(a.x, a.y), zw = low(a.z, zero), zw2 = high(a.z, zero);
    add_to_every_fourth_node(x, id, first_pairs(xy, zw));
    add_to_every_fourth_node(x, id + 1, second_pairs(xy, zw));
    add_to_every_fourth_node(x, id + 2, first_pairs(xy2, zw2));
    add_to_every_fourth_node(x, id + 3, second_pairs(xy2, zw2));
}

}  // namespace gradsim
