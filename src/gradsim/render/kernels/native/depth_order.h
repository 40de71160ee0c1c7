// The order in depth of triangles within a pixel, and whether they overlap there.
#pragma once
#include "polygon.h"

namespace gradsim {

// Distances that distinguish adjacent from overlapping triangles [px].
template <class T> struct Tolerance;
template <> struct Tolerance<double> { static constexpr double slack = 1e-9, length = 1e-6; };
template <> struct Tolerance<float> { static constexpr float slack = 1e-5f, length = 1e-3f; };

// Intersects [low, high] with the part of [0, 1] where a linear function, p at 0 and q at 1, is positive.
template <class T> LANES_INLINE void clip_interval(T p, T q, T& low, T& high) {
    if (p < 0 && q < 0) high = low;
    else if (p < 0) low = larger(low, p / (p - q));
    else if (q < 0) high = smaller(high, p / (p - q));
}

// Whether the segment from a to b overlaps a triangle by more than the tolerated length.
template <class T> LANES_INLINE bool overlaps_segment(const Triangle<T>& t, T ax, T ay, T bx, T by) {
    const T slack = Tolerance<T>::slack, length = Tolerance<T>::length;
    T low = 0, high = 1;
    for (int k = 0; k < 3; k++) {
        const T pad = slack * (__builtin_fabs(t.gx[k]) + __builtin_fabs(t.gy[k]));
        clip_interval(t.barycentric(k, ax, ay) + pad, t.barycentric(k, bx, by) + pad, low, high);
    }
    return (high - low) * (__builtin_fabs(bx - ax) + __builtin_fabs(by - ay)) > length;
}

// Whether a ray from vertex k of a triangle towards a enters the triangle.
template <class T> LANES_INLINE bool ray_enters(const Triangle<T>& t, int k, T ax, T ay) {
    const T slack = Tolerance<T>::slack;
    for (int i = 0; i < 3; i++)
        if (i != k && t.barycentric(i, ax, ay) < -slack * (__builtin_fabs(t.gx[i]) + __builtin_fabs(t.gy[i])))
            return false;
    return true;
}

// Which vertex of a triangle has a given number; -1 for none.
template <class T> LANES_INLINE int find_vertex(const Triangle<T>& t, int vertex) {
    return t.vertex[0] == vertex ? 0 : t.vertex[1] == vertex ? 1 : t.vertex[2] == vertex ? 2 : -1;
}

// How a second triangle lies relative to a first one.
enum DepthOrder { BEHIND, IN_FRONT, EQUAL, INTERSECTING };

// The position of h relative to g over a polygon: the difference of their 1 / w is linear there. It is stored in `out`.
template <class T, int N>
LANES_INLINE DepthOrder depth_order(const Polygon<T, N>& p, const Triangle<T>& g, const Triangle<T>& h, T ox, T oy,
                                    Occluder<T>& out) {
    out.cx = h.inv_w_dx() - g.inv_w_dx();
    out.cy = h.inv_w_dy() - g.inv_w_dy();
    T own = g.inv_w_at(ox, oy), tolerance = Epsilon<T>::depth * __builtin_fabs(own);
    T at_origin = h.inv_w_at(ox, oy) - own;
    out.c0 = at_origin - out.cx * ox - out.cy * oy;
    bool closer = false, behind = false;
    for (int i = 0; i < p.n; i++) {
        T d = at_origin + out.cx * (p.x[i] - ox) + out.cy * (p.y[i] - oy);
        closer |= d > tolerance;
        behind |= d < -tolerance;
    }
    return closer ? (behind ? INTERSECTING : IN_FRONT) : (behind ? BEHIND : EQUAL);
}

// Clips a triangle to a pixel; false if nothing is left.
template <class T> bool clip_to_pixel(const Triangle<T>& t, int index, int x, int y, SmallPolygon<T>& p) {
    SmallPolygon<T> a, b, c;
    triangle_polygon(t, index, a);
    split_at_y(a, T(y), c, b);
    if (b.n < 3) return false;
    split_at_y(b, T(y + 1), a, c);
    if (a.n < 3) return false;
    split_at_x(a, T(x), c, b);
    if (b.n < 3) return false;
    split_at_x(b, T(x + 1), p, c);
    T mx, my;
    return p.n >= 3 && centroid(p, mx, my) > 0;
}

// Largest difference of 1 / w between a pixel's centre and its other points.
template <class T> LANES_INLINE T inv_w_range(const Triangle<T>& t) {
    return T(0.5) * (__builtin_fabs(t.inv_w_dx()) + __builtin_fabs(t.inv_w_dy()));
}

// The position of h relative to the part of g in a pixel.
template <class T>
DepthOrder depth_order_in_pixel(const Triangle<T>& g, int index, const Triangle<T>& h, int x, int y) {
    const T cx = x + T(0.5), cy = y + T(0.5), own = g.inv_w_at(cx, cy), closer = h.inv_w_at(cx, cy) - own;
    const T range = inv_w_range(g) + inv_w_range(h) + 2 * Epsilon<T>::depth * __builtin_fabs(own);
    if (closer > range) return IN_FRONT;
    if (closer < -range) return BEHIND;
    SmallPolygon<T> p;
    Occluder<T> unused;
    return clip_to_pixel(g, index, x, y, p) ? depth_order(p, g, h, T(x), T(y), unused) : EQUAL;
}

// Whether the part of a silhouette edge of t, from vertex e on, within a pixel overlaps another triangle o.
template <class T> struct SilhouetteSegment {
    const Triangle<T>& t;
    const int e, f;
    T ax, ay, bx, by;  // clipped to the pixel
    bool in_pixel;

    LANES_MEMBER SilhouetteSegment(const Triangle<T>& t, int e, int x, int y) : t(t), e(e), f(e == 2 ? 0 : e + 1) {
        const T slack = Tolerance<T>::slack;
        T px = t.x[e], py = t.y[e], qx = t.x[f], qy = t.y[f], low = 0, high = 1;
        clip_interval(px - x + slack, qx - x + slack, low, high);
        clip_interval(x + 1 + slack - px, x + 1 + slack - qx, low, high);
        clip_interval(py - y + slack, qy - y + slack, low, high);
        clip_interval(y + 1 + slack - py, y + 1 + slack - qy, low, high);
        in_pixel = high > low;
        ax = px + low * (qx - px), ay = py + low * (qy - py);
        bx = px + high * (qx - px), by = py + high * (qy - py);
    }

    LANES_MEMBER bool overlaps(const Triangle<T>& o) const {
        const T slack = Tolerance<T>::slack;
        if (smaller(ax, bx) > o.right + slack || larger(ax, bx) < o.left - slack) return false;
        if (smaller(ay, by) > o.bottom + slack || larger(ay, by) < o.top - slack) return false;
        const int p = find_vertex(o, t.vertex[e]), q = find_vertex(o, t.vertex[f]);
        if (p >= 0 && q >= 0) return true;
        if (p >= 0) return ray_enters(o, p, t.x[f], t.y[f]);
        if (q >= 0) return ray_enters(o, q, t.x[e], t.y[e]);
        return overlaps_segment(o, ax, ay, bx, by);
    }
};

// Whether the triangles in a pixel do not overlap. The number of layers changes at silhouettes only, so it is zero or
// one everywhere if no silhouette edge overlaps a triangle that it does not belong to. Ambiguous cases count as
// overlaps.
template <class T, int A>
bool is_single_layer(const Frame<T, A>& frame, const unsigned char* silhouette_edges, const int* list, int count,
                     int x, int y) {
    for (int q = 0; q < count; q++) {
        const Triangle<T>& t = frame.triangles[list[q]];
        unsigned edges = t.clipped ? 7 : silhouette_edges[t.face];
        if (frame.facing[t.face] == BACK) edges = (edges & 2) | edges >> 2 | (edges & 1) << 2;  // reversed
        for (int e = 0; e < 3; e++) {
            if (!(edges >> e & 1)) continue;
            const SilhouetteSegment<T> segment(t, e, x, y);
            if (!segment.in_pixel) continue;
            for (int r = 0; r < count; r++)
                if (r != q && segment.overlaps(frame.triangles[list[r]])) return false;
        }
    }
    return true;
}

enum { MAX_CLUSTER = 64 };

// The triangles in a pixel before the first gap in depth, one bit each: all others are farther away everywhere in the
// pixel. There are at most MAX_CLUSTER triangles.
template <class T>
unsigned long long nearest_cluster(const Triangle<T>* triangles, const int* list, int count, int x, int y) {
    T middle[MAX_CLUSTER], range[MAX_CLUSTER], low = 0;
    int first = 0;
    for (int k = 0; k < count; k++) {
        const Triangle<T>& t = triangles[list[k]];
        middle[k] = t.inv_w_at(x + T(0.5), y + T(0.5));
        range[k] = inv_w_range(t) + Epsilon<T>::depth * __builtin_fabs(middle[k]);
        if (middle[k] > middle[first]) first = k;
    }
    low = middle[first] - range[first];
    unsigned long long cluster = 1ull << first;
    for (bool grew = true; grew;) {
        grew = false;
        for (int k = 0; k < count; k++) {
            if (cluster >> k & 1 || !(middle[k] + range[k] >= low)) continue;
            cluster |= 1ull << k;
            low = smaller(low, middle[k] - range[k]);
            grew = true;
        }
    }
    return cluster;
}

}  // namespace gradsim
