// A few rows of pixels in one vector of the machine: how much of each pixel a triangle covers, and where in it.
//
// Between an edge, cut to a pixel, and an upright line lies an area, and first moments, that are integrals along it;
// what a triangle covers is the signed sum over its three edges, without a polygon and without a branch a pixel.
#pragma once
#include "pixels.h"

namespace gradsim {

// As wide as high, as far as it goes: many triangles are no larger than a tile.
template <class T> struct TileShape { enum { columns = 4, rows = LaneTypes<T>::width / columns }; };

// Column and row of each lane.
template <class T> LANES_INLINE Lanes<T> lane_columns() {
    Lanes<T> r;
    for (int i = 0; i < LaneTypes<T>::width; i++) r[i] = i % TileShape<T>::columns;
    return r;
}
template <class T> LANES_INLINE Lanes<T> lane_rows() {
    Lanes<T> r;
    for (int i = 0; i < LaneTypes<T>::width; i++) r[i] = i / TileShape<T>::columns;
    return r;
}

// A tile of something whose rows are `stride` apart.
template <class R, class U> LANES_INLINE R load_tile(const U* p, Int stride) {
    enum { row = 4 * sizeof(U) };
    R r;
    for (unsigned k = 0; k < sizeof(r) / row; k++) __builtin_memcpy((char*)&r + k * row, p + k * stride, row);
    return r;
}
template <class R, class U> LANES_INLINE void store_tile(U* p, Int stride, R a) {
    enum { row = 4 * sizeof(U) };
    for (unsigned k = 0; k < sizeof(a) / row; k++) __builtin_memcpy(p + k * stride, (char*)&a + k * row, row);
}

// A value for each row of a tile.
template <class T> LANES_INLINE Index<T> of_rows(const int* value) {
    typedef int Four __attribute__((vector_size(16)));
    const Four v = load_as<Four>(value);
    if constexpr (TileShape<T>::rows == 2) return __builtin_shufflevector(v, v, 0, 0, 0, 0, 1, 1, 1, 1);
    else return __builtin_shufflevector(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}
template <class T> LANES_INLINE int least_of_rows(const int* value) {
    int found = value[0];
    for (int r = 1; r < TileShape<T>::rows; r++) found = smaller(found, value[r]);
    return found;
}
template <class T> LANES_INLINE int most_of_rows(const int* value) {
    int found = value[0];
    for (int r = 1; r < TileShape<T>::rows; r++) found = larger(found, value[r]);
    return found;
}

template <class R> LANES_INLINE R within(R a, R low, R high) { return smaller(larger(a, low), high); }
template <class T> LANES_INLINE Lanes<T> unit_part(Lanes<T> a, T) { return within(a, Lanes<T>{}, splat(T(1))); }

// The three edges of a triangle, each from its upper end a to its lower end b.
template <class T> struct Sides {
    struct Side {
        T ax, ay, bx, by;
        T run, rise;  // dx / dy, dy / dx
        T sign;       // -1 where the triangle's outline passes it from b to a
    } side[3];
    T mid_x, mid_y;   // of the triangle

    LANES_MEMBER Sides(const Triangle<T>& t) {
        const T flat = T(1e-30), third = T(1.0 / 3);
        mid_x = (t.x[0] + t.x[1] + t.x[2]) * third;
        mid_y = (t.y[0] + t.y[1] + t.y[2]) * third;
        for (int k = 0; k < 3; k++) {
            const int l = k == 2 ? 0 : k + 1;
            const bool down = t.y[k] <= t.y[l];
            const int a = down ? k : l, b = down ? l : k;
            T dx = t.x[b] - t.x[a], dy = t.y[b] - t.y[a];
            side[k] = {t.x[a], t.y[a], t.x[b], t.y[b], dy > flat ? dx / dy : T(0),
                       __builtin_fabs(dx) > flat ? dy / dx : T(1e30), down ? T(1) : T(-1)};
        }
    }
};

template <class T> struct Tile {
    Lanes<T> area;  // the covered share of each pixel
    Lanes<T> u, v;  // the middle of that share, from the pixel's upper left corner
    struct Part {
        bool any;
        Lanes<T> pu, pv, qu, qv;  // upper and lower end, from the pixel's upper left corner; no length where it passes by
    } part[3];                  // of each edge, within each pixel

    // The pixels from column x and row y on.
    LANES_MEMBER void cut(const Sides<T>& sides, int x, int y) {
        enum { rows = TileShape<T>::rows, columns = TileShape<T>::columns };
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        // Moments are taken about a place in or near the triangle, or those of slivers would drown in rounding errors.
        const Lanes<T> cu = unit_part(sides.mid_x - x - column, T()), cv = unit_part(sides.mid_y - y - row, T());
        Lanes<T> mu = {}, mv = {};
        area = Lanes<T>{};
        for (int k = 0; k < 3; k++) {
            const typename Sides<T>::Side& s = sides.side[k];
            const T ax = s.ax - x, ay = s.ay - y, bx = s.bx - x, by = s.by - y;
            part[k].any = false;
            if (by < 0 || ay > rows) continue;
            const T enter = ax + (larger(ay, T(0)) - ay) * s.run, leave = bx + (smaller(by, T(rows)) - by) * s.run;
            const Lanes<T> upper = ay - row, lower = by - row;
            const Lanes<T> p = unit_part(upper, T()), q = unit_part(lower, T());
            const bool right = enter > columns && leave > columns;
            if (right || (enter < 0 && leave < 0)) {
                const Lanes<T> h = right ? cu - 1 : cu, d = (q - p) * s.sign * h;
                area += d;
                mu -= d * h * T(0.5);
                mv += d * ((p + q) * T(0.5) - cv);
                continue;
            }
            // The path along the edge that stays in the pixel: down one of its sides, along the edge, down a side.
            const Lanes<T> px = (ax - column) + (p - upper) * s.run, qx = (bx - column) + (q - lower) * s.run;
            const Lanes<T> pu = unit_part(px, T()), qu = unit_part(qx, T());
            const Lanes<T> pv = within(p + (pu - px) * s.rise, p, q), qv = within(q + (qu - qx) * s.rise, p, q);
            const Lanes<T> hp = cu - pu, hq = cu - qu, d = (qv - pv) * s.sign, vp = pv - cv, vq = qv - cv;
            const Lanes<T> before = (pv - p) * hp * s.sign, after = (q - qv) * hq * s.sign;
            area += before + after + d * (hp + hq) * T(0.5);
            mu -= (before * hp + after * hq) * T(0.5) + d * (hp * (hp + hq) + hq * hq) * T(1.0 / 6);
            mv += before * ((p + pv) * T(0.5) - cv) + after * ((q + qv) * T(0.5) - cv) +
                  d * (hp * (2 * vp + vq) + hq * (vp + 2 * vq)) * T(1.0 / 6);
            const Mask<T> outside = (p == q) & ((p != upper) | (q != lower));  // of the row, where nothing moves with it
            part[k] = {true, pu, pv, outside ? pu : qu, qv};
        }
        const Lanes<T> r = 1 / (area > Tiny<T>::area ? area : splat(T(1)));
        u = unit_part(cu + mu * r, T());
        v = unit_part(cv + mv * r, T());
    }
};

// The pixels that a triangle touches in each of as many rows as a vector holds, and those it covers wholly.
template <class T> struct Spans {
    enum { count = LaneTypes<T>::width, NEVER = 1 << 29 };
    int first[count], last[count];  // touched, at least
    int from[count + 2], to[count + 2];  // covered: all four corners lie inside all three edges; read by fours
};

// Never inlined: all passes must agree on what is covered, to the last bit.
template <class T>
__attribute__((noinline)) void find_spans(const Triangle<T>& t, const Sides<T>& sides, int y, int width,
                                          Spans<T>& out) {
    Lanes<T> row;
    for (int i = 0; i < Spans<T>::count; i++) row[i] = T(y + i);
    const T far = T(width + 1);
    Lanes<T> left = splat(far), right = splat(T(-1));
    for (int k = 0; k < 3; k++) {
        const typename Sides<T>::Side& s = sides.side[k];
        const Lanes<T> upper = s.ay - row, lower = s.by - row;
        const Lanes<T> p = unit_part(upper, T()), q = unit_part(lower, T());
        const Lanes<T> low = splat(smaller(s.ax, s.bx)), high = splat(larger(s.ax, s.bx));
        const Lanes<T> px = within(s.ax + (p - upper) * s.run, low, high);
        const Lanes<T> qx = within(s.bx + (q - lower) * s.run, low, high);
        const Mask<T> meets = p < q;
        left = meets ? smaller(left, smaller(px, qx)) : left;
        right = meets ? larger(right, larger(px, qx)) : right;
    }
    left = within(left, Lanes<T>{}, splat(far));
    right = within(right, splat(T(-1)), splat(T(width) - T(0.5)));
    Lanes<T> low = splat(T(-1)), high = splat(far);
    for (int k = 0; k < 3; k++) {
        const T half = T(0.5) * (__builtin_fabs(t.gx[k]) + __builtin_fabs(t.gy[k]));
        const Lanes<T> r = half - 1 - (row + T(0.5) - t.y[k]) * t.gy[k] + t.x[k] * t.gx[k];
        if (t.gx[k] > 0) low = larger(low, r * (1 / t.gx[k]));
        else if (t.gx[k] < 0) high = smaller(high, r * (1 / t.gx[k]));
        else low = r > 0 ? splat(far) : low;
    }
    const Lanes<T> first = __builtin_elementwise_floor(left), last = __builtin_elementwise_floor(right);
    const Lanes<T> from = larger(__builtin_elementwise_ceil(low - T(0.5)), first);
    const Lanes<T> to = smaller(__builtin_elementwise_floor(high - T(0.5)), last);
    const Mask<T> some = (high >= low) & (from <= to);
    const Index<T> none = Index<T>{} + (int)Spans<T>::NEVER;
    const Index<T> yes = __builtin_convertvector(some, Index<T>);
    store(out.first, __builtin_convertvector(first, Index<T>));
    store(out.last, __builtin_convertvector(last, Index<T>));
    store(out.from, yes ? __builtin_convertvector(from, Index<T>) : none);
    store(out.to, yes ? __builtin_convertvector(to, Index<T>) : -none);
}

// Goes through the tiles that a triangle touches: visit(x, y, from, to), pixels from[r] to to[r] of row y + r being
// covered wholly. Tiles of such pixels alone are left out unless `all` are wanted.
template <class T, class Visit>
LANES_INLINE void tiles(const Triangle<T>& t, const Sides<T>& sides, int height, int width, bool all, Visit&& visit) {
    enum { rows = TileShape<T>::rows, columns = TileShape<T>::columns, count = Spans<T>::count };
    const int first_row = t.top > 0 ? (int)t.top : 0, last_row = t.bottom < height ? (int)t.bottom : height - 1;
    const int left = t.left > 0 ? (int)t.left : 0, right = t.right < width ? (int)t.right : width - 1;
    const bool wide = t.right - t.left > 1 && t.bottom - t.top > 1;
    const bool small = !wide && last_row - first_row < rows && right - left < columns;
    Spans<T> spans;
    for (int start = first_row; start <= last_row; start += count) {
        if (small) {
            for (int r = 0; r < rows; r++) {
                spans.first[r] = left; spans.last[r] = right;
                spans.from[r] = Spans<T>::NEVER; spans.to[r] = -Spans<T>::NEVER;
            }
        } else {
            find_spans(t, sides, start, width, spans);
        }
        for (int r = 0; r < count && start + r <= last_row; r += rows) {
            const int *from = spans.from + r, *to = spans.to + r;
            const int begin = most_of_rows<T>(from), end = least_of_rows<T>(to), last = most_of_rows<T>(spans.last + r);
            for (int x = least_of_rows<T>(spans.first + r); x <= last; x += columns) {
                if (!all && x >= begin && x <= end) {
                    x = end;
                    if (x >= last) break;
                    x++;
                }
                visit(x, start + r, from, to);
            }
        }
    }
}

}  // namespace gradsim
