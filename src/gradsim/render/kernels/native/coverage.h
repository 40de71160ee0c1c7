// What is visible inside a pixel where several triangles meet.
#pragma once
#include "polygon.h"

namespace gradsim {

// Distances that tell a triangle's neighbour from one that overlaps it [px].
template <class T> struct Margin;
template <> struct Margin<double> { static constexpr double slack = 1e-9, length = 1e-6; };
template <> struct Margin<float> { static constexpr float slack = 1e-5f, length = 1e-3f; };

// The part of [low, high] where what runs from p at 0 to q at 1 is positive.
template <class T> LANES_INLINE void shorten(T p, T q, T& low, T& high) {
    if (p < 0 && q < 0) high = low;
    else if (p < 0) low = larger(low, p / (p - q));
    else if (q < 0) high = smaller(high, p / (p - q));
}

// Whether more than the tip of a line from a to b lies inside a triangle.
template <class T> LANES_INLINE bool passes_through(const Triangle<T>& t, T ax, T ay, T bx, T by) {
    const T slack = Margin<T>::slack, length = Margin<T>::length;
    T low = 0, high = 1;
    for (int k = 0; k < 3; k++) {
        const T room = slack * (__builtin_fabs(t.gx[k]) + __builtin_fabs(t.gy[k]));
        shorten(t.weight(k, ax, ay) + room, t.weight(k, bx, by) + room, low, high);
    }
    return (high - low) * (__builtin_fabs(bx - ax) + __builtin_fabs(by - ay)) > length;
}

// Whether a line that starts at vertex k of a triangle, towards a, leads into it.
template <class T> LANES_INLINE bool leads_into(const Triangle<T>& t, int k, T ax, T ay) {
    for (int i = 0; i < 3; i++)
        if (i != k && t.weight(i, ax, ay) < -Margin<T>::slack * (__builtin_fabs(t.gx[i]) + __builtin_fabs(t.gy[i])))
            return false;
    return true;
}

// The place of a vertex in a triangle; -1 where it is none of its vertices.
template <class T> LANES_INLINE int corner_at(const Triangle<T>& t, int vertex) {
    return t.vertex[0] == vertex ? 0 : t.vertex[1] == vertex ? 1 : t.vertex[2] == vertex ? 2 : -1;
}

enum Order { BEHIND, CLOSER, EQUAL, PIERCED };

// Whether h lies behind g or closer over a polygon, the difference of their 1 / w being linear there.
template <class T, int N>
LANES_INLINE Order order(const Polygon<T, N>& p, const Triangle<T>& g, const Triangle<T>& h, T ox, T oy, Occluder<T>& out) {
    out.cx = h.depth_slope_x() - g.depth_slope_x();
    out.cy = h.depth_slope_y() - g.depth_slope_y();
    T own = g.depth_at(ox, oy), tolerance = Tiny<T>::depth * __builtin_fabs(own);
    T at_origin = h.depth_at(ox, oy) - own;
    out.c0 = at_origin - out.cx * ox - out.cy * oy;
    bool closer = false, behind = false;
    for (int i = 0; i < p.n; i++) {
        T d = at_origin + out.cx * (p.x[i] - ox) + out.cy * (p.y[i] - oy);
        closer |= d > tolerance;
        behind |= d < -tolerance;
    }
    return closer ? (behind ? PIERCED : CLOSER) : (behind ? BEHIND : EQUAL);
}

// The part of a triangle in a pixel; false where there is none.
template <class T> bool cut_to_pixel(const Triangle<T>& t, int index, int x, int y, Small<T>& p) {
    Small<T> a, b, c;
    whole(t, index, a);
    cut_y(a, T(y), c, b);
    if (b.n < 3) return false;
    cut_y(b, T(y + 1), a, c);
    if (a.n < 3) return false;
    cut_x(a, T(x), c, b);
    if (b.n < 3) return false;
    cut_x(b, T(x + 1), p, c);
    T mx, my;
    return p.n >= 3 && centroid(p, mx, my) > 0;
}

// How much 1 / w differs within a pixel from its centre, at most.
template <class T> LANES_INLINE T half_reach(const Triangle<T>& t) {
    return T(0.5) * (__builtin_fabs(t.depth_slope_x()) + __builtin_fabs(t.depth_slope_y()));
}

// The order of h and the part of g in a pixel.
template <class T> Order order_in_pixel(const Triangle<T>& g, int index, const Triangle<T>& h, int x, int y) {
    const T cx = x + T(0.5), cy = y + T(0.5), own = g.depth_at(cx, cy), closer = h.depth_at(cx, cy) - own;
    const T reach = half_reach(g) + half_reach(h) + 2 * Tiny<T>::depth * __builtin_fabs(own);
    if (closer > reach) return CLOSER;
    if (closer < -reach) return BEHIND;
    Small<T> p;
    Occluder<T> unused;
    return cut_to_pixel(g, index, x, y, p) ? order(p, g, h, T(x), T(y), unused) : EQUAL;
}

// Whether the triangles in a pixel lie side by side. The number of layers changes at outlines only, so it is one or
// none everywhere if no outline passes through a triangle that it does not belong to. In doubt they do not.
template <class T, int A>
bool lie_apart(const Frame<T, A>& frame, const unsigned char* outlined, const int* list, int count, int x, int y) {
    const T slack = Margin<T>::slack;
    for (int q = 0; q < count; q++) {
        const Triangle<T>& t = frame.triangles[list[q]];
        unsigned sides = t.opened ? 7 : outlined[t.face];
        if (frame.facing[t.face] == BACK) sides = (sides & 2) | sides >> 2 | (sides & 1) << 2;  // it was turned over
        for (int e = 0; e < 3; e++) {
            if (!(sides >> e & 1)) continue;
            const int f = e == 2 ? 0 : e + 1;
            T px = t.x[e], py = t.y[e], qx = t.x[f], qy = t.y[f], low = 0, high = 1;
            shorten(px - x + slack, qx - x + slack, low, high);
            shorten(x + 1 + slack - px, x + 1 + slack - qx, low, high);
            shorten(py - y + slack, qy - y + slack, low, high);
            shorten(y + 1 + slack - py, y + 1 + slack - qy, low, high);
            if (!(high > low)) continue;
            const T ax = px + low * (qx - px), ay = py + low * (qy - py);
            const T bx = px + high * (qx - px), by = py + high * (qy - py);
            for (int r = 0; r < count; r++) {
                const Triangle<T>& o = frame.triangles[list[r]];
                const bool away = smaller(ax, bx) > o.right + slack || larger(ax, bx) < o.left - slack ||
                                  smaller(ay, by) > o.bottom + slack || larger(ay, by) < o.top - slack;
                if (r == q || away) continue;
                const int p = corner_at(o, t.vertex[e]), s = corner_at(o, t.vertex[f]);
                const bool overlaps = p >= 0 && s >= 0 ? true
                                      : p >= 0         ? leads_into(o, p, qx, qy)
                                      : s >= 0         ? leads_into(o, s, px, py)
                                                       : passes_through(o, ax, ay, bx, by);
                if (overlaps) return false;
            }
        }
    }
    return true;
}

enum { MOST_SORTED = 64 };

// A bit for each of the triangles in a pixel, at most MOST_SORTED, before the first gap in depth: none of the others
// comes as close, anywhere in the pixel, as any of them.
template <class T>
unsigned long long before_gap(const Triangle<T>* triangles, const int* list, int count, int x, int y) {
    T middle[MOST_SORTED], reach[MOST_SORTED], low = 0;
    int first = 0;
    for (int k = 0; k < count; k++) {
        const Triangle<T>& t = triangles[list[k]];
        middle[k] = t.depth_at(x + T(0.5), y + T(0.5));
        reach[k] = half_reach(t) + Tiny<T>::depth * __builtin_fabs(middle[k]);
        if (middle[k] > middle[first]) first = k;
    }
    low = middle[first] - reach[first];
    unsigned long long front = 1ull << first;
    for (bool more = true; more;) {
        more = false;
        for (int k = 0; k < count; k++) {
            if (front >> k & 1 || !(middle[k] + reach[k] >= low)) continue;
            front |= 1ull << k;
            low = smaller(low, middle[k] - reach[k]);
            more = true;
        }
    }
    return front;
}

// A triangle cut by a pixel.
template <class T> struct Fragment : Small<T> {
    T left, right, top, bottom;
    const Triangle<T>* t;
    int index;

    void bound() {
        left = right = this->x[0];
        top = bottom = this->y[0];
        for (int i = 1; i < this->n; i++) {
            left = smaller(left, this->x[i]);
            right = larger(right, this->x[i]);
            top = smaller(top, this->y[i]);
            bottom = larger(bottom, this->y[i]);
        }
    }
};

// What is visible in a pixel with overlapping fragments. The visible part of a fragment P is P minus the union of what
// hides it. Where few do, it is summed as signed convex pieces:
//     |Q \ (A1 u A2 u ..)| = |Q| - sum_a |Q n A_a \ (A_1 u .. u A_{a-1})|
// and where many do, P is cut into disjoint convex pieces instead: the work grows as a polynomial, and errors of colours,
// which are not quite linear over a piece, do not add up over large pieces that cancel. Depths are compared over each
// overlap, so no order among the fragments is assumed, and where two pierce each other the line between them is one more
// side of the piece.
template <class T> struct Pixel {
    enum { FEW = 3, SPARE_NODES = 32 };
    struct Node {
        Large<T> p;
        int a;
    };
    Fragment<T>* fragments;
    Node* nodes;
    Occluder<T>* occluders;

    Pixel(Arena& arena, int most_fragments) {  // one more: the triangle behind may join them
        fragments = arena.take<Fragment<T>>(most_fragments + 1);
        nodes = arena.take<Node>(4 * (most_fragments + 1) + SPARE_NODES);
        occluders = arena.take<Occluder<T>>(most_fragments + 1);
    }

    // Cuts the triangles to the pixel; `back` covers the whole pixel and hides what is behind it. Where something
    // pierces it, it becomes a fragment itself and `back` null.
    int gather(const Triangle<T>* triangles, const int* list, int count, int x, int y, const Triangle<T>*& back) {
        int n = 0;
        bool pierced = false;
        Occluder<T> unused;
        for (int q = 0; q < count; q++) {
            Fragment<T>& g = fragments[n];
            g.index = list[q];
            g.t = triangles + g.index;
            if (!cut_to_pixel(*g.t, g.index, x, y, g)) continue;
            if (back) {
                Order o = order(g, *g.t, *back, T(x), T(y), unused);
                if (o == CLOSER || o == EQUAL) continue;
                pierced |= o == PIERCED;
            }
            g.bound();
            n++;
        }
        if (pierced) {
            Fragment<T>& g = fragments[n++];
            g.t = back;
            g.index = (int)(back - triangles);
            g.n = 4;
            for (int i = 0; i < 4; i++) {
                g.x[i] = T(x + (i == 1 || i == 2));
                g.y[i] = T(y + (i >= 2));
                g.tag[i] = -1;
            }
            g.bound();
            back = nullptr;
        }
        return n;
    }

    // Occluders of fragment i; -1 if one of them hides it wholly.
    int find(int i, int n, int x, int y) {
        const Fragment<T>& g = fragments[i];
        int found = 0;
        Large<T> overlap;
        for (int k = 0; k < n; k++) {
            const Fragment<T>& h = fragments[k];
            if (k == i || h.left >= g.right || h.right <= g.left || h.top >= g.bottom || h.bottom <= g.top) continue;
            Occluder<T>& o = occluders[found];
            o.t = h.t;
            o.index = h.index;
            o.pierces = false;
            T mx, my;
            Overlap whole_or_part = clip(g, o, overlap);
            if (whole_or_part == APART || centroid(overlap, mx, my) <= 0) continue;
            Order which = order(overlap, *g.t, *h.t, T(x), T(y), o);
            if (which == BEHIND || (which == EQUAL && k > i)) continue;
            o.pierces = which == PIERCED;
            if (!o.pierces && whole_or_part == WITHIN) return -1;
            found++;
        }
        return found;
    }

    // Calls piece(fragment, sign, polygon) for all pieces of all fragments; of a single whole sheet all is visible.
    template <class Piece> void resolve(bool sheets, int n, int x, int y, Piece&& piece) {
        T area = 0, mx, my;
        for (int i = 0; sheets && i < n; i++) area += centroid(fragments[i], mx, my);
        const bool single = sheets && __builtin_fabs(area - 1) < T(1e-3);
        for (int i = 0; i < n; i++) {
            int found = single ? 0 : find(i, n, x, y);
            if (found < 0) continue;
            if (found > FEW) {
                Large<T> p;
                copy(fragments[i], p);
                subtract(p, found, fragments[i], piece);
            } else {
                include(found, fragments[i], piece);
            }
        }
    }

    // Signed pieces of a fragment with few occluders: depth first over their subsets, storing the current chain only.
    template <class Piece> void include(int found, Fragment<T>& g, Piece&& piece) {
        Large<T> stack[FEW + 1];
        int at[FEW + 1], limit[FEW + 1], level = 0;
        T sign = 1, mx, my;
        copy(g, stack[0]);
        piece(g, sign, stack[0]);
        at[0] = 0;
        limit[0] = found;
        while (level >= 0) {
            if (at[level] == limit[level]) {
                level--;
                sign = -sign;
                continue;
            }
            int a = at[level]++;
            Large<T>& q = stack[level + 1];
            if (clip(stack[level], occluders[a], q) == APART || centroid(q, mx, my) <= 0 || hidden(q, a)) continue;
            piece(g, -sign, q);
            if (a == 0) continue;
            level++;
            at[level] = 0;
            limit[level] = a;
            sign = -sign;
        }
    }

    // Whether one of the first occluders hides all of q: its share is then zero.
    bool hidden(const Large<T>& q, int count) const {
        for (int k = 0; k < count; k++) {
            bool all = true;
            for (int side = 0; side < occluders[k].sides() && all; side++)
                for (int i = 0; i < q.n && all; i++) all = !(occluders[k].inside(side, q.x[i], q.y[i]) < 0);
            if (all) return true;
        }
        return false;
    }

    // Disjoint pieces of a fragment with many occluders.
    template <class Piece> void subtract(const Large<T>& q, int count, Fragment<T>& g, Piece&& piece) {
        int top = 1;
        copy(q, nodes[0].p);
        nodes[0].a = 0;
        Large<T> p, in, out;
        T mx, my;
        while (top) {
            copy(nodes[--top].p, p);
            int a = nodes[top].a;
            if (p.n > MOST_CORNERS - 6) {
                halve(p, nodes[top].p, nodes[top + 1].p);
                nodes[top].a = nodes[top + 1].a = a;
                top += 2;
                continue;
            }
            bool open = true;
            for (; a < count && open; a++) {
                const Occluder<T>& o = occluders[a];
                Overlap overlap = clip(p, o, in);
                if (overlap == APART || centroid(in, mx, my) <= 0) continue;
                open = false;
                if (overlap == WITHIN) continue;
                for (int side = 0; side < o.sides(); side++) {
                    split(p, o, side, in, out);
                    if (out.n >= 3 && centroid(out, mx, my) > 0) {
                        copy(out, nodes[top].p);
                        nodes[top++].a = a + 1;
                    }
                    if (in.n < 3) break;
                    copy(in, p);
                }
            }
            if (open) piece(g, T(1), p);
        }
    }

    // Cuts along a chord, which both halves carry, so that its adjoint cancels.
    static void halve(const Large<T>& p, Large<T>& a, Large<T>& b) {
        int k = p.n / 2;
        a.n = k + 1;
        for (int i = 0; i <= k; i++) { a.x[i] = p.x[i]; a.y[i] = p.y[i]; a.tag[i] = i < k ? p.tag[i] : -1; }
        b.n = 1;
        b.x[0] = p.x[0]; b.y[0] = p.y[0]; b.tag[0] = -1;
        for (int i = k; i < p.n; i++) { b.x[b.n] = p.x[i]; b.y[b.n] = p.y[i]; b.tag[b.n++] = p.tag[i]; }
    }
};

}  // namespace gradsim
