// The triangles of one frame in screen space: projected, clipped at the near plane and oriented towards the camera; and
// the backward pass of this.
//
// Rasterizers read the list of triangles built here. They accumulate adjoints of screen vertices and of the attributes
// of corners, which `project_backward` passes on to the vertices and attributes of the job.
#pragma once

// Products and sums of one expression fuse, which Warp's compiler does not do by itself. Those of different expressions
// do not, so that equal expressions have equal values everywhere.
#pragma clang fp contract(on)

#include "simd.h"

#if __has_feature(address_sanitizer)
extern "C" void __asan_poison_memory_region(const volatile void*, unsigned long);
extern "C" void __asan_unpoison_memory_region(const volatile void*, unsigned long);
#endif

namespace gradsim {

typedef long long Int;

// Whether the job has another frame to process in this launch. Takes another chunk of frames when the current one is
// finished.
template <class T> bool has_next_frame(RasterJob<T>& job) {
    if (job.next_frame == job.chunk_end) {
        const Int chunk = __atomic_fetch_add(job.chunks_taken, 1, __ATOMIC_RELAXED);
        if (chunk >= job.chunk_count) return false;
        job.next_frame = job.frame_count * chunk / job.chunk_count;
        job.chunk_end = job.frame_count * (chunk + 1) / job.chunk_count;
        job.chunk_texels_adj = job.texels_adj ? job.texels_adj + chunk * job.texel_count * 3 : nullptr;
    }
    return job.frames_left-- > 0;
}

// Scratch memory of one frame, allocated linearly. Beyond its size it only counts, so that a single failure reports the
// total need. The address sanitizer reports accesses between two allocations.
struct Arena {
    char* base;
    Int size, used;
    Arena(char* scratch, Int bytes) : base(scratch), size(bytes), used(0) {}
    template <class U> U* allocate(Int count) {
        U* p = (U*)(base + used);
        const Int bytes = count * (Int)sizeof(U);
        used += (bytes + 63) / 64 * 64;
#if __has_feature(address_sanitizer)
        used += 64;
        if (used <= size) {
            __asan_unpoison_memory_region(p, bytes);
            __asan_poison_memory_region((char*)p + bytes, base + used - ((char*)p + bytes));
        }
#endif
        return p;
    }
    bool fits() const { return used <= size; }
};

template <class T> LANES_INLINE T smaller(T a, T b, T c) { return smaller(a, smaller(b, c)); }
template <class T> LANES_INLINE T larger(T a, T b, T c) { return larger(a, larger(b, c)); }

// Area [px^2] below which a triangle or a piece of one is ignored, and relative difference of depths that counts as
// equal.
template <class T> struct Epsilon;
template <> struct Epsilon<double> { static constexpr double area = 1e-13, depth = 1e-11; };
template <> struct Epsilon<float> { static constexpr float area = 1e-7f, depth = 1e-5f; };

// A triangle in screen space that faces the camera: its signed area is negative, y pointing down.
template <class T> struct Triangle {
    T x[3], y[3];
    T inv_w[3];      // 1 / depth, which is linear in screen space
    T gx[3], gy[3];  // gradients of the barycentric coordinates
    T left, right, top, bottom;
    int vertex[3], corner[3];
    int face;
    bool clipped;  // by the near plane

    // Barycentric coordinate k of a point.
    inline T barycentric(int k, T px, T py) const { return (px - x[k]) * gx[k] + (py - y[k]) * gy[k] + 1; }
    inline T inv_w_at(T px, T py) const {
        return inv_w[0] + barycentric(1, px, py) * (inv_w[1] - inv_w[0]) +
               barycentric(2, px, py) * (inv_w[2] - inv_w[0]);
    }
    inline T inv_w_dx() const { return inv_w[0] * gx[0] + inv_w[1] * gx[1] + inv_w[2] * gx[2]; }
    inline T inv_w_dy() const { return inv_w[0] * gy[0] + inv_w[1] * gy[1] + inv_w[2] * gy[2]; }
};

// A vertex and corner where the near plane intersects the edge from a to b, at a + t (b - a).
template <class T> struct ClipVertex {
    int a, b, corner_a, corner_b;
    T t, depth_span;  // depth_span = w_a - w_b
};

// The part of an image that is drawn, up to excluded ends [px].
struct Window {
    int left, right, top, bottom;
};

enum Facing : unsigned char { HIDDEN = 0, FRONT = 1, BACK = 2 };

template <class T, int A> struct Frame {
    const RasterJob<T>& job;
    Int index;
    const T *vertices, *attributes;
    T* screen;               // x, y, 1 / w of every vertex, clip vertices last
    unsigned char* facing;   // of every face; HIDDEN where the near plane clips it
    Triangle<T>* triangles;  // those that overlap the window
    ClipVertex<T>* clip_vertices;
    T* clip_attributes;
    T *screen_adj, *clip_attributes_adj;
    T* attributes_adj;
    int triangle_count, clip_count;
    T margin;  // around the window, within which triangles count as overlapping it [px]
    const Window window;

    Frame(const RasterJob<T>& job, Int index, Arena& arena, bool backward, T margin = 0)
        : Frame(job, index, arena, backward, margin, {0, (int)job.width, 0, (int)job.height}) {}

    Frame(const RasterJob<T>& job, Int index, Arena& arena, bool backward, T margin, Window window)
        : job(job), index(index), margin(margin), window(window) {
        vertices = job.vertices + index * job.vertex_count * 3;
        attributes = job.attributes + index * job.attribute_stride;
        facing = arena.template allocate<unsigned char>(job.face_count);
        int clipped = 0;
        for (Int f = 0; f < job.face_count; f++) {
            const int behind = count_behind(job.faces + 3 * f);
            clipped += behind == 1 || behind == 2;
        }
        screen = arena.template allocate<T>(3 * (job.vertex_count + 2 * clipped));
        triangles = arena.template allocate<Triangle<T>>(job.face_count + clipped);
        clip_vertices = arena.template allocate<ClipVertex<T>>(2 * clipped);
        clip_attributes = arena.template allocate<T>(2 * clipped * A);
        if (backward) {
            screen_adj = arena.template allocate<T>(3 * (job.vertex_count + 2 * clipped));
            clip_attributes_adj = arena.template allocate<T>(2 * clipped * A);
            attributes_adj = job.attributes_adj ? job.attributes_adj + index * job.corner_count * A
                                                : arena.template allocate<T>(job.corner_count * A);
        }
        triangle_count = clip_count = 0;
        if (!arena.fits()) return;
        project();
        if (backward) clear_adjoints();
    }

    inline bool is_behind(int v) const { return !(vertices[3 * v + 2] >= T(job.near)); }
    inline int count_behind(const int* v) const { return is_behind(v[0]) + is_behind(v[1]) + is_behind(v[2]); }

    inline const T* attribute(int corner) const {
        return corner < job.corner_count ? attributes + (Int)corner * A
                                         : clip_attributes + (corner - job.corner_count) * A;
    }
    inline T* attribute_adj(int corner) const {
        return corner < job.corner_count ? attributes_adj + (Int)corner * A
                                         : clip_attributes_adj + (corner - job.corner_count) * A;
    }

    void project() {
        for (int v = 0; v < (int)job.vertex_count; v++)
            if (!is_behind(v)) project_vertex(vertices + 3 * v, v);
        for (int f = 0; f < (int)job.face_count; f++) {
            const int *v = job.faces + 3 * f, *c = job.corners + 3 * f, behind = count_behind(v);
            facing[f] = HIDDEN;
            if (behind == 0) facing[f] = (unsigned char)add_triangle(f, v[0], v[1], v[2], c[0], c[1], c[2], false);
            else if (behind < 3) add_clipped(f, v, c);
        }
    }

    void project_vertex(const T* p, int to) {
        T* s = screen + 3 * to;
        s[2] = 1 / p[2];
        s[0] = p[0] * s[2];
        s[1] = p[1] * s[2];
    }

    void clear_adjoints() {
        const int n = 3 * ((int)job.vertex_count + clip_count);
        for (int i = 0; i < n; i++) screen_adj[i] = 0;
        for (int i = 0; i < clip_count * A; i++) clip_attributes_adj[i] = 0;
        for (Int i = 0; i < job.corner_count * A; i++) attributes_adj[i] = 0;
    }

    // Adds the part of a face in front of the near plane, as one or two triangles.
    void add_clipped(int f, const int* v, const int* c) {
        int vertex[4], corner[4], n = 0;
        for (int k = 0; k < 3; k++) {
            int l = k == 2 ? 0 : k + 1;
            bool out = is_behind(v[k]), next_out = is_behind(v[l]);
            if (!out) { vertex[n] = v[k]; corner[n++] = c[k]; }
            if (out == next_out) continue;
            int a = out ? l : k, b = out ? k : l;
            corner[n] = (int)job.corner_count + clip_count;
            vertex[n++] = add_clip_vertex(v[a], v[b], c[a], c[b]);
        }
        for (int k = 2; k < n; k++)
            add_triangle(f, vertex[0], vertex[k - 1], vertex[k], corner[0], corner[k - 1], corner[k], true);
    }

    int add_clip_vertex(int a, int b, int corner_a, int corner_b) {
        ClipVertex<T>& m = clip_vertices[clip_count];
        const T *p = vertices + 3 * a, *q = vertices + 3 * b;
        m.a = a; m.b = b; m.corner_a = corner_a; m.corner_b = corner_b;
        m.depth_span = p[2] - q[2];
        m.t = (p[2] - T(job.near)) / m.depth_span;
        T r[3];
        for (int k = 0; k < 3; k++) r[k] = p[k] + m.t * (q[k] - p[k]);
        const T *s = attribute(corner_a), *t = attribute(corner_b);
        for (int k = 0; k < A; k++) clip_attributes[clip_count * A + k] = s[k] + m.t * (t[k] - s[k]);
        int v = (int)job.vertex_count + clip_count++;
        project_vertex(r, v);
        return v;
    }

    // Adds a triangle if it faces the camera, or is two-sided, and overlaps the window. Returns its orientation.
    Facing add_triangle(int f, int a, int b, int c, int corner_a, int corner_b, int corner_c, bool clipped) {
        const T *p = screen + 3 * a, *q = screen + 3 * b, *r = screen + 3 * c;
        T area = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
        Facing side = FRONT;
        if (!(area < -2 * Epsilon<T>::area)) {
            if (!(area > 2 * Epsilon<T>::area) || !job.two_sided[f]) return HIDDEN;
            side = BACK;
            const T* s = q; q = r; r = s;
            int i = b; b = c; c = i;
            i = corner_b; corner_b = corner_c; corner_c = i;
            area = -area;
        }
        Triangle<T>& t = triangles[triangle_count];
        t.left = smaller(p[0], q[0], r[0]); t.right = larger(p[0], q[0], r[0]);
        t.top = smaller(p[1], q[1], r[1]); t.bottom = larger(p[1], q[1], r[1]);
        const bool overlaps = t.right > window.left - margin && t.bottom > window.top - margin &&
                              t.left < window.right + margin && t.top < window.bottom + margin;
        if (!overlaps) return side;
        t.x[0] = p[0]; t.y[0] = p[1]; t.inv_w[0] = p[2];
        t.x[1] = q[0]; t.y[1] = q[1]; t.inv_w[1] = q[2];
        t.x[2] = r[0]; t.y[2] = r[1]; t.inv_w[2] = r[2];
        T inverse = 1 / area;
        for (int k = 0; k < 3; k++) {
            int i = (k + 1) % 3, j = (k + 2) % 3;
            t.gx[k] = (t.y[i] - t.y[j]) * inverse;
            t.gy[k] = (t.x[j] - t.x[i]) * inverse;
        }
        t.vertex[0] = a; t.vertex[1] = b; t.vertex[2] = c;
        t.corner[0] = corner_a; t.corner[1] = corner_b; t.corner[2] = corner_c;
        t.face = f;
        t.clipped = clipped;
        triangle_count++;
        return side;
    }

    // Computes the adjoints of vertices from those of the screen. Returns false if one is not finite.
    bool project_backward() {
        const int vertex_count = (int)job.vertex_count;
        T* out = job.vertices_adj + index * job.vertex_count * 3;
        for (int i = 0; i < 3 * vertex_count; i++) out[i] = 0;
        for (int m = 0; m < clip_count; m++) clip_vertex_backward(m, out);
        for (int v = 0; v < vertex_count; v++) {
            if (is_behind(v)) continue;
            T adj[3];
            project_vertex_backward(v, adj);
            for (int k = 0; k < 3; k++) out[3 * v + k] += adj[k];
        }
        T zero = 0;  // or NaN
        for (int i = 0; i < 3 * vertex_count; i++) zero += 0 * out[i];
        return zero == 0;
    }

    // Passes the adjoints of a clip vertex and its attributes on to both ends of the clipped edge.
    void clip_vertex_backward(int m, T* out) {
        const ClipVertex<T>& c = clip_vertices[m];
        T adj[3], t_adj = 0;
        project_vertex_backward((int)job.vertex_count + m, adj);
        const T *p = vertices + 3 * c.a, *q = vertices + 3 * c.b;
        for (int k = 0; k < 3; k++) t_adj += adj[k] * (q[k] - p[k]);
        const T *a = attribute(c.corner_a), *b = attribute(c.corner_b), *g = clip_attributes_adj + m * A;
        T *a_adj = attribute_adj(c.corner_a), *b_adj = attribute_adj(c.corner_b);
        for (int k = 0; k < A; k++) {
            a_adj[k] += (1 - c.t) * g[k];
            b_adj[k] += c.t * g[k];
            t_adj += g[k] * (b[k] - a[k]);
        }
        for (int k = 0; k < 3; k++) {
            out[3 * c.a + k] += (1 - c.t) * adj[k];
            out[3 * c.b + k] += c.t * adj[k];
        }
        out[3 * c.a + 2] += t_adj * (1 - c.t) / c.depth_span;
        out[3 * c.b + 2] += t_adj * c.t / c.depth_span;
    }

    void project_vertex_backward(int v, T* adj) const {
        const T *s = screen + 3 * v, *g = screen_adj + 3 * v;
        adj[0] = g[0] * s[2];
        adj[1] = g[1] * s[2];
        adj[2] = -(g[0] * s[0] + g[1] * s[1] + g[2] * s[2]) * s[2];
    }
};

}  // namespace gradsim
