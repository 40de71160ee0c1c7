// Tiles of pixels, one a lane: how much of each pixel a triangle covers, and the centroid of that part.
//
// The area between an edge, clipped to a pixel, and a vertical line is an integral along the edge, and so are its first
// moments. The part that a triangle covers is the signed sum over its three edges: no polygon and no branch a pixel.
#pragma once
#include "pixels.h"

namespace gradsim {

// Nearly square, since many triangles are no larger than a tile.
template <class T> struct TileShape {
    enum { columns = tile_size::columns, rows = LaneTypes<T>::width / columns };
    static_assert((int)rows <= tile_size::max_rows, "the memory of an image ends before the last tile");
};

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

// Access to a tile of an array whose rows are `stride` apart.
template <class V, class U> LANES_INLINE V load_tile(const U* p, Int stride) {
    enum { row = tile_size::columns * sizeof(U) };
    V r;
    for (unsigned k = 0; k < sizeof(r) / row; k++) __builtin_memcpy((char*)&r + k * row, p + k * stride, row);
    return r;
}
template <class V, class U> LANES_INLINE void store_tile(U* p, Int stride, V a) {
    enum { row = tile_size::columns * sizeof(U) };
    for (unsigned k = 0; k < sizeof(a) / row; k++) __builtin_memcpy(p + k * stride, (char*)&a + k * row, row);
}

// One value for each row of a tile.
template <class T> LANES_INLINE Index<T> splat_rows(const int* value) {
    typedef int Four __attribute__((vector_size(16)));
    const Four v = load_as<Four>(value);
    if constexpr (TileShape<T>::rows == 2) return SHUFFLE(v, v, 0, 0, 0, 0, 1, 1, 1, 1);
    else return SHUFFLE(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}
template <class T> LANES_INLINE int smallest_of_rows(const int* value) {
    int found = value[0];
    for (int r = 1; r < TileShape<T>::rows; r++) found = smaller(found, value[r]);
    return found;
}
template <class T> LANES_INLINE int largest_of_rows(const int* value) {
    int found = value[0];
    for (int r = 1; r < TileShape<T>::rows; r++) found = larger(found, value[r]);
    return found;
}

// The three edges of a triangle, each from its upper end a to its lower end b.
template <class T> struct TriangleEdges {
    struct Edge {
        T ax, ay, bx, by;
        T dx_dy, dy_dx;
        T sign;  // -1 if the triangle is oriented from b to a
    } edge[3];
    T mid_x, mid_y;  // of the triangle

    LANES_MEMBER TriangleEdges(const Triangle<T>& t) {
        const T tiny = T(1e-30), third = T(1.0 / 3);
        mid_x = (t.x[0] + t.x[1] + t.x[2]) * third;
        mid_y = (t.y[0] + t.y[1] + t.y[2]) * third;
        for (int k = 0; k < 3; k++) {
            const int l = k == 2 ? 0 : k + 1;
            const bool down = t.y[k] <= t.y[l];
            const int a = down ? k : l, b = down ? l : k;
            T dx = t.x[b] - t.x[a], dy = t.y[b] - t.y[a];
            edge[k] = {t.x[a], t.y[a], t.x[b], t.y[b], dy > tiny ? dx / dy : T(0),
                       __builtin_fabs(dx) > tiny ? dy / dx : T(1e30), down ? T(1) : T(-1)};
        }
    }
};

// The part of each pixel of a tile that a triangle covers.
template <class T> struct TileCoverage {
    Lanes<T> area;  // relative to the pixel
    Lanes<T> u, v;  // centroid, from the pixel's upper left corner
    struct Segment {
        bool any;
        Lanes<T> pu, pv, qu, qv;  // upper and lower end, from the pixel's upper left corner; equal where it is outside
    } segment[3];                 // of each edge, clipped to each pixel

    // The pixels from column x and row y on.
    LANES_MEMBER void compute(const TriangleEdges<T>& edges, int x, int y) {
        enum { rows = TileShape<T>::rows, columns = TileShape<T>::columns };
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        // Moments are relative to a point in or near the triangle: those of slivers would drown in rounding errors.
        const Lanes<T> cu = saturate(edges.mid_x - x - column), cv = saturate(edges.mid_y - y - row);
        Lanes<T> mu = {}, mv = {};
        area = Lanes<T>{};
        for (int k = 0; k < 3; k++) {
            const typename TriangleEdges<T>::Edge& s = edges.edge[k];
            const T ax = s.ax - x, ay = s.ay - y, bx = s.bx - x, by = s.by - y;
            segment[k].any = false;
            if (by < 0 || ay > rows) continue;
            const T enter = ax + (larger(ay, T(0)) - ay) * s.dx_dy, leave = bx + (smaller(by, T(rows)) - by) * s.dx_dy;
            const Lanes<T> upper = ay - row, lower = by - row;
            const Lanes<T> p = saturate(upper), q = saturate(lower);
            const bool right = enter > columns && leave > columns;
            if (right || (enter < 0 && leave < 0)) {
                const Lanes<T> h = right ? cu - 1 : cu, d = (q - p) * s.sign * h;
                area += d;
                mu -= d * h * T(0.5);
                mv += d * ((p + q) * T(0.5) - cv);
                continue;
            }
            // The path along the edge, projected to the pixel: down one of its sides, along the edge, down a side.
            const Lanes<T> px = (ax - column) + (p - upper) * s.dx_dy, qx = (bx - column) + (q - lower) * s.dx_dy;
            const Lanes<T> pu = saturate(px), qu = saturate(qx);
            const Lanes<T> pv = clamp(p + (pu - px) * s.dy_dx, p, q), qv = clamp(q + (qu - qx) * s.dy_dx, p, q);
            const Lanes<T> hp = cu - pu, hq = cu - qu, d = (qv - pv) * s.sign, vp = pv - cv, vq = qv - cv;
            const Lanes<T> before = (pv - p) * hp * s.sign, after = (q - qv) * hq * s.sign;
            area += before + after + d * (hp + hq) * T(0.5);
            mu -= (before * hp + after * hq) * T(0.5) + d * (hp * (hp + hq) + hq * hq) * T(1.0 / 6);
            mv += before * ((p + pv) * T(0.5) - cv) + after * ((q + qv) * T(0.5) - cv) +
                  d * (hp * (2 * vp + vq) + hq * (vp + 2 * vq)) * T(1.0 / 6);
            const Mask<T> outside = (p == q) & ((p != upper) | (q != lower));  // of the row: a zero-length segment
            segment[k] = {true, pu, pv, outside ? pu : qu, qv};
        }
        const Lanes<T> r = 1 / (area > Epsilon<T>::area ? area : splat(T(1)));
        u = saturate(cu + mu * r);
        v = saturate(cv + mv * r);
    }
};

// Of as many rows as a vector has lanes, the pixels that a triangle touches and those it covers fully.
template <class T> struct Spans {
    enum { count = LaneTypes<T>::width, NEVER = 1 << 29 };
    int first[count], last[count];       // touched; may include a few more
    int from[count + 2], to[count + 2];  // covered: all four corners are inside all three edges; read four at a time
};

// Never inlined: all passes must agree on the covered pixels to the last bit.
template <class T>
__attribute__((noinline)) void find_spans(const Triangle<T>& t, const TriangleEdges<T>& edges, int y, int width,
                                          Spans<T>& out) {
    Lanes<T> row;
    for (int i = 0; i < Spans<T>::count; i++) row[i] = T(y + i);
    const T far = T(width + 1);
    Lanes<T> left = splat(far), right = splat(T(-1));
    for (int k = 0; k < 3; k++) {
        const typename TriangleEdges<T>::Edge& s = edges.edge[k];
        const Lanes<T> upper = s.ay - row, lower = s.by - row;
        const Lanes<T> p = saturate(upper), q = saturate(lower);
        const Lanes<T> low = splat(smaller(s.ax, s.bx)), high = splat(larger(s.ax, s.bx));
        const Lanes<T> px = clamp(s.ax + (p - upper) * s.dx_dy, low, high);
        const Lanes<T> qx = clamp(s.bx + (q - lower) * s.dx_dy, low, high);
        const Mask<T> meets = p < q;
        left = meets ? smaller(left, smaller(px, qx)) : left;
        right = meets ? larger(right, larger(px, qx)) : right;
    }
    left = clamp(left, Lanes<T>{}, splat(far));
    right = clamp(right, splat(T(-1)), splat(T(width) - T(0.5)));
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
    const Index<T> never = Index<T>{} + (int)Spans<T>::NEVER;
    const Index<T> covers = __builtin_convertvector(some, Index<T>);
    store(out.first, __builtin_convertvector(first, Index<T>));
    store(out.last, __builtin_convertvector(last, Index<T>));
    store(out.from, covers ? __builtin_convertvector(from, Index<T>) : never);
    store(out.to, covers ? __builtin_convertvector(to, Index<T>) : -never);
}

// Calls visit(x, y, from, to) for the tiles in a window that a triangle touches; pixels from[r] to to[r] of row y + r are covered
// fully. Fully covered tiles are skipped unless `all`.
template <class T, class Visit>
LANES_INLINE void for_each_tile(const Triangle<T>& t, const TriangleEdges<T>& edges, int height, int width,
                                const Window& window, bool all, Visit&& visit) {
    enum { rows = TileShape<T>::rows, columns = TileShape<T>::columns, count = Spans<T>::count };
    const int first_row = t.top > 0 ? (int)t.top : 0, last_row = t.bottom < height ? (int)t.bottom : height - 1;
    const int left = t.left > 0 ? (int)t.left : 0, right = t.right < width ? (int)t.right : width - 1;
    const bool may_cover = t.right - t.left > 1 && t.bottom - t.top > 1;
    const bool one_tile = !may_cover && last_row - first_row < rows && right - left < columns;
    Spans<T> spans;
    // Tiles have the same places for any window and for either `all`: pixels have the same values to the last bit.
    const int skipped = first_row < window.top ? (window.top - first_row) / count * count : 0;
    for (int start = first_row + skipped; start <= last_row && start < window.bottom; start += count) {
        if (one_tile) {
            for (int r = 0; r < rows; r++) {
                spans.first[r] = left; spans.last[r] = right;
                spans.from[r] = Spans<T>::NEVER; spans.to[r] = -Spans<T>::NEVER;
            }
        } else {
            find_spans(t, edges, start, width, spans);
        }
        for (int r = 0; r < count && start + r <= last_row && start + r < window.bottom; r += rows) {
            if (start + r + rows <= window.top) continue;
            const int *from = spans.from + r, *to = spans.to + r, last = largest_of_rows<T>(spans.last + r);
            const int begin = largest_of_rows<T>(from), end = smallest_of_rows<T>(to);
            for (int x = smallest_of_rows<T>(spans.first + r); x <= last && x < window.right; x += columns) {
                if (!all && x >= begin && x + columns - 1 <= end) x += (end + 1 - columns - x) / columns * columns;
                else if (x + columns > window.left) visit(x, start + r, from, to);
            }
        }
    }
}

}  // namespace gradsim
