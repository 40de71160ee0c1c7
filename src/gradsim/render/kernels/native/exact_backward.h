// From the adjoint of the picture by exact visible area to those of the screen and of the attributes.
#pragma once
#include "coverage.h"
#include "exact_common.h"
#include "paint.h"
#include "tile.h"

namespace gradsim {

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

// The part p -> q of an edge u -> v, its outward normal (nx, ny) as long as itself, moves with u and v: the integral of
// f, linear from fp to fq, times the motion along the normal. sp and sq: how far along the edge p and q lie.
template <class R> LANES_INLINE void move_edge(R nx, R ny, R sp, R sq, R fp, R fq, R& ux, R& uy, R& vx, R& vy) {
    R ds = sq - sp, df = fq - fp;
    R all = fp + df / 2, at_v = fp * sp + (fp * ds + df * sp) / 2 + df * ds / 3, at_u = all - at_v;
    ux += nx * at_u;
    uy += ny * at_u;
    vx += nx * at_v;
    vy += ny * at_v;
}

template <class T, int A> struct ExactBackward : Exact<T, A> {
    using Base = Exact<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::pixels;
    using Base::kept_owner; using Base::covering; using Base::behind;
    enum { lanes = LaneTypes<T>::width, rows = TileShape<T>::rows, columns = TileShape<T>::columns };
    typedef TriangleAdjoint<T, A> Adjoint;
    const T* image_adj;
    const int channels;

    ExactBackward(Job<T>& job, Frame<T, A>& frame) : Base(job, frame), channels((int)job.channels) {
        image_adj = job.image_adj + frame.frame * pixels * channels;
    }

    // Pixels with one layer only.
    void mosaics() {
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            const Surface<T, A> surface(frame, t);
            const Sides<T> sides(t);
            RowAdjoint<T, A> adj;
            bool any_seen = false;
            tiles(t, sides, height, width, true, [&](int x, int y, const int* from, const int* to) LANES_LAMBDA {
                const int j = y * width + x;
                Mask<T> inside = (column < T(width - x)) & (row < T(height - y));
                Index<T> at = __builtin_convertvector(column, Index<T>) + x;
                Index<T> mine = load_tile<Index<T>>(kept_owner + j, width);
                Index<T> covered = (at >= of_rows<T>(from)) & (at <= of_rows<T>(to)), drawn = mine & 3;
                Mask<T> whole = widened<T>(covered & (mine == 8 * (i + 1))) & inside;
                Mask<T> part = widened<T>(~covered & ((drawn == EDGED) | (drawn == MOSAIC))) & inside;
                Tile<T> tile;
                Lanes<T> area = whole ? splat(T(1)) : Lanes<T>{}, u = splat(T(0.5)), v = u;
                bool parts = any(part);
                if (parts) {
                    tile.cut(sides, x, y);
                    part &= tile.area > Tiny<T>::area;
                    if (any(widened<T>(mine >> 3) & part)) part = before_owners(t, i, x, y, part, mine);
                    parts = any(part);
                    area = part ? tile.area : area;
                    u = part ? tile.u : u;
                    v = part ? tile.v : v;
                }
                const Mask<T> seen = whole | part;
                if (!any(seen)) return;
                any_seen = true;
                Lanes<T> g[4], value, slope_x, slope_y;
                adjoints(x, y, seen, g);
                SeenRow<T, A> look;
                look.look(surface, frame, x, y, column + u, row + v, seen);
                adj.look(surface, frame, look, seen, area, g, value, slope_x, slope_y);
                if (!parts) return;
                const Mask<T> edged = part & widened<T>(drawn == EDGED);
                if (any(edged)) value += bare(j, edged, g);
                value = part ? value : Lanes<T>{};
                slope_x = part ? slope_x : Lanes<T>{};
                slope_y = part ? slope_y : Lanes<T>{};
                move_sides(t, tile, x, y, u, v, value, slope_x, slope_y, adj);
            });
            if (any_seen) adj.spread(frame, t);
        }
    }

    // Of some lanes of a tile those that a triangle's owner does not hide.
    Mask<T> before_owners(const Triangle<T>& t, int i, int x, int y, Mask<T> some, Index<T> mine) {
        for (int l = 0; l < lanes; l++) {
            const Triangle<T>* back = some[l] ? covering(mine[l]) : nullptr;
            if (back && order_in_pixel(t, i, *back, x + l % columns, y + l / columns) != BEHIND) some[l] = 0;
        }
        return some;
    }

