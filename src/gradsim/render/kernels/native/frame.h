// One frame's triangles on the screen: projected, cut at the near plane, turned to face the camera; and the way back.
//
// Whatever a rasterizer does, it does to the list of triangles made here, and leaves adjoints of their vertices on the
// screen and of their corners' attributes, which `retreat` brings back to the vertices and attributes it was given.
#pragma once

// Products and sums of one expression fuse, which Warp's compiler does not do by itself; across expressions they do not,
// so that what is computed in several places is the same everywhere.
#pragma clang fp contract(on)

#include "simd.h"

namespace gradsim {

typedef long long Int;  // all fields of Job are eight bytes wide: job.py declares the same struct

// What a rasterizer is asked for, and where it may write; the meaning of the arrays stands in ../../triangles.py.
template <class T> struct Job {
    Int height, width, channels;  // of the image; channels 3: colour, 4: colour and coverage
    Int vertex_count, corner_count, face_count, edge_count;
    Int attribute_stride;                                // between frames; 0: all share one
    Int background_frame_stride, background_pixel_stride;  // 0: all share one
    double near;                                         // [m]
    double options[4];                                   // of the rasterizer
    const int *faces, *corners, *edges, *marks, *textures;
    const T *vertices, *attributes, *texels, *background;
    T* image;
    T* kept;       // values of pixels that the backward wants again, [B, H, W, as the rasterizer says]
    int* owners;   // integers of pixels that it wants again, [B, H, W]
    int** lists;   // integers of varying number that it wants again, of each frame, [B]
    int* list;     // room for the lists of frames to come
    const T* image_adj;
    T *vertices_adj, *attributes_adj;  // null: not wanted
    T* texels_adj;                     // of each piece, [pieces, texels, 3]; null: not wanted
    T* piece_texels_adj;               // of the piece at hand
    char* scratch;
    Int* taken;                      // pieces that were taken, by all threads
    Int frame_count, piece_count, texel_count;
    Int next, last;                  // frame to go on with, end of the piece at hand
    Int list_size, scratch_size;     // what there is
    Int list_need, scratch_need;     // what was asked for when a frame did not fit: make room and go on with `next`
    Int broken;                      // whether an adjoint of the vertices is not finite

    // Whether there is a frame to go on with, if need be the first of another piece.
    bool more() {
        if (next < last) return true;
        const Int piece = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED);
        if (piece >= piece_count) return false;
        next = frame_count * piece / piece_count;
        last = frame_count * (piece + 1) / piece_count;
        piece_texels_adj = texels_adj ? texels_adj + piece * texel_count * 3 : nullptr;
        return true;
    }
};

// Memory for one frame, handed out in order. When it runs out it only counts, so that one failure tells the whole need.
struct Arena {
    char* base;
    Int size, used;
    Arena(char* scratch, Int bytes) : base(scratch), size(bytes), used(0) {}
    template <class U> U* take(Int count) {
        U* p = (U*)(base + used);
        used += (count * (Int)sizeof(U) + 63) / 64 * 64;
        return p;
    }
    bool fits() const { return used <= size; }
};

template <class T> LANES_INLINE T smaller(T a, T b, T c) { return smaller(a, smaller(b, c)); }
template <class T> LANES_INLINE T larger(T a, T b, T c) { return larger(a, larger(b, c)); }

// Area [px^2] below which a triangle or a piece of one is ignored.
template <class T> struct Tiny;
template <> struct Tiny<double> { static constexpr double area = 1e-13, depth = 1e-11; };
template <> struct Tiny<float> { static constexpr float area = 1e-7f, depth = 1e-5f; };

// A triangle on the screen that faces the camera: its signed area is negative, y pointing down.
template <class T> struct Triangle {
    T x[3], y[3];
    T depth[3];           // 1 / w, which is linear on the screen
    T gx[3], gy[3];       // slopes of the barycentric coordinates
    T left, right, top, bottom;
    int vertex[3], corner[3];
    int face;
    bool opened;  // by the near plane

    // Barycentric coordinate k at a place on the screen.
    inline T weight(int k, T px, T py) const { return (px - x[k]) * gx[k] + (py - y[k]) * gy[k] + 1; }
    inline T depth_at(T px, T py) const {
        return depth[0] + weight(1, px, py) * (depth[1] - depth[0]) + weight(2, px, py) * (depth[2] - depth[0]);
    }
    inline T depth_slope_x() const { return depth[0] * gx[0] + depth[1] * gx[1] + depth[2] * gx[2]; }
    inline T depth_slope_y() const { return depth[0] * gy[0] + depth[1] * gy[1] + depth[2] * gy[2]; }
};

// A vertex or corner made by the near plane between two that were given: `along` the way from a to b.
template <class T> struct Between {
    int a, b, corner_a, corner_b;
    T along, span;  // span = w_a - w_b
};

