// Rows: a few numbers of each element, element after element. Kernels whose lanes are elements transpose them in
// registers; sums of rows over lists of elements need no transposition. Rows are read and written in parts of as many
// bytes as a register has, or of a half or a quarter of it for their last numbers.
#pragma once
#include "lanes.h"

namespace gradsim {

#define UNROLLED _Pragma("clang loop unroll(full)")

// A part of a row: `quads` times four numbers.
template <class T, int quads> struct RowPart {
    typedef T Vector __attribute__((vector_size(4 * quads * sizeof(T))));
};
// How many quads the next part has if `numbers` are left.
template <class T> constexpr int next_quads(int numbers) {
    const int quads = (numbers + 3) / 4, most = LaneTypes<T>::width / 4;
    return quads > 2 || quads > most ? most : quads;
}

// `gather_quads`: the parts of every fourth row, part[0], part[4], ..., to one vector for each of their quads.
// `scatter_quads` is its inverse.
typedef RowPart<float, 1>::Vector Float4;
typedef RowPart<float, 2>::Vector Float8;
typedef RowPart<double, 1>::Vector Double4;
LANES_INLINE Lanes<float> joined(Float8 a, Float8 b) {
    return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
LANES_INLINE Float8 joined(Float4 a, Float4 b) { return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7); }
LANES_INLINE Lanes<double> joined(Double4 a, Double4 b) { return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7); }
// The low or the high halves of two vectors, and their quads of even or of odd number.
LANES_INLINE Lanes<float> low_halves(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}
LANES_INLINE Lanes<float> high_halves(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
LANES_INLINE Lanes<double> low_halves(Lanes<double> a, Lanes<double> b) {
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
}
LANES_INLINE Lanes<double> high_halves(Lanes<double> a, Lanes<double> b) {
    return SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}
LANES_INLINE Lanes<float> even_quads(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
LANES_INLINE Lanes<float> odd_quads(Lanes<float> a, Lanes<float> b) {
    return SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
LANES_INLINE void exchange_quads(Lanes<float> r0, Lanes<float> r1, Lanes<float> r2, Lanes<float> r3, Lanes<float>* to) {
    const Lanes<float> a = low_halves(r0, r1), b = low_halves(r2, r3), c = high_halves(r0, r1), d = high_halves(r2, r3);
    to[0] = even_quads(a, b), to[1] = odd_quads(a, b), to[2] = even_quads(c, d), to[3] = odd_quads(c, d);
}
LANES_INLINE void gather_quads(const Lanes<float>* part, Lanes<float>* to) {
    exchange_quads(part[0], part[4], part[8], part[12], to);
}
LANES_INLINE void gather_quads(const Float8* part, Lanes<float>* to) {
    const Lanes<float> a = joined(part[0], part[4]), b = joined(part[8], part[12]);
    to[0] = even_quads(a, b), to[1] = odd_quads(a, b);
}
LANES_INLINE void gather_quads(const Float4* part, Lanes<float>* to) {
    to[0] = joined(joined(part[0], part[4]), joined(part[8], part[12]));
}
LANES_INLINE void gather_quads(const Lanes<double>* part, Lanes<double>* to) {
    to[0] = low_halves(part[0], part[4]), to[1] = high_halves(part[0], part[4]);
}
LANES_INLINE void gather_quads(const Double4* part, Lanes<double>* to) { to[0] = joined(part[0], part[4]); }

LANES_INLINE void scatter_quads(const Lanes<float>* from, Lanes<float>* part) {
    exchange_quads(from[0], from[1], from[2], from[3], part);
}
LANES_INLINE void scatter_quads(const Lanes<float>* from, Float8* part) {
    const Lanes<float> a = SHUFFLE(from[0], from[1], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const Lanes<float> b = SHUFFLE(from[0], from[1], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    part[0] = SHUFFLE(a, a, 0, 1, 2, 3, 4, 5, 6, 7), part[1] = SHUFFLE(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
    part[2] = SHUFFLE(b, b, 0, 1, 2, 3, 4, 5, 6, 7), part[3] = SHUFFLE(b, b, 8, 9, 10, 11, 12, 13, 14, 15);
}
LANES_INLINE void scatter_quads(const Lanes<float>* from, Float4* part) {
    const Lanes<float> a = from[0];
    part[0] = SHUFFLE(a, a, 0, 1, 2, 3), part[1] = SHUFFLE(a, a, 4, 5, 6, 7);
    part[2] = SHUFFLE(a, a, 8, 9, 10, 11), part[3] = SHUFFLE(a, a, 12, 13, 14, 15);
}
LANES_INLINE void scatter_quads(const Lanes<double>* from, Lanes<double>* part) {
    part[0] = low_halves(from[0], from[1]), part[1] = high_halves(from[0], from[1]);
}
LANES_INLINE void scatter_quads(const Lanes<double>* from, Double4* part) {
    const Lanes<double> a = from[0];
    part[0] = SHUFFLE(a, a, 0, 1, 2, 3), part[1] = SHUFFLE(a, a, 4, 5, 6, 7);
}

// Four vectors, each with a quad of every fourth row, to lanes of four numbers, and back.
template <class L> LANES_INLINE void transpose_quads(L r0, L r1, L r2, L r3, L* to) {
    const L ab = low(r0, r1), cd = high(r0, r1), ab2 = low(r2, r3), cd2 = high(r2, r3);
    to[0] = first_pairs(ab, ab2), to[1] = second_pairs(ab, ab2);
    to[2] = first_pairs(cd, cd2), to[3] = second_pairs(cd, cd2);
}

// One part of each of `width` rows to lanes of numbers, and back.
template <int quads, class V, class L> LANES_INLINE void lanes_of_rows(const V* part, L* to) {
    L own[4][quads];
    UNROLLED for (int j = 0; j < 4; j++) gather_quads(part + j, own[j]);
    UNROLLED for (int k = 0; k < quads; k++) transpose_quads(own[0][k], own[1][k], own[2][k], own[3][k], to + 4 * k);
}
template <class T, int quads> LANES_INLINE void store_part(T* rows, int stride, const Lanes<T>* from) {
    constexpr int width = LaneTypes<T>::width;
    typedef typename RowPart<T, quads>::Vector V;
    Lanes<T> own[4 * quads], every_fourth[quads];
    UNROLLED for (int k = 0; k < quads; k++)
        transpose_quads(from[4 * k], from[4 * k + 1], from[4 * k + 2], from[4 * k + 3], own + 4 * k);
    UNROLLED for (int j = 0; j < 4; j++) {
        V part[width / 4];
        UNROLLED for (int k = 0; k < quads; k++) every_fourth[k] = own[4 * k + j];
        scatter_quads(every_fourth, part);
        UNROLLED for (int l = 0; l < width / 4; l++) store(rows + (4 * l + j) * stride, part[l]);
    }
}

// The first `numbers` numbers of `width` rows, `stride` apart, from lanes. Both have room for whole parts.
template <int stride, int numbers, class T> LANES_INLINE void store_rows(T* rows, const Lanes<T>* from) {
    constexpr int quads = next_quads<T>(numbers);
    store_part<T, quads>(rows, stride, from);
    if constexpr (numbers > 4 * quads) store_rows<stride, numbers - 4 * quads>(rows + 4 * quads, from + 4 * quads);
}
// Sums of the first `numbers` numbers of rows for `width` lanes, over `count` > 0 members each; `members`
// [count, width] are where the rows start. `to` and the rows have room for whole parts.
template <int numbers, class T> LANES_INLINE void sum_rows(const T* rows, const int* members, int count, Lanes<T>* to) {
    constexpr int width = LaneTypes<T>::width, quads = next_quads<T>(numbers);
    typedef typename RowPart<T, quads>::Vector V;
    V sum[width];
    UNROLLED for (int lane = 0; lane < width; lane++) sum[lane] = load_as<V>(rows + members[lane]);
    for (const int *own = members + width, *end = members + count * width; own < end; own += width) {
        UNROLLED for (int lane = 0; lane < width; lane++) sum[lane] += load_as<V>(rows + own[lane]);
    }
    lanes_of_rows<quads>(sum, to);
    if constexpr (numbers > 4 * quads)
        sum_rows<numbers - 4 * quads>(rows + 4 * quads, members, count, to + 4 * quads);
}
// Adds four numbers of `width` elements to the rows of each of their `count` members, of four numbers.
template <class T> LANES_INLINE void add_to_rows(T* rows, const int* members, int count, const Lanes<T>* numbers) {
    typedef typename LaneTypes<T>::Node Row;
    constexpr int width = LaneTypes<T>::width;
    T own[4 * width] __attribute__((aligned(64)));
    store_rows<4, 4>(own, numbers);
    for (int m = 0; m < count; m++)
        for (int lane = 0; lane < width; lane++)
            add_to_node(rows, members[m * width + lane], load_as<Row>(own + 4 * lane));
}

}  // namespace gradsim
