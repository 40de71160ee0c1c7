// Rows: a few numbers of each element, element after element. Kernels whose lanes are elements transpose them in
// registers, four numbers at a time; sums of rows over lists of elements need no transposition.
#pragma once
#include "lanes.h"

namespace gradsim {

// Where the rows of `width` elements start, `stride` scalars apart.
template <int stride> struct RowStarts {
    static constexpr int at[16] = {0,          stride,     2 * stride, 3 * stride,  4 * stride,  5 * stride,
                                   6 * stride, 7 * stride, 8 * stride, 9 * stride,  10 * stride, 11 * stride,
                                   12 * stride, 13 * stride, 14 * stride, 15 * stride};
};

LANES_INLINE void store_every_fourth(float* rows, const int* at, Lanes<float> r) {
    store(rows + at[0], SHUFFLE(r, r, 0, 1, 2, 3));
    store(rows + at[4], SHUFFLE(r, r, 4, 5, 6, 7));
    store(rows + at[8], SHUFFLE(r, r, 8, 9, 10, 11));
    store(rows + at[12], SHUFFLE(r, r, 12, 13, 14, 15));
}
LANES_INLINE void store_every_fourth(double* rows, const int* at, Lanes<double> r) {
    store(rows + at[0], SHUFFLE(r, r, 0, 1, 2, 3));
    store(rows + at[4], SHUFFLE(r, r, 4, 5, 6, 7));
}

// Four consecutive numbers of `width` rows from and to lanes.
template <int stride, class T> LANES_INLINE void store_rows(T* rows, Lanes<T> a, Lanes<T> b, Lanes<T> c, Lanes<T> d) {
    const int* at = RowStarts<stride>::at;
    const Lanes<T> ab = low(a, b), ab2 = high(a, b), cd = low(c, d), cd2 = high(c, d);
    store_every_fourth(rows, at, first_pairs(ab, cd));
    store_every_fourth(rows, at + 1, second_pairs(ab, cd));
    store_every_fourth(rows, at + 2, first_pairs(ab2, cd2));
    store_every_fourth(rows, at + 3, second_pairs(ab2, cd2));
}
template <int stride, class T> LANES_INLINE void load_rows(const T* rows, Lanes<T>* to) {
    const int* at = RowStarts<stride>::at;
    const Lanes<T> r0 = every_fourth_node(rows, at), r1 = every_fourth_node(rows, at + 1);
    const Lanes<T> r2 = every_fourth_node(rows, at + 2), r3 = every_fourth_node(rows, at + 3);
    const Lanes<T> ab = low(r0, r1), cd = high(r0, r1), ab2 = low(r2, r3), cd2 = high(r2, r3);
    to[0] = first_pairs(ab, ab2), to[1] = second_pairs(ab, ab2);
    to[2] = first_pairs(cd, cd2), to[3] = second_pairs(cd, cd2);
}
// The first `count` numbers, a multiple of four.
template <int stride, int count, class T> LANES_INLINE void store_rows(T* rows, const Lanes<T>* from) {
    for (int k = 0; k < count; k += 4) store_rows<stride>(rows + k, from[k], from[k + 1], from[k + 2], from[k + 3]);
}
template <int stride, int count, class T> LANES_INLINE void load_rows(const T* rows, Lanes<T>* to) {
    for (int k = 0; k < count; k += 4) load_rows<stride>(rows + k, to + k);
}

// Sums of rows for `width` lanes, over `count` members each; `members` [count, width] are where the rows start. Takes
// `parts` parts of a row of type V, and writes the sums as rows `stride` apart.
template <class V, int parts, int stride, class T>
LANES_INLINE void sum_rows(const T* rows, const int* members, int count, T* to) {
    constexpr int width = LaneTypes<T>::width, size = sizeof(V) / sizeof(T), together = 4;
    for (int lane = 0; lane < width; lane += together) {
        V sum[together][parts] = {};
        for (int m = 0; m < count; m++)
            for (int l = 0; l < together; l++) {
                const T* row = rows + members[m * width + lane + l];
                for (int k = 0; k < parts; k++) sum[l][k] += load_as<V>(row + k * size);
            }
        for (int l = 0; l < together; l++)
            for (int k = 0; k < parts; k++) store(to + (lane + l) * stride + k * size, sum[l][k]);
    }
}
// Adds four numbers of `width` elements to the rows of each of their `count` members, of four numbers.
template <class T>
LANES_INLINE void add_to_rows(T* rows, const int* members, int count, Lanes<T> a, Lanes<T> b, Lanes<T> c, Lanes<T> d) {
    typedef typename LaneTypes<T>::Node Row;
    constexpr int width = LaneTypes<T>::width;
    T own[4 * width] __attribute__((aligned(64)));
    store_rows<4>(own, a, b, c, d);
    for (int m = 0; m < count; m++)
        for (int lane = 0; lane < width; lane++)
            add_to_node(rows, members[m * width + lane], load_as<Row>(own + 4 * lane));
}

}  // namespace gradsim
