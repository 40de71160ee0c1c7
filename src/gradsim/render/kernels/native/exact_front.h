// The nearest triangle that covers each pixel fully, and the pixels that silhouettes cross.
#pragma once
#include "exact_common.h"
#include "tile.h"
#include "visibility.h"

namespace gradsim {

namespace exact_plane {
enum { RED, GREEN, BLUE, COVERAGE, COUNT };  // COVERAGE first holds 1 / w of the front triangle
}

template <class T, int A> struct ExactFront : Exact<T, A> {
    using Base = Exact<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::window;
    enum { lanes = LaneTypes<T>::width, rows = TileShape<T>::rows, columns = TileShape<T>::columns };
    Planes<T, exact_plane::COUNT> planes;
    const int stride;                 // of integers and planes
    int* front;                       // integer of each pixel, with rows padded for tiles that exceed the image
    unsigned char* silhouette_edges;  // one bit for each edge of each face
    int left, right, top, bottom;     // bounds of all triangles in the window [px]
    bool intersecting;                // whether triangles that cover a pixel fully may intersect

    ExactFront(RasterJob<T>& job, Frame<T, A>& frame, Arena& arena)
        : Base(job, frame), planes(height + rows - 1, width, arena), stride((int)planes.stride), intersecting(false) {
        front = arena.template allocate<int>((height + rows - 1) * stride);
        silhouette_edges = arena.template allocate<unsigned char>(job.face_count);
    }

    inline const Triangle<T>* front_at(int j) const { return Base::front_triangle(front[j]); }

    void find_front_triangles() {
        find_bounds();
        cover_pixels();
        clear_planes();
        find_silhouettes();
    }

    void find_bounds() {
        T l = T(window.right), r = T(window.left), t = T(window.bottom), b = T(window.top);
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& s = frame.triangles[i];
            l = smaller(l, s.left); r = larger(r, s.right); t = smaller(t, s.top); b = larger(b, s.bottom);
        }
        left = l > window.left ? (int)l : window.left;
        top = t > window.top ? (int)t : window.top;
        right = r < window.right ? (int)r + 1 : window.right;
        bottom = b < window.bottom ? (int)b + 1 : window.bottom;
        clear_plane(exact_plane::COVERAGE);
        for (int y = first_row(); y < bottom + rows - 1; y++)
            for (int x = first_column(); x < right + columns; x += lanes) store(front + y * stride + x, Index<T>{});
    }

    // Vectors and tiles that overlap the bounds may begin before them.
    inline int first_column() const { return larger(left - lanes + 1, 0); }
    inline int first_row() const { return larger(top - rows + 1, 0); }
    void clear_plane(int k) {
        for (int y = first_row(); y < bottom + rows - 1; y++)
            for (int x = first_column(); x < right + columns; x += lanes) store(planes.at(k, x, y), Lanes<T>{});
    }

