// DIB-R (Chen et al. 2019): the nearest face at each pixel's centre, and a halo of coverage around all faces.
//
// Where a face covers the centre, the colour is that of the nearest face and the coverage is one. Elsewhere the colour
// is the background and the coverage 1 - prod(1 - P) with P = exp(-d^2 / sigma), d the distance to a face's boundary. P
// is reduced by `cut` and rescaled, so that it ends continuously at a finite distance.
#pragma once
#include "boundary_distance.h"
#include "sample.h"

namespace gradsim {

template <class T> struct HaloOptions {
    T sharpness;   // 1 / sigma [1/px^2]
    T cut, scale;  // P = (exp(..) - cut) * scale
    T margin;      // distance at which P ends [px]

    HaloOptions(const RasterJob<T>& job) {
        const double half = 0.5 * job.height, sigma = job.options[dibr_option::sigma] * half * half;
        const T limit = T(job.options[dibr_option::limit]);
        cut = exponential(splat(-limit))[0];
        scale = 1 / (1 - cut);
        sharpness = T(1 / sigma);
        margin = square_root(T(sigma) * limit);
    }
};

// The nearest face at each pixel's centre.
template <class T> struct ZBuffer {
    Planes<T, 1> inv_w;      // 0 where there is no face
    Planes<int, 1> nearest;  // triangle + 1; 0 where there is none

    ZBuffer(int height, int width, Arena& arena) : inv_w(height, width, arena), nearest(height, width, arena) {}

    void clear(int height) {
        for (Int i = 0; i < height * inv_w.stride; i++) inv_w.base[i] = 0;
        for (Int i = 0; i < height * nearest.stride; i++) nearest.base[i] = 0;
    }

    void draw(const Triangle<T>& t, int number, int width, int height) {
        const Boundary<T> boundary(t, 0, width, height);
        for (int y = boundary.top; y <= boundary.bottom; y++) {
            int from, to;
            boundary.span(y, from, to);
            for (int x = from; x <= to; x += LaneTypes<T>::width) {
                Lanes<T> px = centers<T>(x);
                T py = y + T(0.5);
                Lanes<T> b = (px - t.x[1]) * t.gx[1] + ((py - t.y[1]) * t.gy[1] + 1);
                Lanes<T> c = (px - t.x[2]) * t.gx[2] + ((py - t.y[2]) * t.gy[2] + 1);
                Lanes<T> here = (1 - b - c) * t.inv_w[0] + b * t.inv_w[1] + c * t.inv_w[2];
                Lanes<T> before = load(inv_w.at(0, x, y));
                Mask<T> nearer = (b >= 0) & (c >= 0) & (b + c <= 1) & (here > before);
                if (!any(nearer)) continue;
                store(inv_w.at(0, x, y), nearer ? here : before);
                Index<T> old = load_as<Index<T>>(nearest.at(0, x, y)), mask = __builtin_convertvector(nearer, Index<T>);
                store(nearest.at(0, x, y), (mask & number) | (~mask & old));
            }
        }
    }
};

// A summed-area table: how many pixels of a rectangle satisfy a condition.
struct SummedAreaTable {
    int* base;
    int stride;

    SummedAreaTable(int height, int width, Arena& arena) : stride(width + 1) {
        base = arena.allocate<int>((Int)(height + 1) * stride);
    }

    template <class Condition> void build(int height, Condition condition) {
        for (int x = 0; x < stride; x++) base[x] = 0;
        for (int y = 0; y < height; y++) {
            int row = 0, *sum = base + (Int)(y + 1) * stride;
            sum[0] = 0;
            for (int x = 1; x < stride; x++) sum[x] = sum[x - stride] + (row += condition(x - 1, y));
        }
    }
    // Whether no pixel near a triangle does.
    template <class T> bool is_empty(const Boundary<T>& o) const {
        if (o.left > o.right || o.top > o.bottom) return true;
        const int *above = base + (Int)o.top * stride, *below = base + (Int)(o.bottom + 1) * stride;
        return below[o.right + 1] - below[o.left] - above[o.right + 1] + above[o.left] == 0;
    }
};

// Multiplies the transmittance by that of a triangle's halo, in pixels that no face covers.
template <class T>
void add_halo(const Triangle<T>& t, const HaloOptions<T>& halo, const SummedAreaTable& uncovered,
              const Planes<int, 1>& nearest, const Planes<T, 1>& transmittance, int width, int height) {
    const Boundary<T> boundary(t, halo.margin, width, height);
    if (uncovered.is_empty(boundary)) return;
    for (int y = boundary.top; y <= boundary.bottom; y++) {
        int from, to;
        boundary.span(y, from, to);
        for (int x = from; x <= to; x += LaneTypes<T>::width) {
            Index<T> covered = load_as<Index<T>>(nearest.at(0, x, y));
            Mask<T> open = widened<T>(covered) == 0;
            if (!any(open)) continue;
            Lanes<T> square = boundary.nearest(centers<T>(x), y + T(0.5)).square;
            Lanes<T> cover = (exponential(-square * halo.sharpness) - halo.cut) * halo.scale;
            T* through = transmittance.at(0, x, y);
            store(through, load(through) * ((open & (cover > 0)) ? 1 - cover : splat(T(1))));
        }
    }
}

template <class T, int A>
void write_frame(RasterJob<T>& job, const Frame<T, A>& frame, const ZBuffer<T>& zbuffer,
                 const Planes<T, 1>& transmittance) {
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    const T* background = job.background + frame.index * job.background_frame_stride;
    Int pixel = frame.index * height * width;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, pixel++, background += job.background_pixel_stride) {
            const int number = *zbuffer.nearest.at(0, x, y);
            const T through = number ? T(0) : *transmittance.at(0, x, y);
            T *image = job.image + pixel * channels, *saved = job.saved + pixel * dibr_saved::count;
            Sample<T, A> sample;
            if (number)
                sample.evaluate(ShadedTriangle<T, A>(frame, frame.triangles[number - 1]), x + T(0.5), y + T(0.5));
            for (int k = 0; k < 3; k++) image[k] = number ? sample.color[k] : background[k];
            if (channels == 4) image[3] = 1 - through;
            job.front_triangle[pixel] = number;
            saved[dibr_saved::background_weight] = number ? 0 : 1;
            saved[dibr_saved::transmittance] = through;
        }
    }
}

