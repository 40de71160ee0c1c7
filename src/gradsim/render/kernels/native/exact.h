// Images by exact visible area: a pixel is the mean of what is seen through it, and its gradient the integral of colour
// differences along moving outlines. A piece of a triangle in a pixel counts area * colour(centroid).
#pragma once
#include "coverage.h"
#include "runs.h"

namespace gradsim {

// A pixel's owner is 8 (triangle that covers it wholly and is closest + 1) + how it is drawn:
enum Drawn {
    PLAIN = 0,       // by its owner or as background
    OUTLINE = 1,     // while the forward runs: an outline passes, so there may be several layers
    MOSAIC = 2,      // by one layer of triangles side by side, no matter where one ends and the next begins
    LAYERED = 3,     // by the triangles listed for it, before its owner
    UNOWNED = 4,     // flag: several that cover it pierce each other, all are listed and the owner is none
};

template <class T, int A> struct Exact {
    Job<T>& job;
    Frame<T, A>& frame;
    const int height, width, pixels;
    int* owner;
    const T* background;

    Exact(Job<T>& job, Frame<T, A>& frame)
        : job(job), frame(frame), height((int)job.height), width((int)job.width), pixels(height * width) {
        owner = job.owners + frame.frame * pixels;
        background = job.background + frame.frame * job.background_frame_stride;
    }

    inline const T* behind(int j) const { return background + j * job.background_pixel_stride; }
    inline const Triangle<T>* covering(int j) const {
        int t = (owner[j] >> 3) - 1;
        return t < 0 || owner[j] & UNOWNED ? nullptr : frame.triangles + t;
    }
};

template <class T, int A> struct ExactForward : Exact<T, A> {
    using Base = Exact<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::pixels; using Base::owner;
    using Base::covering; using Base::behind;
    T* sum;               // colour and coverage of each pixel; the owner's 1 / w in the last meanwhile
    int *head, *count;    // triangles in each pixel: the last of their entries, and how many
    int *entry, *before;  // an entry's triangle, and the entry before it in the same pixel
    int entry_count, entry_room;
    int left, right, top, bottom;  // of all triangles on the image, in pixels
    bool pierced;

    ExactForward(Job<T>& job, Frame<T, A>& frame, Arena& arena) : Base(job, frame) {
        sum = arena.template take<T>(4 * pixels);
        head = arena.template take<int>(pixels);
        count = arena.template take<int>(pixels);
        entry_room = 4 * (frame.triangle_count + height + width) + pixels / 2;
        int spare = (int)least((job.scratch_size - arena.used) / 16, (Int)1 << 28);  // grows with what there is
        if (spare > entry_room) entry_room = spare;
        entry = arena.template take<int>(entry_room);
        before = arena.template take<int>(entry_room);
        entry_count = 0;
        pierced = false;
    }

    // The frame, unless its entries or its list do not fit: then job says what is needed.
    bool draw(Arena& arena) {
        bound();
        cover();
        clear();
        trace();
        if (!scatter()) {
            job.scratch_need = 2 * job.scratch_size;
            return false;
        }
        int most_fragments = 0;
        if (!classify(most_fragments)) return false;
        Pixel<T> pixel(arena, most_fragments);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return false;
        }
        layers(pixel);
        store();
        return true;
    }

