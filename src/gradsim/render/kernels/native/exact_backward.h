// The backward pass of exact visible area: adjoints of screen vertices and attributes from that of the image.
#pragma once
#include "exact_common.h"
#include "sample_lanes.h"
#include "tile.h"
#include "visibility.h"

namespace gradsim {

// An edge of a triangle, from vertex e to the next.
template <class T> struct EdgeLine {
    T x, y, ex, ey;
    EdgeLine(const Triangle<T>& t, int e) : x(t.x[e]), y(t.y[e]) {
        int f = e == 2 ? 0 : e + 1;
        ex = t.x[f] - x;
        ey = t.y[f] - y;
        T r = 1 / (ex * ex + ey * ey + T(1e-30));
        ex *= r;
        ey *= r;
    }
    T along(T px, T py) const { return (px - x) * ex + (py - y) * ey; }  // 0 at its start, 1 at its end
};

// The part p -> q of an edge u -> v, with outward normal (nx, ny) as long as that part, moves with u and v. Adds the
// integral of f, linear from fp to fq, times the motion along the normal. sp and sq: coordinates of p and q along the
// edge.
template <class S> LANES_INLINE void move_edge(S nx, S ny, S sp, S sq, S fp, S fq, S& ux, S& uy, S& vx, S& vy) {
    S ds = sq - sp, df = fq - fp;
    S all = fp + df / 2, at_v = fp * sp + (fp * ds + df * sp) / 2 + df * ds / 3, at_u = all - at_v;
    ux += nx * at_u;
    uy += ny * at_u;
    vx += nx * at_v;
    vy += ny * at_v;
}

template <class T, int A> struct ExactBackward : Exact<T, A> {
    using Base = Exact<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::pixel_count;
    using Base::saved_front; using Base::front_triangle; using Base::background_at;
    enum { lanes = LaneTypes<T>::width, rows = TileShape<T>::rows, columns = TileShape<T>::columns };
    typedef TriangleAdjoint<T, A> Adjoint;
    const T* image_adj;
    const int channels;

    ExactBackward(RasterJob<T>& job, Frame<T, A>& frame) : Base(job, frame), channels((int)job.channels) {
        image_adj = job.image_adj + frame.index * pixel_count * channels;
    }

    // Pixels with a single layer.
    void single_layer_backward() {
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            const ShadedTriangle<T, A> shaded(frame, t);
            const TriangleEdges<T> edges(t);
            TriangleAdjointLanes<T, A> adj;
            bool any_visible = false;
            auto visit = [&](int x, int y, const int* from, const int* to) LANES_LAMBDA {
                any_visible |= tile_backward(shaded, edges, i, x, y, from, to, adj);
            };
            for_each_tile(t, edges, height, width, frame.window, true, visit);
            if (any_visible) adj.scatter(frame, t);
        }
    }

    // The pixels of a tile. Returns whether the triangle is visible in any of them.
    LANES_MEMBER bool tile_backward(const ShadedTriangle<T, A>& shaded, const TriangleEdges<T>& edges, int i, int x,
                                    int y, const int* from, const int* to, TriangleAdjointLanes<T, A>& adj) {
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        const Triangle<T>& t = shaded.t;
        const int j = y * width + x;
        Mask<T> on_image = (column < T(width - x)) & (row < T(height - y));
        Index<T> at = __builtin_convertvector(column, Index<T>) + x;
        Index<T> codes = load_tile<Index<T>>(saved_front + j, width);
        Index<T> covered = (at >= splat_rows<T>(from)) & (at <= splat_rows<T>(to)), kind = codes & KIND;
        Mask<T> full = widened<T>(covered & (codes == front_code(i))) & on_image;
        Mask<T> part = widened<T>(~covered & ((kind == SINGLE_LAYER_EDGE) | (kind == SINGLE_LAYER))) & on_image;
        TileCoverage<T> tile;
        Lanes<T> area = full ? splat(T(1)) : Lanes<T>{}, u = splat(T(0.5)), v = u;
        bool parts = any(part);
        if (parts) {
            tile.compute(edges, x, y);
            part &= tile.area > Epsilon<T>::area;
            if (any(widened<T>(codes >> FRONT_SHIFT) & part)) drop_hidden_lanes(t, i, x, y, codes, part);
            parts = any(part);
            area = part ? tile.area : area;
            u = part ? tile.u : u;
            v = part ? tile.v : v;
        }
        const Mask<T> visible = full | part;
        if (!any(visible)) return false;
        Lanes<T> g[4], value, dx, dy;
        load_image_adj(x, y, visible, g);
        SampleLanes<T, A> sample;
        sample.evaluate(shaded, frame, x, y, column + u, row + v, visible);
        adj.add_sample(shaded, frame, sample, visible, area, g, value, dx, dy);
        if (!parts) return true;
        const Mask<T> edge = part & widened<T>(kind == SINGLE_LAYER_EDGE);
        if (any(edge)) value += background_gain(j, edge, g);
        value = part ? value : Lanes<T>{};
        dx = part ? dx : Lanes<T>{};
        dy = part ? dy : Lanes<T>{};
        move_segments(t, tile, x, y, u, v, value, dx, dy, adj);
        return true;
    }