template <class T, int A> void dibr_forward(RasterJob<T>& job) {
    const HaloOptions<T> halo(job);
    const int height = (int)job.height, width = (int)job.width;
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next_frame, arena, false, halo.margin);
        ZBuffer<T> zbuffer(height, width, arena);
        Planes<T, 1> transmittance(height, width, arena);
        SummedAreaTable uncovered(height, width, arena);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        zbuffer.clear(height);
        for (Int i = 0; i < height * transmittance.stride; i++) transmittance.base[i] = 1;
        for (int i = 0; i < frame.triangle_count; i++) zbuffer.draw(frame.triangles[i], i + 1, width, height);
        uncovered.build(height, [&](int x, int y) { return *zbuffer.nearest.at(0, x, y) == 0; });
        for (int i = 0; i < frame.triangle_count; i++)
            add_halo(frame.triangles[i], halo, uncovered, zbuffer.nearest, transmittance, width, height);
        write_frame(job, frame, zbuffer, transmittance);
    }
}

// `weight` is the adjoint of the coverage times the transmittance, `weighted` counts pixels where it is not zero.
template <class T, int A>
void halo_backward(const Frame<T, A>& frame, const Triangle<T>& t, const HaloOptions<T>& halo,
                   const SummedAreaTable& weighted, const Planes<T, 1>& weight) {
    const Boundary<T> boundary(t, halo.margin, (int)frame.job.width, (int)frame.job.height);
    if (weighted.is_empty(boundary)) return;
    Lanes<T> vertex_adj[6] = {};  // x, then y of each vertex
    bool touched = false;
    for (int y = boundary.top; y <= boundary.bottom; y++) {
        int from, to;
        boundary.span(y, from, to);
        for (int x = from; x <= to; x += LaneTypes<T>::width) {
            Lanes<T> adj = load(weight.at(0, x, y));
            if (!any(adj != 0)) continue;
            NearestPoint<T> nearest = boundary.nearest(centers<T>(x), y + T(0.5));
            Lanes<T> fade = exponential(-nearest.square * halo.sharpness), cover = (fade - halo.cut) * halo.scale;
            Lanes<T> pull = adj * fade * (2 * halo.sharpness * halo.scale) / larger(1 - cover, splat(Epsilon<T>::area));
            pull = cover > 0 ? pull : Lanes<T>{};
            for (int k = 0; k < 3; k++) {
                vertex_adj[k] += pull * nearest.weight[k] * nearest.dx;
                vertex_adj[3 + k] += pull * nearest.weight[k] * nearest.dy;
            }
            touched = true;
        }
    }
    if (!touched) return;
    Lanes<T> sum = lane_sums<T>(vertex_adj, 0, 6);
    for (int k = 0; k < 3; k++) {
        T* adj = frame.screen_adj + 3 * t.vertex[k];
        adj[0] += sum[k];
        adj[1] += sum[3 + k];
    }
}

// Adds the adjoints of the colours, in runs of pixels that show the same triangle.
template <class T, int A> void color_backward(const Frame<T, A>& frame, const int* front, const T* image_adj) {
    const int height = (int)frame.job.height, width = (int)frame.job.width, channels = (int)frame.job.channels;
    for (int y = 0; y < height; y++, front += width, image_adj += (Int)width * channels) {
        for (int x = 0; x < width;) {
            const int number = front[x];
            int end = x + 1;
            while (end < width && front[end] == number) end++;
            if (number) {
                const Triangle<T>& t = frame.triangles[number - 1];
                const ShadedTriangle<T, A> shaded(frame, t);
                TriangleAdjoint<T, A> out;
                for (int i = x; i < end; i++)
                    sample_backward(shaded, T(1), i + T(0.5), y + T(0.5), image_adj + i * channels, out);
                out.scatter(frame, t);
            }
            x = end;
        }
    }
}

template <class T, int A> void dibr_backward(RasterJob<T>& job) {
    const HaloOptions<T> halo(job);
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next_frame, arena, true, halo.margin);
        Planes<T, 1> weight(height, width, arena);
        SummedAreaTable weighted(height, width, arena);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        const Int first = job.next_frame * height * width;
        const T* image_adj = job.image_adj + first * channels;
        color_backward(frame, job.front_triangle + first, image_adj);
        if (channels == 4) {
            const T* saved = job.saved + first * dibr_saved::count;
            for (int y = 0; y < height; y++) {
                for (int x = 0; x < width; x++, saved += dibr_saved::count, image_adj += 4)
                    *weight.at(0, x, y) = image_adj[3] * saved[dibr_saved::transmittance];
                for (int x = width; x < weight.stride; x++) *weight.at(0, x, y) = 0;
            }
            weighted.build(height, [&](int x, int y) { return *weight.at(0, x, y) != 0; });
            for (int i = 0; i < frame.triangle_count; i++)
                halo_backward(frame, frame.triangles[i], halo, weighted, weight);
        }
        job.non_finite |= !frame.project_backward();
    }
}

}  // namespace gradsim