    // The adjoint of the image in a tile, zero where nothing is seen.
    LANES_MEMBER void adjoints(int x, int y, Mask<T> seen, Lanes<T>* g) const {
        const T* from = image_adj + (y * width + x) * channels;
        if (x + columns <= width && y + rows <= height) {
            read_rows<rows>(from, width * channels, channels, g);
            for (int k = 0; k < 4; k++) g[k] = seen ? g[k] : Lanes<T>{};
            return;
        }
        for (int k = 0; k < 4; k++) g[k] = Lanes<T>{};
        for (int l = 0; l < lanes; l++)
            if (seen[l])
                for (int k = 0; k < channels; k++) g[k][l] = from[(l / columns * width + l % columns) * channels + k];
    }

    // What covering the background brings, besides the colour.
    LANES_MEMBER Lanes<T> bare(int j, Mask<T> edged, const Lanes<T>* g) const {
        Lanes<T> b[3];
        for (int k = 0; k < 3; k++) b[k] = splat(behind(j)[k]);
        if (job.background_pixel_stride)
            for (int l = 0; l < lanes; l++)
                for (int k = 0; edged[l] && k < 3; k++) b[k][l] = behind(j + l / columns * width + l % columns)[k];
        Lanes<T> sum = channels == 4 ? g[3] : Lanes<T>{};
        for (int k = 0; k < 3; k++) sum -= g[k] * b[k];
        return edged ? sum : Lanes<T>{};
    }

    // The parts of the edges within the pixels of a tile move with the triangle; what area is worth is known at (u, v).
    LANES_MEMBER void move_sides(const Triangle<T>& t, const Tile<T>& tile, int x, int y, Lanes<T> u, Lanes<T> v,
                                  Lanes<T> value, Lanes<T> slope_x, Lanes<T> slope_y, RowAdjoint<T, A>& adj) {
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        for (int e = 0; e < 3; e++) {
            const typename Tile<T>::Part& part = tile.part[e];
            if (!part.any) continue;
            const int f = e == 2 ? 0 : e + 1;
            const Line<T> line(t, e);
            const T start = line.along(T(x), T(y)), sign = t.y[e] <= t.y[f] ? T(1) : T(-1);
            const Lanes<T> far = column * line.ex + row * line.ey + start;
            const Lanes<T> sp = far + part.pu * line.ex + part.pv * line.ey;
            const Lanes<T> sq = far + part.qu * line.ex + part.qv * line.ey;
            const Lanes<T> fp = value + slope_x * (part.pu - u) + slope_y * (part.pv - v);
            const Lanes<T> fq = value + slope_x * (part.qu - u) + slope_y * (part.qv - v);
            move_edge(sign * (part.pv - part.qv), sign * (part.qu - part.pu), sp, sq, fp, fq, adj.sum[3 * e],
                      adj.sum[3 * e + 1], adj.sum[3 * f], adj.sum[3 * f + 1]);
        }
    }

    void layers(Pixel<T>& pixel) {
        const int* list = job.lists[frame.frame];
        for (int i = 0; i < list[0]; i++) {
            const int place = list[1 + 2 * i], j = larger(place, ~place), from = list[2 + 2 * i];
            const int to = i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i];
            const int x = j % width, y = j / width;
            const Triangle<T>* back = covering(kept_owner[j]);
            int n = pixel.gather(frame.triangles, list + from, to - from, x, y, back);
            const T *adj = image_adj + j * channels, *b = behind(j);
            T bare = channels == 4 ? adj[3] : T(0);
            for (int k = 0; k < 3; k++) bare -= adj[k] * b[k];
            Adjoint back_adj;
            if (back) look_adjoint(Surface<T, A>(frame, *back), T(1), x + T(0.5), y + T(0.5), adj, back_adj);
            pixel.resolve(place < 0, n, x, y, [&](Fragment<T>& g, T sign, Large<T>& p) {
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
                const Line<T> line(h, e);
                T *u = frame.screen_adj + 3 * h.vertex[e], *v = frame.screen_adj + 3 * h.vertex[(e + 1) % 3];
                move_edge(p.y[b] - p.y[a], p.x[a] - p.x[b], line.along(p.x[a], p.y[a]), line.along(p.x[b], p.y[b]),
                          fa, fb, u[0], u[1], v[0], v[1]);
            }
        }
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

}  // namespace gradsim
