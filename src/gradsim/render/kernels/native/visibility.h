// The visible parts of overlapping triangles within one pixel.
#pragma once
#include "depth_order.h"

namespace gradsim {

// A triangle clipped to a pixel.
template <class T> struct Fragment : SmallPolygon<T> {
    T left, right, top, bottom;
    const Triangle<T>* t;
    int index;

    void compute_bounds() {
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

// Visibility in a pixel with overlapping fragments. The visible part of a fragment P is P minus the union of its
// occluders. If there are few, it is a sum of signed convex pieces (inclusion-exclusion),
//     |Q \ (A1 u A2 u ..)| = |Q| - sum_a |Q n A_a \ (A_1 u .. u A_{a-1})|.
// If there are many, P is split into disjoint convex pieces instead: the cost is polynomial, and errors of colours,
// which are not quite linear over a piece, do not add up over large pieces that cancel. Depths are compared over each
// overlap, so the fragments need no global order. Where two triangles intersect, the line of intersection is one more
// side.
template <class T> struct PixelVisibility {
    enum { FEW = 3, SPARE_NODES = 32 };
    struct Node {
        LargePolygon<T> p;
        int occluder;  // next to be subtracted
    };
    Fragment<T>* fragments;
    Node* nodes;
    Occluder<T>* occluders;

    PixelVisibility(Arena& arena, int max_fragments) {  // and the front triangle, which may join them
        fragments = arena.allocate<Fragment<T>>(max_fragments + 1);
        nodes = arena.allocate<Node>(4 * (max_fragments + 1) + SPARE_NODES);
        occluders = arena.allocate<Occluder<T>>(max_fragments + 1);
    }

    // Clips triangles to the pixel and drops those behind `front`, which covers the pixel fully. If a triangle
    // intersects `front`, that becomes a fragment too and the pointer null. Returns the number of fragments.
    int clip_fragments(const Triangle<T>* triangles, const int* list, int count, int x, int y,
                       const Triangle<T>*& front) {
        int n = 0;
        bool intersected = false;
        Occluder<T> unused;
        for (int q = 0; q < count; q++) {
            Fragment<T>& g = fragments[n];
            g.index = list[q];
            g.t = triangles + g.index;
            if (!clip_to_pixel(*g.t, g.index, x, y, g)) continue;
            if (front) {
                DepthOrder o = depth_order(g, *g.t, *front, T(x), T(y), unused);
                if (o == IN_FRONT || o == EQUAL) continue;
                intersected |= o == INTERSECTING;
            }
            g.compute_bounds();
            n++;
        }
        if (intersected) {
            Fragment<T>& g = fragments[n++];
            g.t = front;
            g.index = (int)(front - triangles);
            g.n = 4;
            for (int i = 0; i < 4; i++) {
                g.x[i] = T(x + (i == 1 || i == 2));
                g.y[i] = T(y + (i >= 2));
                g.tag[i] = -1;
            }
            g.compute_bounds();
            front = nullptr;
        }
        return n;
    }

    // Finds the occluders of fragment i and returns their number; -1 if one of them hides it completely.
    int find_occluders(int i, int n, int x, int y) {
        const Fragment<T>& g = fragments[i];
        int found = 0;
        LargePolygon<T> overlap;
        for (int k = 0; k < n; k++) {
            const Fragment<T>& h = fragments[k];
            if (k == i || h.left >= g.right || h.right <= g.left || h.top >= g.bottom || h.bottom <= g.top) continue;
            Occluder<T>& o = occluders[found];
            o.t = h.t;
            o.index = h.index;
            o.intersects = false;
            T mx, my;
            const Overlap kind = clip(g, o, overlap);
            if (kind == DISJOINT || centroid(overlap, mx, my) <= 0) continue;
            const DepthOrder order = depth_order(overlap, *g.t, *h.t, T(x), T(y), o);
            if (order == BEHIND || (order == EQUAL && k > i)) continue;
            o.intersects = order == INTERSECTING;
            if (!o.intersects && kind == CONTAINED) return -1;
            found++;
        }
        return found;
    }

    // Calls piece(fragment, sign, polygon) for all visible pieces of all fragments. If `full_layers`, the fragments
    // form layers that each cover the pixel; a single one is visible completely.
    template <class Piece> void visible_pieces(bool full_layers, int n, int x, int y, Piece&& piece) {
        T area = 0, mx, my;
        for (int i = 0; full_layers && i < n; i++) area += centroid(fragments[i], mx, my);
        const bool single = full_layers && __builtin_fabs(area - 1) < T(1e-3);
        for (int i = 0; i < n; i++) {
            int found = single ? 0 : find_occluders(i, n, x, y);
            if (found < 0) continue;
            if (found > FEW) {
                LargePolygon<T> p;
                copy(fragments[i], p);
                disjoint_pieces(p, found, fragments[i], piece);
            } else {
                signed_pieces(found, fragments[i], piece);
            }
        }
    }

    // Signed pieces of a fragment with few occluders: depth first over their subsets, storing the current chain only.
    template <class Piece> void signed_pieces(int found, Fragment<T>& g, Piece&& piece) {
        LargePolygon<T> stack[FEW + 1];
        int next[FEW + 1], limit[FEW + 1], level = 0;
        T sign = 1, mx, my;
        copy(g, stack[0]);
        piece(g, sign, stack[0]);
        next[0] = 0;
        limit[0] = found;
        while (level >= 0) {
            if (next[level] == limit[level]) {
                level--;
                sign = -sign;
                continue;
            }
            int a = next[level]++;
            LargePolygon<T>& q = stack[level + 1];
            if (clip(stack[level], occluders[a], q) == DISJOINT) continue;
            if (centroid(q, mx, my) <= 0 || is_hidden(q, a)) continue;
            piece(g, -sign, q);
            if (a == 0) continue;
            level++;
            next[level] = 0;
            limit[level] = a;
            sign = -sign;
        }
    }

    // Whether one of the first `count` occluders hides all of q.
    bool is_hidden(const LargePolygon<T>& q, int count) const {
        for (int k = 0; k < count; k++) {
            bool all = true;
            for (int side = 0; side < occluders[k].sides() && all; side++)
                for (int i = 0; i < q.n && all; i++) all = !(occluders[k].inside(side, q.x[i], q.y[i]) < 0);
            if (all) return true;
        }
        return false;
    }

    // Disjoint pieces of a fragment with many occluders.
    template <class Piece> void disjoint_pieces(const LargePolygon<T>& q, int count, Fragment<T>& g, Piece&& piece) {
        int top = 1;
        copy(q, nodes[0].p);
        nodes[0].occluder = 0;
        LargePolygon<T> p, in, out;
        T mx, my;
        while (top) {
            copy(nodes[--top].p, p);
            int a = nodes[top].occluder;
            if (p.n > MAX_CORNERS - 6) {
                split_in_half(p, nodes[top].p, nodes[top + 1].p);
                nodes[top].occluder = nodes[top + 1].occluder = a;
                top += 2;
                continue;
            }
            bool visible = true;
            for (; a < count && visible; a++) {
                const Occluder<T>& o = occluders[a];
                Overlap overlap = clip(p, o, in);
                if (overlap == DISJOINT || centroid(in, mx, my) <= 0) continue;
                visible = false;
                if (overlap == CONTAINED) continue;
                for (int side = 0; side < o.sides(); side++) {
                    split(p, o, side, in, out);
                    if (out.n >= 3 && centroid(out, mx, my) > 0) {
                        copy(out, nodes[top].p);
                        nodes[top++].occluder = a + 1;
                    }
                    if (in.n < 3) break;
                    copy(in, p);
                }
            }
            if (visible) piece(g, T(1), p);
        }
    }

    // Splits along a chord. Both halves have it as an edge, so its adjoints would cancel and are left out.
    static void split_in_half(const LargePolygon<T>& p, LargePolygon<T>& a, LargePolygon<T>& b) {
        int k = p.n / 2;
        a.n = k + 1;
        for (int i = 0; i <= k; i++) { a.x[i] = p.x[i]; a.y[i] = p.y[i]; a.tag[i] = i < k ? p.tag[i] : -1; }
        b.n = 1;
        b.x[0] = p.x[0]; b.y[0] = p.y[0]; b.tag[0] = -1;
        for (int i = k; i < p.n; i++) { b.x[b.n] = p.x[i]; b.y[b.n] = p.y[i]; b.tag[b.n++] = p.tag[i]; }
    }
};

}  // namespace gradsim