    // Removes the lanes of a tile in which the front triangle hides t.
    void drop_hidden_lanes(const Triangle<T>& t, int i, int x, int y, const Index<T>& codes, Mask<T>& some) {
        for (int l = 0; l < lanes; l++) {
            const Triangle<T>* nearest = some[l] ? front_triangle(codes[l]) : nullptr;
            if (!nearest) continue;
            if (depth_order_in_pixel(t, i, *nearest, x + l % columns, y + l / columns) != BEHIND) some[l] = 0;
        }
    }

    // Loads the adjoint of the image in a tile, zero where the triangle is not visible.
    LANES_MEMBER void load_image_adj(int x, int y, Mask<T> visible, Lanes<T>* g) const {
        const T* from = image_adj + (y * width + x) * channels;
        if (x + columns <= width && y + rows <= height) {
            read_rows<rows>(from, width * channels, channels, g);
            for (int k = 0; k < 4; k++) g[k] = visible ? g[k] : Lanes<T>{};
            return;
        }
        for (int k = 0; k < 4; k++) g[k] = Lanes<T>{};
        for (int l = 0; l < lanes; l++)
            if (visible[l])
                for (int k = 0; k < channels; k++) g[k][l] = from[(l / columns * width + l % columns) * channels + k];
    }

    // The change of the loss per covered area, besides that of the colour: less background and more coverage.
    LANES_MEMBER Lanes<T> background_gain(int j, Mask<T> edge, const Lanes<T>* g) const {
        Lanes<T> b[3];
        for (int k = 0; k < 3; k++) b[k] = splat(background_at(j)[k]);
        if (job.background_pixel_stride)
            for (int l = 0; l < lanes; l++)
                for (int k = 0; edge[l] && k < 3; k++)
                    b[k][l] = background_at(j + l / columns * width + l % columns)[k];
        Lanes<T> sum = channels == 4 ? g[3] : Lanes<T>{};
        for (int k = 0; k < 3; k++) sum -= g[k] * b[k];
        return edge ? sum : Lanes<T>{};
    }

    // Adds the adjoints of the edges' segments in a tile, which move with the triangle. The loss per area is `value` at
    // (u, v) and has the gradient (dx, dy).
    LANES_MEMBER void move_segments(const Triangle<T>& t, const TileCoverage<T>& tile, int x, int y, Lanes<T> u,
                                    Lanes<T> v, Lanes<T> value, Lanes<T> dx, Lanes<T> dy,
                                    TriangleAdjointLanes<T, A>& adj) {
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        for (int e = 0; e < 3; e++) {
            const typename TileCoverage<T>::Segment& segment = tile.segment[e];
            if (!segment.any) continue;
            const int f = e == 2 ? 0 : e + 1;
            const EdgeLine<T> line(t, e);
            const T start = line.along(T(x), T(y)), sign = t.y[e] <= t.y[f] ? T(1) : T(-1);
            const Lanes<T> corner = column * line.ex + row * line.ey + start;
            const Lanes<T> sp = corner + segment.pu * line.ex + segment.pv * line.ey;
            const Lanes<T> sq = corner + segment.qu * line.ex + segment.qv * line.ey;
            const Lanes<T> fp = value + dx * (segment.pu - u) + dy * (segment.pv - v);
            const Lanes<T> fq = value + dx * (segment.qu - u) + dy * (segment.qv - v);
            move_edge(sign * (segment.pv - segment.qv), sign * (segment.qu - segment.pu), sp, sq, fp, fq,
                      adj.sum[3 * e], adj.sum[3 * e + 1], adj.sum[3 * f], adj.sum[3 * f + 1]);
        }
    }

