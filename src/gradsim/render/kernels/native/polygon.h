// Convex polygons within a pixel, clipped by lines. They are oriented positively (y down). Each edge has a tag that
// names its origin: 4 triangle + edge for an edge of a triangle, 4 triangle + INTERSECTION for the line along which
// that triangle intersects the one the polygon is a part of, -1 for a side of the pixel.
#pragma once
#include "frame.h"

namespace gradsim {

enum { INTERSECTION = 3 };
enum { MAX_CORNERS = 32 };  // of a polygon; one that comes close to it is split

template <class T, int N> struct Polygon {
    int n;
    T x[N], y[N];
    int tag[N];  // of the edge from i to i + 1
};
template <class T> using SmallPolygon = Polygon<T, 8>;  // a triangle clipped to a pixel: at most 7 corners
template <class T> using LargePolygon = Polygon<T, MAX_CORNERS>;

template <class T, int N, int M> LANES_INLINE void copy(const Polygon<T, N>& p, Polygon<T, M>& q) {
    q.n = p.n;
    for (int i = 0; i < p.n; i++) { q.x[i] = p.x[i]; q.y[i] = p.y[i]; q.tag[i] = p.tag[i]; }
}

// The whole triangle in the order 0, 2, 1, which makes its area positive.
template <class T> LANES_INLINE void triangle_polygon(const Triangle<T>& t, int index, SmallPolygon<T>& p) {
    p.n = 3;
    p.x[0] = t.x[0]; p.y[0] = t.y[0]; p.tag[0] = 4 * index + 2;
    p.x[1] = t.x[2]; p.y[1] = t.y[2]; p.tag[1] = 4 * index + 1;
    p.x[2] = t.x[1]; p.y[2] = t.y[1]; p.tag[2] = 4 * index;
}

// Area and centroid; the area is zero if it is negligible.
template <class T, int N> LANES_INLINE T centroid(const Polygon<T, N>& p, T& mx, T& my) {
    T ox = p.x[0], oy = p.y[0], px = p.x[1] - ox, py = p.y[1] - oy, area = 0, sx = 0, sy = 0;
    for (int i = 2; i < p.n; i++) {
        T qx = p.x[i] - ox, qy = p.y[i] - oy, c = px * qy - qx * py;
        area += c;
        sx += c * (px + qx);
        sy += c * (py + qy);
        px = qx;
        py = qy;
    }
    if (!(area > 2 * Epsilon<T>::area)) { mx = ox; my = oy; return 0; }
    T r = 1 / (3 * area);
    mx = ox + sx * r;
    my = oy + sy * r;
    return area / 2;
}

// Splits at u = at, where (u, v) is (x, y) or (y, x); `low` is the part with u < at.
template <class T>
LANES_INLINE void split_at(int n, const T* u, const T* v, const int* tag, T at, int& low_n, T* low_u, T* low_v,
                           int* low_tag, int& high_n, T* high_u, T* high_v, int* high_tag) {
    int a = 0, b = 0;
    T ui = u[0], vi = v[0];
    bool in = ui < at;
    for (int i = 0; i < n; i++) {
        int k = i + 1 == n ? 0 : i + 1, own = tag[i];
        T uk = u[k], vk = v[k];
        bool next_in = uk < at;
        if (in) { low_u[a] = ui; low_v[a] = vi; low_tag[a++] = own; }
        else { high_u[b] = ui; high_v[b] = vi; high_tag[b++] = own; }
        if (in != next_in) {
            T w = vi + (at - ui) / (uk - ui) * (vk - vi);
            low_u[a] = at; low_v[a] = w; low_tag[a++] = in ? -1 : own;
            high_u[b] = at; high_v[b] = w; high_tag[b++] = in ? own : -1;
        }
        ui = uk; vi = vk; in = next_in;
    }
    low_n = a;
    high_n = b;
}
template <class T>
LANES_INLINE void split_at_x(const SmallPolygon<T>& p, T at, SmallPolygon<T>& low, SmallPolygon<T>& high) {
    split_at(p.n, p.x, p.y, p.tag, at, low.n, low.x, low.y, low.tag, high.n, high.x, high.y, high.tag);
}
template <class T>
LANES_INLINE void split_at_y(const SmallPolygon<T>& p, T at, SmallPolygon<T>& low, SmallPolygon<T>& high) {
    split_at(p.n, p.y, p.x, p.tag, at, low.n, low.y, low.x, low.tag, high.n, high.y, high.x, high.tag);
}

// The region where a triangle hides another: inside its edges and, if the two intersect, where it is closer.
template <class T> struct Occluder {
    const Triangle<T>* t;
    int index;
    bool intersects;
    T cx, cy, c0;  // difference of 1 / w: cx x + cy y + c0

    inline int sides() const { return intersects ? 4 : 3; }
    inline int tag(int side) const { return 4 * index + side; }
    inline T inside(int side, T x, T y) const {  // > 0 inside
        return side == INTERSECTION ? cx * x + cy * y + c0 : t->barycentric((side + 2) % 3, x, y);
    }
};

enum Overlap { DISJOINT, CONTAINED, PARTIAL };

// q = the part of p that the occluder hides.
template <class T, int N> static Overlap clip(const Polygon<T, N>& p, const Occluder<T>& by, LargePolygon<T>& q) {
    LargePolygon<T> other;
    T s[MAX_CORNERS];
    int n = p.n, cuts = 0;  // odd cuts are written to q, even ones to `other`
    const T *x = p.x, *y = p.y;
    const int* tag = p.tag;
    for (int side = 0; side < by.sides(); side++) {
        bool any = false, all = true;
        for (int i = 0; i < n; i++) {
            s[i] = by.inside(side, x[i], y[i]);
            any |= s[i] > 0;
            all &= !(s[i] < 0);
        }
        if (!any) return DISJOINT;
        if (all) continue;
        LargePolygon<T>& to = cuts++ % 2 ? other : q;
        int m = 0;
        for (int i = 0; i < n; i++) {
            int j = i + 1 == n ? 0 : i + 1;
            bool a = s[i] >= 0, b = s[j] >= 0;
            if (a) { to.x[m] = x[i]; to.y[m] = y[i]; to.tag[m++] = tag[i]; }
            if (a == b) continue;
            T u = s[i] / (s[i] - s[j]);
            to.x[m] = x[i] + u * (x[j] - x[i]);
            to.y[m] = y[i] + u * (y[j] - y[i]);
            to.tag[m++] = a ? by.tag(side) : tag[i];
        }
        if (m < 3) return DISJOINT;
        to.n = n = m;
        x = to.x; y = to.y; tag = to.tag;
    }
    if (cuts == 0) copy(p, q);
    else if (cuts % 2 == 0) copy(other, q);
    return cuts ? PARTIAL : CONTAINED;
}

// Splits p by one side of the occluder.
template <class T>
static void split(const LargePolygon<T>& p, const Occluder<T>& by, int side, LargePolygon<T>& in,
                  LargePolygon<T>& out) {
    int m = 0, n = 0;
    T si = by.inside(side, p.x[0], p.y[0]);
    for (int i = 0; i < p.n; i++) {
        int j = i + 1 == p.n ? 0 : i + 1;
        T sj = by.inside(side, p.x[j], p.y[j]);
        bool a = si >= 0, b = sj >= 0;
        if (a) { in.x[m] = p.x[i]; in.y[m] = p.y[i]; in.tag[m++] = p.tag[i]; }
        else { out.x[n] = p.x[i]; out.y[n] = p.y[i]; out.tag[n++] = p.tag[i]; }
        if (a != b) {
            T u = si / (si - sj), x = p.x[i] + u * (p.x[j] - p.x[i]), y = p.y[i] + u * (p.y[j] - p.y[i]);
            in.x[m] = x; in.y[m] = y; in.tag[m++] = a ? by.tag(side) : p.tag[i];
            out.x[n] = x; out.y[n] = y; out.tag[n++] = a ? p.tag[i] : by.tag(side);
        }
        si = sj;
    }
    in.n = m;
    out.n = n;
}

}  // namespace gradsim