    void bound() {
        T l = T(width), r = 0, t = T(height), b = 0;
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& s = frame.triangles[i];
            l = least(l, s.left); r = most(r, s.right); t = least(t, s.top); b = most(b, s.bottom);
        }
        left = l > 0 ? (int)l : 0;
        top = t > 0 ? (int)t : 0;
        right = r < width ? (int)r + 1 : width;
        bottom = b < height ? (int)b + 1 : height;
        for (int j = 0; j < pixels; j++) owner[j] = 0;
        for (int y = top; y < bottom; y++)
            for (int j = y * width + left; j < y * width + right; j++) sum[4 * j + 3] = 0;
    }

    // Triangles that cover whole pixels: the closest owns the pixel. Where two come near each other they may pierce.
    void cover() {
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            if (!(t.right - t.left > 1 && t.bottom - t.top > 1)) continue;
            T slope = t.depth_slope_x(), reach = half_reach(t);
            walk<false>(t, i, height, width, [](int, int, Small<T>&) {}, [&](int y, int from, int to) RENDER_LAMBDA {
                T d = t.depth_at(from + T(0.5), y + T(0.5));
                for (int x = from; x <= to; x++, d += slope) {
                    int j = y * width + x;
                    T& closest = sum[4 * j + 3];
                    int now = owner[j] >> 3;
                    if (now && __builtin_fabs(d - closest) <= reach + half_reach(frame.triangles[now - 1])) {
                        owner[j] |= OUTLINE | UNOWNED;
                        pierced = true;
                    }
                    if (d > closest) {
                        closest = d;
                        owner[j] = 8 * (i + 1) + (owner[j] & 7);
                    }
                }
            });
        }
    }
    static T half_reach(const Triangle<T>& t) {
        return T(0.5) * (__builtin_fabs(t.depth_slope_x()) + __builtin_fabs(t.depth_slope_y()));
    }

    void clear() {
        for (int y = top; y < bottom; y++)
            for (int j = y * width + left; j < y * width + right; j++) {
                sum[4 * j] = sum[4 * j + 1] = sum[4 * j + 2] = sum[4 * j + 3] = 0;
                head[j] = -1;
                count[j] = 0;
            }
    }

    // Outlines: edges whose two faces do not both show the same side. A pixel without one holds whole layers.
    void trace() {
        for (int e = 0; e < (int)job.edge_count; e++) {
            const int* edge = job.edges + 4 * e;
            if (frame.facing[edge[2]] == (edge[3] >= 0 ? frame.facing[edge[3]] : (int)HIDDEN)) continue;
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

    void trace(const T* p, const T* q) {
        const T pad = T(1e-4);  // [px], more than rounding can move an edge
        if (p[1] > q[1]) { const T* s = p; p = q; q = s; }
        if (!(q[1] + pad >= top) || !(p[1] - pad < bottom)) return;
        T slope = q[1] > p[1] ? (q[0] - p[0]) / (q[1] - p[1]) : 0;
        int first = p[1] - pad > top ? (int)(p[1] - pad) : top, last = q[1] + pad < bottom ? (int)(q[1] + pad) : bottom - 1;
        for (int y = first; y <= last; y++) {
            T above = most(p[1], T(y) - pad), below = least(q[1], T(y + 1) + pad);
            T u = p[0] + (above - p[1]) * slope, v = p[0] + (below - p[1]) * slope;
            if (q[1] - p[1] < 2 * pad) { u = p[0]; v = q[0]; }
            if (u > v) { T s = u; u = v; v = s; }
            u -= pad;
            v += pad;
            if (!(v >= left) || !(u < right)) continue;
            int from = u > left ? (int)u : left, to = v < right ? (int)v : right - 1;
            for (int x = from; x <= to; x++) owner[y * width + x] |= OUTLINE;
        }
    }

    inline bool enter(int j, int triangle) {
        if (entry_count == entry_room) return false;
        entry[entry_count] = triangle;
        before[entry_count] = head[j];
        head[j] = entry_count++;
        count[j]++;
        return true;
    }

    // Adds what single layers show; notes every triangle that covers a part of a pixel.
    bool scatter() {
        bool room = true;
        Seen<T, A> seen;
        Occluder<T> unused;
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            Surface<T, A> surface(frame, t);
            walk<true>(t, i, height, width, [&](int x, int y, Small<T>& p) RENDER_LAMBDA {
                int j = y * width + x;
                if (p.n < 3) return;
                room &= enter(j, i);
                if (owner[j] & OUTLINE) return;
                T mx, my, area = centroid(p, mx, my);
                if (area <= 0) return;
                if (const Triangle<T>* back = covering(j)) {
                    Order o = order(p, t, *back, T(x), T(y), unused);
                    if (o == PIERCED) owner[j] |= OUTLINE;
                    if (o != BEHIND) return;
                }
                seen.look(surface, mx, my);
                T* s = sum + 4 * j;
                for (int k = 0; k < 3; k++) s[k] += area * seen.color[k];
                s[3] += area;
            }, [&](int y, int from, int to) RENDER_LAMBDA {
                if (!pierced) return;
                for (int j = y * width + from; j <= y * width + to; j++)
                    if (owner[j] & UNOWNED) room &= enter(j, i);
            });
        }
        return room;
    }

    // How each pixel is drawn. Where no outline passes coverage is none or whole; anything else holds layers.
    bool classify(int& most_fragments) {
        int layered = 0, entries = 0;
        const T slack = T(1e-3);
        for (int y = top; y < bottom; y++)
            for (int j = y * width + left; j < y * width + right; j++) {
                if (!count[j]) { owner[j] &= ~7; continue; }
                T covered = sum[4 * j + 3];
                int drawn = LAYERED;
                if (!(owner[j] & OUTLINE)) {
                    if (__builtin_fabs(covered - 1) < slack) drawn = MOSAIC;
                    else if (covered < slack) drawn = PLAIN;
                }
                owner[j] = (owner[j] & ~3) | drawn;
                if (drawn != LAYERED) continue;
                layered++;
                entries += count[j];
                most_fragments = most(most_fragments, count[j]);
            }
        return enlist(layered, entries);
    }

    // The list of a frame: how many pixels are layered; each pixel and where its triangles begin; the triangles.
    bool enlist(int layered, int entries) {
        Int at = frame.frame - job.first, start = at ? job.starts[at] : 0, end = start + 2 + 2 * layered + entries;
        if (end > job.list_size) {
            job.list_need = end;
            return false;
        }
        job.starts[at] = start;
        job.starts[at + 1] = end;
        int *list = job.list + start, *row = list + 1, begin = 2 + 2 * layered;
        list[0] = layered;
        for (int y = top; y < bottom; y++)
            for (int j = y * width + left; j < y * width + right; j++) {
                if ((owner[j] & 3) != LAYERED) continue;
                *row++ = j;
                *row++ = begin;
                int slot = begin + count[j];
                for (int e = head[j]; e >= 0; e = before[e]) list[--slot] = entry[e];
                begin += count[j];
            }
        *row = begin;
        return true;
    }

    // Pixels with layers: what lies behind, and signed visible pieces of (triangle - behind).
    void layers(Pixel<T>& pixel) {
        const int* list = job.list + job.starts[frame.frame - job.first];
        Seen<T, A> seen;
        for (int i = 0; i < list[0]; i++) {
            const int j = list[1 + 2 * i], from = list[2 + 2 * i], to = i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i];
            const int x = j % width, y = j / width;
            const Triangle<T>* back = covering(j);
            int n = pixel.gather(frame.triangles, list + from, to - from, x, y, back);
            const T* b = behind(j);
            T total[4] = {b[0], b[1], b[2], 0};
            if (back) {
                seen.look(Surface<T, A>(frame, *back), x + T(0.5), y + T(0.5));
                for (int k = 0; k < 3; k++) total[k] = seen.color[k];
                total[3] = 1;
            }
            pixel.resolve(n, x, y, [&](Fragment<T>& g, T sign, Large<T>& p) {
                T mx, my, area = sign * centroid(p, mx, my);
                seen.look(Surface<T, A>(frame, *g.t), mx, my);
                for (int k = 0; k < 3; k++) total[k] += area * seen.color[k];
                if (back) {
                    seen.look(Surface<T, A>(frame, *back), mx, my);
                    for (int k = 0; k < 3; k++) total[k] -= area * seen.color[k];
                } else {
                    for (int k = 0; k < 3; k++) total[k] -= area * b[k];
                    total[3] += area;
                }
            });
            for (int k = 0; k < 4; k++) sum[4 * j + k] = total[k];
        }
    }

    void store() {
        const int channels = (int)job.channels;
        T* image = job.image + frame.frame * pixels * channels;
        Seen<T, A> seen;
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                int j = y * width + x;
                T *out = image + j * channels, coverage = 0;
                const T* from = behind(j);
                if (owner[j] & 3) {
                    from = sum + 4 * j;
                    coverage = from[3];
                } else if (const Triangle<T>* t = covering(j)) {
                    if constexpr (A == 3) {
                        int count = 1, most_count = least((int)LaneTypes<T>::width, width - x);
                        while (count < most_count && owner[j + count] == owner[j]) count++;
                        look_run(Surface<T, A>(frame, *t), x, y, count, out, channels);
                        keep(j, count, 0);
                        x += count - 1;
                        continue;
                    }
                    seen.look(Surface<T, A>(frame, *t), x + T(0.5), y + T(0.5));
                    from = seen.color;
                    coverage = 1;
                }
                for (int k = 0; k < 3; k++) out[k] = from[k];
                if (channels == 4) out[3] = coverage;
                keep(j, 1, 1 - coverage);
            }
    }
    // How much of the background is seen, where its gradient is wanted.
    inline void keep(int j, int count, T value) {
        if (job.kept)
            for (int i = 0; i < count; i++) job.kept[frame.frame * pixels + j + i] = value;
    }
};

