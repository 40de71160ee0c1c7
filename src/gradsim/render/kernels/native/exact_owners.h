// Which triangle covers each pixel wholly and is closest, and where outlines pass.
#pragma once
#include "coverage.h"
#include "exact_common.h"
#include "tile.h"

namespace gradsim {

namespace exact_planes {
enum { RED, GREEN, BLUE, COVER, COUNT };  // the owner's 1 / w in COVER meanwhile
}

template <class T, int A> struct ExactOwners : Exact<T, A> {
    using Base = Exact<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width;
    enum { lanes = LaneTypes<T>::width, rows = TileShape<T>::rows, columns = TileShape<T>::columns };
    Planes<T, exact_planes::COUNT> planes;
    const int stride;              // of the integers of pixels, as of the planes
    int* owner;                    // of each pixel, with room for tiles that reach over the image
    unsigned char* outlined;       // a bit for each edge of each face that is an outline
    int left, right, top, bottom;  // of all triangles on the image, in pixels
    bool pierced;                  // some that cover a pixel wholly may pierce each other

    ExactOwners(Job<T>& job, Frame<T, A>& frame, Arena& arena)
        : Base(job, frame), planes(height + rows - 1, width, arena), stride((int)planes.stride), pierced(false) {
        owner = arena.template take<int>((height + rows - 1) * stride);
        outlined = arena.template take<unsigned char>(job.face_count);
    }

    inline const Triangle<T>* covering(int j) const { return Base::covering(owner[j]); }

    void find_owners() {
        bound();
        cover();
        clear();
        trace();
    }

    void bound() {
        T l = T(width), r = 0, t = T(height), b = 0;
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& s = frame.triangles[i];
            l = smaller(l, s.left); r = larger(r, s.right); t = smaller(t, s.top); b = larger(b, s.bottom);
        }
        left = l > 0 ? (int)l : 0;
        top = t > 0 ? (int)t : 0;
        right = r < width ? (int)r + 1 : width;
        bottom = b < height ? (int)b + 1 : height;
        for (int y = top; y < bottom + rows - 1; y++)
            for (int x = left; x < right + columns; x += lanes) {
                store(owner + y * stride + x, Index<T>{});
                store(planes.at(exact_planes::COVER, x, y), Lanes<T>{});
            }
    }

    // Triangles that cover whole pixels: the closest owns the pixel. Where two come near each other they may pierce.
    void cover() {
        Spans<T> spans;
        Lanes<T> ramp;
        for (int l = 0; l < lanes; l++) ramp[l] = T(l);
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            if (!(t.right - t.left > 1 && t.bottom - t.top > 1)) continue;
            const Sides<T> sides(t);
            const int first = t.top > 0 ? (int)t.top : 0, last = t.bottom < height ? (int)t.bottom : height - 1;
            const T slope = t.depth_slope_x();
            for (int y = first; y <= last; y++) {
                const int r = (y - first) % Spans<T>::count;
                if (r == 0) find_spans(t, sides, y, width, spans);
                for (int x = spans.from[r]; x <= spans.to[r]; x += lanes)
                    own(i, x, y, spans.to[r] - x + 1, t.depth_at(x + T(0.5), y + T(0.5)) + ramp * slope, ramp);
            }
        }
    }

    LANES_MEMBER void own(int i, int x, int y, int count, Lanes<T> depth, Lanes<T> ramp) {
        int* now = owner + y * stride + x;
        T* closest = planes.at(exact_planes::COVER, x, y);
        const Mask<T> inside = ramp < T(count);
        const Index<T> before = load_as<Index<T>>(now), chosen = __builtin_convertvector(inside, Index<T>);
        if (!any(before & chosen)) {
            store(now, chosen ? Index<T>{} + 8 * (i + 1) : before);
            store(closest, inside ? depth : load(closest));
            return;
        }
        const T reach = half_reach(frame.triangles[i]);
        for (int l = 0; l < lanes && l < count; l++) {
            const T d = depth[l];
            if (now[l] && __builtin_fabs(d - closest[l]) <= reach + half_reach(frame.triangles[(now[l] >> 3) - 1])) {
                now[l] |= OUTLINE | UNOWNED;
                pierced = true;
            }
            if (d > closest[l]) {
                closest[l] = d;
                now[l] = 8 * (i + 1) + (now[l] & 7);
            }
        }
    }

    void clear() {
        for (int y = top; y < bottom + rows - 1; y++)
            for (int k = 0; k < exact_planes::COUNT; k++)
                for (int x = left; x < right + columns; x += lanes) store(planes.at(k, x, y), Lanes<T>{});
        for (Int f = 0; f < job.face_count; f++) outlined[f] = 0;
    }

    // Outlines: edges whose two faces do not both show the same side. A pixel without one holds whole layers.
    void trace() {
        for (int e = 0; e < (int)job.edge_count; e++) {
            const int* edge = job.edges + 4 * e;
            if (frame.facing[edge[2]] == (edge[3] >= 0 ? frame.facing[edge[3]] : (int)HIDDEN)) continue;
            for (int k = 2; k < 4; k++)
                if (edge[k] >= 0) outlined[edge[k]] |= (unsigned char)(1 << side_of(job.faces + 3 * edge[k], edge));
            if (!frame.is_behind(edge[0]) && !frame.is_behind(edge[1]))
                trace(frame.screen + 3 * edge[0], frame.screen + 3 * edge[1]);
        }
        if (frame.between_count == 0) return;
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            for (int k = 0; t.opened && k < 3; k++)
                trace(frame.screen + 3 * t.vertex[k], frame.screen + 3 * t.vertex[(k + 1) % 3]);
        }
    }
    static int side_of(const int* face, const int* edge) {
        const bool meets[3] = {face[0] == edge[0] || face[0] == edge[1], face[1] == edge[0] || face[1] == edge[1],
                               face[2] == edge[0] || face[2] == edge[1]};
        return meets[0] && meets[1] ? 0 : meets[1] && meets[2] ? 1 : 2;
    }

    void trace(const T* p, const T* q) {
        const T pad = T(1e-4);  // [px], more than rounding can move an edge
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
            for (int x = from; x <= to; x++) owner[y * stride + x] |= OUTLINE;
        }
    }
};

}  // namespace gradsim