    // Finds the nearest of the triangles that cover each pixel fully. Those of similar depth may intersect.
    void cover_pixels() {
        Spans<T> spans;
        Lanes<T> ramp;
        for (int l = 0; l < lanes; l++) ramp[l] = T(l);
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            if (!(t.right - t.left > 1 && t.bottom - t.top > 1)) continue;
            const TriangleEdges<T> edges(t);
            const int first = t.top > 0 ? (int)t.top : 0, last = t.bottom < height ? (int)t.bottom : height - 1;
            const T slope = t.inv_w_dx();
            const int skipped = first < top ? (top - first) / Spans<T>::count * Spans<T>::count : 0;
            for (int y = first + skipped; y <= last && y < bottom; y++) {
                const int r = (y - first) % Spans<T>::count;
                if (r == 0) find_spans(t, edges, y, width, spans);
                if (y < top) continue;
                const int before = spans.from[r] < left ? (left - spans.from[r]) / lanes * lanes : 0;
                for (int x = spans.from[r] + before; x <= spans.to[r] && x < right; x += lanes)
                    update_front(i, x, y, spans.to[r] - x + 1, t.inv_w_at(x + T(0.5), y + T(0.5)) + ramp * slope, ramp);
            }
        }
    }

    LANES_MEMBER void update_front(int i, int x, int y, int count, Lanes<T> inv_w, Lanes<T> ramp) {
        int* now = front + y * stride + x;
        T* nearest = planes.at(exact_plane::COVERAGE, x, y);
        const Mask<T> inside = ramp < T(count);
        const Index<T> before = load_as<Index<T>>(now), chosen = __builtin_convertvector(inside, Index<T>);
        if (!any(before & chosen)) {
            store(now, chosen ? Index<T>{} + front_code(i) : before);
            store(nearest, inside ? inv_w : load(nearest));
            return;
        }
        const T range = inv_w_range(frame.triangles[i]);
        for (int l = 0; l < lanes && l < count; l++) {
            const T d = inv_w[l];
            if (now[l]) {
                const Triangle<T>& other = frame.triangles[(now[l] >> FRONT_SHIFT) - 1];
                if (__builtin_fabs(d - nearest[l]) <= range + inv_w_range(other)) {
                    now[l] |= SILHOUETTE | INTERSECTING_FRONT;
                    intersecting = true;
                }
            }
            if (d > nearest[l]) {
                nearest[l] = d;
                now[l] = front_code(i) + (now[l] & FLAGS);
            }
        }
    }

    void clear_planes() {
        for (int k = 0; k < exact_plane::COUNT; k++) clear_plane(k);
        for (Int f = 0; f < job.face_count; f++) silhouette_edges[f] = 0;
    }

    // Silhouettes are edges whose two faces do not show the same side. A pixel without one has full layers only.
    void find_silhouettes() {
        using namespace edge_column;
        for (int e = 0; e < (int)job.edge_count; e++) {
            const int *edge = job.edges + edge_column::count * e, own = edge[face], other = edge[other_face];
            if (frame.facing[own] == (other >= 0 ? frame.facing[other] : (int)HIDDEN)) continue;
            mark_edge(own, edge);
            if (other >= 0) mark_edge(other, edge);
            if (!frame.is_behind(edge[start]) && !frame.is_behind(edge[end]))
                mark_silhouette(frame.screen + 3 * edge[start], frame.screen + 3 * edge[end]);
        }
        if (frame.clip_count == 0) return;
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            for (int k = 0; t.clipped && k < 3; k++)
                mark_silhouette(frame.screen + 3 * t.vertex[k], frame.screen + 3 * t.vertex[(k + 1) % 3]);
        }
    }
    void mark_edge(int face, const int* edge) {
        const int *v = job.faces + 3 * face, a = edge[edge_column::start], b = edge[edge_column::end];
        const bool on[3] = {v[0] == a || v[0] == b, v[1] == a || v[1] == b, v[2] == a || v[2] == b};
        silhouette_edges[face] |= (unsigned char)(1 << (on[0] && on[1] ? 0 : on[1] && on[2] ? 1 : 2));
    }

    // Marks the pixels that the segment from p to q crosses.
    void mark_silhouette(const T* p, const T* q) {
        const T pad = T(1e-4);  // [px], more than the rounding errors of an edge
        if (p[1] > q[1]) { const T* s = p; p = q; q = s; }
        if (!(q[1] + pad >= top) || !(p[1] - pad < bottom)) return;
        T slope = q[1] > p[1] ? (q[0] - p[0]) / (q[1] - p[1]) : 0;
        int first = p[1] - pad > top ? (int)(p[1] - pad) : top;
        int last = q[1] + pad < bottom ? (int)(q[1] + pad) : bottom - 1;
        for (int y = first; y <= last; y++) {
            T above = larger(p[1], T(y) - pad), below = smaller(q[1], T(y + 1) + pad);
            T u = p[0] + (above - p[1]) * slope, v = p[0] + (below - p[1]) * slope;
            if (q[1] - p[1] < 2 * pad) { u = p[0]; v = q[0]; }
            if (u > v) { T s = u; u = v; v = s; }
            u -= pad;
            v += pad;
            if (!(v >= left) || !(u < right)) continue;
            int from = u > left ? (int)u : left, to = v < right ? (int)v : right - 1;
            for (int x = from; x <= to; x++) front[y * stride + x] |= SILHOUETTE;
        }
    }
};

}  // namespace gradsim