// An edge of a triangle, from vertex e to the next.
template <class T> struct Line {
    T x, y, ex, ey;
    Line(const Triangle<T>& t, int e) : x(t.x[e]), y(t.y[e]) {
        int f = e == 2 ? 0 : e + 1;
        ex = t.x[f] - x;
        ey = t.y[f] - y;
        T r = 1 / (ex * ex + ey * ey + T(1e-30));
        ex *= r;
        ey *= r;
    }
    T along(T px, T py) const { return (px - x) * ex + (py - y) * ey; }  // 0 at its start, 1 at its end
};

template <class T, int A> struct ExactBackward : Exact<T, A> {
    using Base = Exact<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::pixels; using Base::owner;
    using Base::covering; using Base::behind;
    typedef TriangleAdjoint<T, A> Adjoint;
    const T* image_adj;
    const int channels;

    ExactBackward(Job<T>& job, Frame<T, A>& frame) : Base(job, frame), channels((int)job.channels) {
        image_adj = job.image_adj + frame.frame * pixels * channels;
    }

    void mosaics() {
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            Surface<T, A> surface(frame, t);
            Adjoint adj;
            RunAdjoint<T> runs;
            Line<T> line[3] = {{t, 0}, {t, 1}, {t, 2}};
            bool any = false, ran = false;
            Occluder<T> unused;
            walk<true>(t, i, height, width, [&](int x, int y, Small<T>& p) RENDER_LAMBDA {
                int j = y * width + x;
                if ((owner[j] & 3) != MOSAIC || p.n < 3) return;
                T mx, my, area = centroid(p, mx, my);
                if (area <= 0) return;
                if (const Triangle<T>* back = covering(j))
                    if (order(p, t, *back, T(x), T(y), unused) != BEHIND) return;
                Slope<T> s = look_adjoint(surface, area, mx, my, image_adj + j * channels, adj);
                any = true;
                for (int a = 0; a < p.n; a++) {
                    if (p.tag[a] < 0) continue;
                    int b = a + 1 == p.n ? 0 : a + 1, e = p.tag[a] & 3, f = (e + 1) % 3;
                    T fa = s.value + s.x * (p.x[a] - mx) + s.y * (p.y[a] - my);
                    T fb = s.value + s.x * (p.x[b] - mx) + s.y * (p.y[b] - my);
                    move_edge(line[e], p.x[a], p.y[a], p.x[b], p.y[b], fa, fb, adj.screen + 3 * e, adj.screen + 3 * f);
                }
            }, [&](int y, int from, int to) RENDER_LAMBDA {
                any = true;
                if constexpr (A == 3) {
                    constexpr int wide = LaneTypes<T>::width;
                    ran = true;
                    for (int x = from; x <= to; x += wide) {
                        int j = y * width + x;
                        runs.add(surface, x, y, least(wide, to - x + 1), owner + j, 8 * (i + 1),
                                 image_adj + j * channels, channels);
                    }
                } else {
                    for (int x = from, j = y * width + from; x <= to; x++, j++)
                        if (owner[j] == 8 * (i + 1))
                            look_adjoint(surface, T(1), x + T(0.5), y + T(0.5), image_adj + j * channels, adj);
                }
            });
            if constexpr (A == 3)
                if (ran) runs.finish(t, adj);
            if (any) adj.spread(frame, t);
        }
    }

    void layers(Pixel<T>& pixel) {
        const int* list = job.list + job.starts[frame.frame - job.first];
        for (int i = 0; i < list[0]; i++) {
            const int j = list[1 + 2 * i], from = list[2 + 2 * i], to = i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i];
            const int x = j % width, y = j / width;
            const Triangle<T>* back = covering(j);
            int n = pixel.gather(frame.triangles, list + from, to - from, x, y, back);
            const T *adj = image_adj + j * channels, *b = behind(j);
            T bare = channels == 4 ? adj[3] : T(0);  // what covering the background brings, besides the colour
            for (int k = 0; k < 3; k++) bare -= adj[k] * b[k];
            Adjoint back_adj;
            if (back) look_adjoint(Surface<T, A>(frame, *back), T(1), x + T(0.5), y + T(0.5), adj, back_adj);
            pixel.resolve(n, x, y, [&](Fragment<T>& g, T sign, Large<T>& p) {
                T mx, my, area = sign * centroid(p, mx, my);
                Adjoint g_adj;
                Slope<T> s = look_adjoint(Surface<T, A>(frame, *g.t), area, mx, my, adj, g_adj);
                g_adj.spread(frame, *g.t);
                if (back) {
                    Slope<T> u = look_adjoint(Surface<T, A>(frame, *back), -area, mx, my, adj, back_adj);
                    s.value -= u.value;
                    s.x -= u.x;
                    s.y -= u.y;
                } else {
                    s.value += bare;
                }
                move_edges(p, *g.t, sign, s, mx, my);
            });
            if (back) back_adj.spread(frame, *back);
        }
    }

    // All edges of a piece move with the triangles they belong to; `s` is what area is worth there.
    void move_edges(const Large<T>& p, const Triangle<T>& g, T sign, const Slope<T>& s, T mx, T my) {
        for (int a = 0; a < p.n; a++) {
            if (p.tag[a] < 0) continue;
            int b = a + 1 == p.n ? 0 : a + 1, e = p.tag[a] & 3;
            const Triangle<T>& h = frame.triangles[p.tag[a] >> 2];
            T fa = sign * (s.value + s.x * (p.x[a] - mx) + s.y * (p.y[a] - my));
            T fb = sign * (s.value + s.x * (p.x[b] - mx) + s.y * (p.y[b] - my));
            if (e == PIERCING) {
                move_crossing(p.x[a], p.y[a], p.x[b], p.y[b], fa, fb, g, h);
            } else {
                int f = (e + 1) % 3;
                T* screen_adj = frame.screen_adj;
                move_edge(Line<T>(h, e), p.x[a], p.y[a], p.x[b], p.y[b], fa, fb, screen_adj + 3 * h.vertex[e],
                          screen_adj + 3 * h.vertex[f]);
            }
        }
    }

    // The part p -> q of a triangle's edge u -> v moves with u and v: integral of f, linear from fp to fq, times the
    // motion along the outward normal.
    RENDER_INLINE void move_edge(const Line<T>& e, T px, T py, T qx, T qy, T fp, T fq, T* u_adj, T* v_adj) {
        T nx = qy - py, ny = px - qx, sp = e.along(px, py), sq = e.along(qx, qy);
        T ds = sq - sp, df = fq - fp;
        T all = fp + df / 2, at_v = fp * sp + (fp * ds + df * sp) / 2 + df * ds / 3;
        u_adj[0] += nx * (all - at_v);
        u_adj[1] += ny * (all - at_v);
        v_adj[0] += nx * at_v;
        v_adj[1] += ny * at_v;
    }

    // The same for the line along which triangles g and h pierce each other: it moves with the depths of both.
    void move_crossing(T px, T py, T qx, T qy, T fp, T fq, const Triangle<T>& g, const Triangle<T>& h) {
        T gx = g.depth_slope_x(), gy = g.depth_slope_y(), hx = h.depth_slope_x(), hy = h.depth_slope_y();
        T cx = hx - gx, cy = hy - gy, nx = qy - py, ny = px - qx;
        T steep = cx * cx + cy * cy;
        if (!(steep > 0)) return;
        // A difference of depths that grows by d moves the line by -d / |c| along c; n has the edge's length.
        T rate = -(nx * cx + ny * cy) / steep;
        for (int side = 0; side < 2; side++) {
            const Triangle<T>& t = side ? h : g;
            T sign = side ? rate : -rate, sx = side ? hx : gx, sy = side ? hy : gy;
            for (int k = 0; k < 3; k++) {
                T wp = t.weight(k, px, py), wq = t.weight(k, qx, qy);
                T w = sign * ((fp * wp + fq * wq) / 3 + (fp * wq + fq * wp) / 6);
                T* adj = frame.screen_adj + 3 * t.vertex[k];
                adj[0] -= w * sx;
                adj[1] -= w * sy;
                adj[2] += w;
            }
        }
    }
};

template <class T, int A> void exact_forward(Job<T>& job) {
    while (job.next < job.last) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, false);
        ExactForward<T, A> exact(job, frame, arena);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        if (!exact.draw(arena)) return;
        job.next++;
    }
}

template <class T, int A> void exact_backward(Job<T>& job) {
    while (job.next < job.last) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, true);
        const int* list = job.list + job.starts[job.next - job.first];
        int most_fragments = 0;
        for (int i = 0; i < list[0]; i++) {
            int end = i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i];
            most_fragments = most(most_fragments, end - list[2 + 2 * i]);
        }
        Pixel<T> pixel(arena, most_fragments);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        ExactBackward<T, A> exact(job, frame);
        exact.mosaics();
        exact.layers(pixel);
        frame.retreat();
        job.next++;
    }
}

}  // namespace gradsim