enum Facing : unsigned char { HIDDEN = 0, FRONT = 1, BACK = 2 };

template <class T, int A> struct Frame {
    const Job<T>& job;
    Int frame;
    const T *vertices, *attributes;
    T* screen;                // x, y, 1 / w of every vertex, those made by the near plane last
    unsigned char* facing;    // of every face; HIDDEN where the near plane cuts it
    Triangle<T>* triangles;   // those that may be seen
    Between<T>* between;
    T* between_attributes;
    T *screen_adj, *between_attributes_adj;
    T* attributes_adj;
    int triangle_count, between_count;

    T margin;                 // of what counts as on the image [px]

    Frame(const Job<T>& job, Int frame, Arena& arena, bool backward, T margin = 0)
        : job(job), frame(frame), margin(margin) {
        vertices = job.vertices + frame * job.vertex_count * 3;
        attributes = job.attributes + frame * job.attribute_stride;
        facing = arena.template take<unsigned char>(job.face_count);
        int cut = 0;
        for (Int f = 0; f < job.face_count; f++) {
            const int* v = job.faces + 3 * f;
            int behind = is_behind(v[0]) + is_behind(v[1]) + is_behind(v[2]);
            cut += behind == 1 || behind == 2;
        }
        screen = arena.template take<T>(3 * (job.vertex_count + 2 * cut));
        triangles = arena.template take<Triangle<T>>(job.face_count + cut);
        between = arena.template take<Between<T>>(2 * cut);
        between_attributes = arena.template take<T>(2 * cut * A);
        if (backward) {
            screen_adj = arena.template take<T>(3 * (job.vertex_count + 2 * cut));
            between_attributes_adj = arena.template take<T>(2 * cut * A);
            attributes_adj = job.attributes_adj ? job.attributes_adj + frame * job.corner_count * A
                                                : arena.template take<T>(job.corner_count * A);
        }
        triangle_count = between_count = 0;
        if (arena.fits()) advance(backward);
    }

    inline T depth_of(int v) const { return vertices[3 * v + 2]; }
    inline bool is_behind(int v) const { return !(depth_of(v) >= T(job.near)); }

    inline const T* attribute(int corner) const {
        return corner < job.corner_count ? attributes + (Int)corner * A
                                         : between_attributes + (corner - job.corner_count) * A;
    }
    inline T* attribute_adj(int corner) const {
        return corner < job.corner_count ? attributes_adj + (Int)corner * A
                                         : between_attributes_adj + (corner - job.corner_count) * A;
    }

    void project(const T* p, int to) {
        T* s = screen + 3 * to;
        s[2] = 1 / p[2];
        s[0] = p[0] * s[2];
        s[1] = p[1] * s[2];
    }

    void advance(bool backward) {
        const int vertex_count = (int)job.vertex_count;
        for (int v = 0; v < vertex_count; v++)
            if (!is_behind(v)) project(vertices + 3 * v, v);
        for (int f = 0; f < (int)job.face_count; f++) {
            const int *v = job.faces + 3 * f, *c = job.corners + 3 * f;
            int behind = is_behind(v[0]) + is_behind(v[1]) + is_behind(v[2]);
            facing[f] = HIDDEN;
            if (behind == 0) facing[f] = (unsigned char)add(f, v[0], v[1], v[2], c[0], c[1], c[2], false);
            else if (behind < 3) open(f, v, c);
        }
        if (backward) {
            int n = 3 * (vertex_count + between_count);
            for (int i = 0; i < n; i++) screen_adj[i] = 0;
            for (int i = 0; i < between_count * A; i++) between_attributes_adj[i] = 0;
            for (Int i = 0; i < job.corner_count * A; i++) attributes_adj[i] = 0;
        }
    }

    // The part of a face before the near plane, as one or two triangles.
    void open(int f, const int* v, const int* c) {
        int vertex[4], corner[4], n = 0;
        for (int k = 0; k < 3; k++) {
            int l = k == 2 ? 0 : k + 1;
            bool out = is_behind(v[k]), next_out = is_behind(v[l]);
            if (!out) { vertex[n] = v[k]; corner[n++] = c[k]; }
            if (out == next_out) continue;
            int a = out ? l : k, b = out ? k : l;
            corner[n] = (int)job.corner_count + between_count;
            vertex[n++] = cut(v[a], v[b], c[a], c[b]);
        }
        for (int k = 2; k < n; k++)
            add(f, vertex[0], vertex[k - 1], vertex[k], corner[0], corner[k - 1], corner[k], true);
    }

    int cut(int a, int b, int corner_a, int corner_b) {
        Between<T>& m = between[between_count];
        const T *p = vertices + 3 * a, *q = vertices + 3 * b;
        m.a = a; m.b = b; m.corner_a = corner_a; m.corner_b = corner_b;
        m.span = p[2] - q[2];
        m.along = (p[2] - T(job.near)) / m.span;
        T r[3];
        for (int k = 0; k < 3; k++) r[k] = p[k] + m.along * (q[k] - p[k]);
        const T *s = attribute(corner_a), *t = attribute(corner_b);
        for (int k = 0; k < A; k++) between_attributes[between_count * A + k] = s[k] + m.along * (t[k] - s[k]);
        int v = (int)job.vertex_count + between_count++;
        project(r, v);
        return v;
    }

    Facing add(int f, int a, int b, int c, int corner_a, int corner_b, int corner_c, bool opened) {
        const T *p = screen + 3 * a, *q = screen + 3 * b, *r = screen + 3 * c;
        T area = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
        Facing side = FRONT;
        if (!(area < -2 * Tiny<T>::area)) {
            if (!(area > 2 * Tiny<T>::area) || !(job.marks[f] & 1)) return HIDDEN;
            side = BACK;
            const T* s = q; q = r; r = s;
            int i = b; b = c; c = i;
            i = corner_b; corner_b = corner_c; corner_c = i;
            area = -area;
        }
        Triangle<T>& t = triangles[triangle_count];
        t.left = smaller(p[0], q[0], r[0]); t.right = larger(p[0], q[0], r[0]);
        t.top = smaller(p[1], q[1], r[1]); t.bottom = larger(p[1], q[1], r[1]);
        bool seen = t.right > -margin && t.bottom > -margin && t.left < job.width + margin &&
                    t.top < job.height + margin;
        if (!seen) return side;
        t.x[0] = p[0]; t.y[0] = p[1]; t.depth[0] = p[2];
        t.x[1] = q[0]; t.y[1] = q[1]; t.depth[1] = q[2];
        t.x[2] = r[0]; t.y[2] = r[1]; t.depth[2] = r[2];
        T inverse = 1 / area;
        for (int k = 0; k < 3; k++) {
            int i = (k + 1) % 3, j = (k + 2) % 3;
            t.gx[k] = (t.y[i] - t.y[j]) * inverse;
            t.gy[k] = (t.x[j] - t.x[i]) * inverse;
        }
        t.vertex[0] = a; t.vertex[1] = b; t.vertex[2] = c;
        t.corner[0] = corner_a; t.corner[1] = corner_b; t.corner[2] = corner_c;
        t.face = f;
        t.opened = opened;
        triangle_count++;
        return side;
    }

    // Adjoints of the screen become those of the vertices; those of what the near plane made go to its makers.
    // False where one is not finite.
    bool retreat() {
        const int vertex_count = (int)job.vertex_count;
        T* out = job.vertices_adj ? job.vertices_adj + frame * job.vertex_count * 3 : nullptr;
        if (out) for (int i = 0; i < 3 * vertex_count; i++) out[i] = 0;
        for (int m = 0; m < between_count; m++) {
            const Between<T>& b = between[m];
            T adj[3], along_adj = 0;
            unproject(vertex_count + m, adj);
            const T *p = vertices + 3 * b.a, *q = vertices + 3 * b.b;
            for (int k = 0; k < 3; k++) along_adj += adj[k] * (q[k] - p[k]);
            const T *s = attribute(b.corner_a), *t = attribute(b.corner_b), *g = between_attributes_adj + m * A;
            T *s_adj = attribute_adj(b.corner_a), *t_adj = attribute_adj(b.corner_b);
            for (int k = 0; k < A; k++) {
                s_adj[k] += (1 - b.along) * g[k];
                t_adj[k] += b.along * g[k];
                along_adj += g[k] * (t[k] - s[k]);
            }
            if (!out) continue;
            for (int k = 0; k < 3; k++) {
                out[3 * b.a + k] += (1 - b.along) * adj[k];
                out[3 * b.b + k] += b.along * adj[k];
            }
            out[3 * b.a + 2] += along_adj * (1 - b.along) / b.span;
            out[3 * b.b + 2] += along_adj * b.along / b.span;
        }
        if (!out) return true;
        for (int v = 0; v < vertex_count; v++) {
            if (is_behind(v)) continue;
            T adj[3];
            unproject(v, adj);
            for (int k = 0; k < 3; k++) out[3 * v + k] += adj[k];
        }
        T nothing = 0;
        for (int i = 0; i < 3 * vertex_count; i++) nothing += 0 * out[i];
        return nothing == 0;
    }

    void unproject(int v, T* adj) const {
        const T *s = screen + 3 * v, *g = screen_adj + 3 * v;
        adj[0] = g[0] * s[2];
        adj[1] = g[1] * s[2];
        adj[2] = -(g[0] * s[0] + g[1] * s[1] + g[2] * s[2]) * s[2];
    }
};

}  // namespace gradsim