    // Pixels with several layers.
    void multi_layer_backward(PixelVisibility<T>& visibility) {
        const LayerList list(job.lists[frame.index]);
        for (int i = 0; i < list.pixel_count(); i++) {
            const int j = list.pixel(i), x = j % width, y = j / width;
            const Triangle<T>* nearest = front_triangle(saved_front[j]);
            const int n = visibility.clip_fragments(frame.triangles, list.triangles(i), list.triangle_count(i), x, y,
                                                    nearest);
            const T *adj = image_adj + j * channels, *b = background_at(j);
            T gain = channels == 4 ? adj[3] : T(0);
            for (int k = 0; k < 3; k++) gain -= adj[k] * b[k];
            Adjoint nearest_adj;
            if (nearest)
                sample_backward(ShadedTriangle<T, A>(frame, *nearest), T(1), x + T(0.5), y + T(0.5), adj, nearest_adj);
            visibility.visible_pieces(list.full_layers(i), n, x, y, [&](Fragment<T>& g, T sign, LargePolygon<T>& p) {
                T mx, my, area = sign * centroid(p, mx, my);
                Adjoint g_adj;
                PointFunction<T> s = sample_backward(ShadedTriangle<T, A>(frame, *g.t), area, mx, my, adj, g_adj);
                g_adj.scatter(frame, *g.t);
                if (nearest) {
                    const ShadedTriangle<T, A> shaded(frame, *nearest);
                    PointFunction<T> hidden = sample_backward(shaded, -area, mx, my, adj, nearest_adj);
                    s.value -= hidden.value;
                    s.dx -= hidden.dx;
                    s.dy -= hidden.dy;
                } else {
                    s.value += gain;
                }
                move_edges(p, *g.t, sign, s, mx, my);
            });
            if (nearest) nearest_adj.scatter(frame, *nearest);
        }
    }

    // Adds the adjoints of all edges of a piece, which move with the triangles they belong to. `s`: loss per area.
    void move_edges(const LargePolygon<T>& p, const Triangle<T>& g, T sign, const PointFunction<T>& s, T mx, T my) {
        for (int a = 0; a < p.n; a++) {
            if (p.tag[a] < 0) continue;
            int b = a + 1 == p.n ? 0 : a + 1, e = p.tag[a] & 3;
            const Triangle<T>& h = frame.triangles[p.tag[a] >> 2];
            T fa = sign * (s.value + s.dx * (p.x[a] - mx) + s.dy * (p.y[a] - my));
            T fb = sign * (s.value + s.dx * (p.x[b] - mx) + s.dy * (p.y[b] - my));
            if (e == INTERSECTION) {
                move_intersection(p.x[a], p.y[a], p.x[b], p.y[b], fa, fb, g, h);
            } else {
                const EdgeLine<T> line(h, e);
                T *u = frame.screen_adj + 3 * h.vertex[e], *v = frame.screen_adj + 3 * h.vertex[(e + 1) % 3];
                move_edge(p.y[b] - p.y[a], p.x[a] - p.x[b], line.along(p.x[a], p.y[a]), line.along(p.x[b], p.y[b]),
                          fa, fb, u[0], u[1], v[0], v[1]);
            }
        }
    }

    // The same for the line along which triangles g and h intersect: it moves with the depths of both.
    void move_intersection(T px, T py, T qx, T qy, T fp, T fq, const Triangle<T>& g, const Triangle<T>& h) {
        T gx = g.inv_w_dx(), gy = g.inv_w_dy(), hx = h.inv_w_dx(), hy = h.inv_w_dy();
        T cx = hx - gx, cy = hy - gy, nx = qy - py, ny = px - qx;
        T square = cx * cx + cy * cy;
        if (!(square > 0)) return;
        // Increasing the difference of 1 / w by d moves the line by -d / |c| along c; n is as long as the edge.
        T rate = -(nx * cx + ny * cy) / square;
        for (int side = 0; side < 2; side++) {
            const Triangle<T>& t = side ? h : g;
            T sign = side ? rate : -rate, sx = side ? hx : gx, sy = side ? hy : gy;
            for (int k = 0; k < 3; k++) {
                T wp = t.barycentric(k, px, py), wq = t.barycentric(k, qx, qy);
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
