// Which pixels a triangle touches, and what is visible inside a pixel where several do.
#pragma once
#include "polygon.h"

namespace gradsim {

// Goes through the pixels that a triangle touches, row by row: part(x, y, polygon) for those it covers in part,
// run(y, from, to) for a row of pixels that it covers wholly.
template <bool with_parts, class T, class Part, class Run>
RENDER_INLINE void walk(const Triangle<T>& t, int index, int height, int width, Part&& part, Run&& run) {
    const int first_row = t.top > 0 ? (int)t.top : 0, last_row = t.bottom < height ? (int)t.bottom : height - 1;
    const bool wide = t.right - t.left > 1 && t.bottom - t.top > 1;
    Small<T> buffer[4], *rest = buffer, *row = buffer + 1, *spare = buffer + 2, *other = buffer + 3;
    auto swap = [](Small<T>*& a, Small<T>*& b) { Small<T>* c = a; a = b; b = c; };
    whole(t, index, *rest);
    T step[3];  // from one edge of a barycentric coordinate to the other, along a row
    for (int k = 0; k < 3; k++) step[k] = 1 / t.gx[k];
    if (t.top < first_row) {
        cut_y(*rest, T(first_row), *row, *spare);
        swap(rest, spare);
    }
    for (int y = first_row; y <= last_row; y++) {
        if (t.bottom > y + 1) {
            cut_y(*rest, T(y + 1), *row, *spare);
            swap(rest, spare);
        } else {
            swap(rest, row);
            rest->n = 0;  // a triangle that ends on a row's boundary has nothing in the next
        }
        if (row->n < 3) continue;
        T left = row->x[0], right = left;
        for (int i = 1; i < row->n; i++) {
            left = least(left, row->x[i]);
            right = most(right, row->x[i]);
        }
        if (!(right > 0) || left >= width) continue;
        const int first = left > 0 ? (int)left : 0, last = right < width ? (int)right : width - 1;
        int from = width, to = -1;  // pixels whose four corners lie inside all three edges
        if (wide && right - left > 1) {
            T low = -1, high = T(width + 1);
            bool none = false;
            for (int k = 0; k < 3; k++) {
                T half = T(0.5) * (__builtin_fabs(t.gx[k]) + __builtin_fabs(t.gy[k]));
                T r = half - 1 - (y + T(0.5) - t.y[k]) * t.gy[k] + t.x[k] * t.gx[k];
                if (t.gx[k] > 0) low = most(low, r * step[k]);
                else if (t.gx[k] < 0) high = least(high, r * step[k]);
                else none |= r > 0;
            }
            if (!none && high >= low) {
                from = (int)__builtin_ceil(most(low, T(first)) - T(0.5));
                to = (int)__builtin_floor(least(high, T(last + 1)) - T(0.5));
                from = from < first ? first : from;
                to = to > last ? last : to;
            }
            if (from <= to) run(y, from, to);
            else { from = width; to = -1; }
        }
        if constexpr (with_parts) {
            if (left < first) {
                cut_x(*row, T(first), *spare, *other);
                swap(row, other);
            }
            for (int x = first; x <= last; x++) {
                if (x == from) {
                    if (to == last) break;
                    cut_x(*row, T(to + 1), *spare, *other);
                    swap(row, other);
                    x = to;
                } else if (right > x + 1) {
                    cut_x(*row, T(x + 1), *spare, *other);
                    part(x, y, *spare);
                    swap(row, other);
                } else {
                    part(x, y, *row);
                }
            }
        }
    }
}

enum Order { BEHIND, CLOSER, EQUAL, PIERCED };

// Whether h lies behind g or closer over a polygon, the difference of their 1 / w being linear there.
template <class T, int N>
RENDER_INLINE Order order(const Polygon<T, N>& p, const Triangle<T>& g, const Triangle<T>& h, T ox, T oy, Occluder<T>& out) {
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

// A triangle cut by a pixel.
template <class T> struct Fragment : Small<T> {
    T left, right, top, bottom;
    const Triangle<T>* t;
    int index;

    void bound() {
        left = right = this->x[0];
        top = bottom = this->y[0];
        for (int i = 1; i < this->n; i++) {
            left = least(left, this->x[i]);
            right = most(right, this->x[i]);
            top = least(top, this->y[i]);
            bottom = most(bottom, this->y[i]);
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
            Small<T> a, b, c;
            whole(*g.t, g.index, a);
            cut_y(a, T(y), c, b);
            if (b.n < 3) continue;
            cut_y(b, T(y + 1), a, c);
            if (a.n < 3) continue;
            cut_x(a, T(x), c, b);
            if (b.n < 3) continue;
            cut_x(b, T(x + 1), g, c);
            T mx, my;
            if (g.n < 3 || centroid(g, mx, my) <= 0) continue;
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

    // Calls piece(fragment, sign, polygon) for all pieces of all fragments.
    template <class Piece> void resolve(int n, int x, int y, Piece&& piece) {
        for (int i = 0; i < n; i++) {
            int found = find(i, n, x, y);
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
