// DIB-R (Chen et al. 2019): the nearest face at each pixel's centre, and around all faces a halo of coverage.
//
// Where a face covers the centre, the colour is the nearest face's and the coverage is one. Elsewhere the colour is the
// background's and the coverage 1 - prod(1 - P) with P = exp(-d^2 / sigma), d the distance to a face's outline. P is
// lowered by `cut` and stretched back to one, so that it ends at a finite distance without a jump.
#pragma once
#include "outline.h"
#include "surface.h"

namespace gradsim {

template <class T> struct HaloOptions {
    T sharpness;  // 1 / sigma [1/px^2]
    T reach, cut, stretch;
    T margin;  // distance at which P ends [px]

    HaloOptions(const Job<T>& job) {
        const double half = 0.5 * job.height, sigma = job.options[0] * half * half;
        reach = T(job.options[1]);
        cut = exponential(splat(-reach))[0];
        stretch = 1 / (1 - cut);
        sharpness = T(1 / sigma);
        margin = square_root(T(sigma) * reach);
    }
};

// The nearest face at each pixel's centre.
template <class T> struct Foreground {
    Planes<T, 1> depth;    // 1 / w; zero where there is no face
    Planes<int, 1> owner;  // number of the triangle + 1

    Foreground(int height, int width, Arena& arena) : depth(height, width, arena), owner(height, width, arena) {}

    void clear(int height) {
        for (Int i = 0; i < height * depth.stride; i++) depth.base[i] = 0;
        for (Int i = 0; i < height * owner.stride; i++) owner.base[i] = 0;
    }

    void add(const Triangle<T>& t, int number, int width, int height) {
        const Outline<T> outline(t, 0, width, height);
        for (int y = outline.top; y <= outline.bottom; y++) {
            int from, to;
            outline.span(y, from, to);
            for (int x = from; x <= to; x += LaneTypes<T>::width) {
                Lanes<T> px = centers<T>(x);
                T py = y + T(0.5);
                Lanes<T> b = (px - t.x[1]) * t.gx[1] + ((py - t.y[1]) * t.gy[1] + 1);
                Lanes<T> c = (px - t.x[2]) * t.gx[2] + ((py - t.y[2]) * t.gy[2] + 1);
                Lanes<T> here = (1 - b - c) * t.depth[0] + b * t.depth[1] + c * t.depth[2];
                Lanes<T> there = load(depth.at(0, x, y));
                Mask<T> nearer = (b >= 0) & (c >= 0) & (b + c <= 1) & (here > there);
                if (!any(nearer)) continue;
                store(depth.at(0, x, y), nearer ? here : there);
                Index<T> old = load_as<Index<T>>(owner.at(0, x, y)), mask = __builtin_convertvector(nearer, Index<T>);
                store(owner.at(0, x, y), (mask & number) | (~mask & old));
            }
        }
    }
};

// How many pixels of a rectangle matter, told at once: sums over all pixels above and to the left.
struct Count {
    int* base;
    int stride;

    Count(int height, int width, Arena& arena) : stride(width + 1) {
        base = arena.take<int>((Int)(height + 1) * stride);
    }

    template <class Matters> void build(int height, Matters matters) {
        for (int x = 0; x < stride; x++) base[x] = 0;
        for (int y = 0; y < height; y++) {
            int row = 0, *sum = base + (Int)(y + 1) * stride;
            sum[0] = 0;
            for (int x = 1; x < stride; x++) sum[x] = sum[x - stride] + (row += matters(x - 1, y));
        }
    }
    template <class T> bool none(const Outline<T>& o) const {
        if (o.left > o.right || o.top > o.bottom) return true;
        const int *above = base + (Int)o.top * stride, *below = base + (Int)(o.bottom + 1) * stride;
        return below[o.right + 1] - below[o.left] - above[o.right + 1] + above[o.left] == 0;
    }
};

// Adds a triangle's halo where no face covers the pixel.
template <class T>
void add_halo(const Triangle<T>& t, const HaloOptions<T>& halo, const Count& open_count, const Planes<int, 1>& owner,
              const Planes<T, 1>& clear, int width, int height) {
    const Outline<T> outline(t, halo.margin, width, height);
    if (open_count.none(outline)) return;
    for (int y = outline.top; y <= outline.bottom; y++) {
        int from, to;
        outline.span(y, from, to);
        for (int x = from; x <= to; x += LaneTypes<T>::width) {
            Index<T> covered = load_as<Index<T>>(owner.at(0, x, y));
            Mask<T> open = __builtin_convertvector(covered, Mask<T>) == 0;
            if (!any(open)) continue;
            Lanes<T> square = outline.nearest(centers<T>(x), y + T(0.5)).square;
            Lanes<T> cover = (exponential(-square * halo.sharpness) - halo.cut) * halo.stretch;
            T* left = clear.at(0, x, y);
            store(left, load(left) * ((open & (cover > 0)) ? 1 - cover : splat(T(1))));
        }
    }
}

template <class T, int A> void dibr_forward(Job<T>& job) {
    const HaloOptions<T> halo(job);
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    for (; job.more(); job.next++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, false, halo.margin);
        Foreground<T> front(height, width, arena);
        Planes<T, 1> clear(height, width, arena);
        Count open(height, width, arena);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        front.clear(height);
        for (Int i = 0; i < height * clear.stride; i++) clear.base[i] = 1;
        for (int i = 0; i < frame.triangle_count; i++) front.add(frame.triangles[i], i + 1, width, height);
        open.build(height, [&](int x, int y) { return *front.owner.at(0, x, y) == 0; });
        for (int i = 0; i < frame.triangle_count; i++)
            add_halo(frame.triangles[i], halo, open, front.owner, clear, width, height);

        const T* background = job.background + job.next * job.background_frame_stride;
        Int pixel = job.next * height * width;
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++, pixel++, background += job.background_pixel_stride) {
                const int owner = *front.owner.at(0, x, y);
                const T through = owner ? T(0) : *clear.at(0, x, y);
                T* image = job.image + pixel * channels;
                Seen<T, A> seen;
                if (owner) seen.look(Surface<T, A>(frame, frame.triangles[owner - 1]), x + T(0.5), y + T(0.5));
                for (int k = 0; k < 3; k++) image[k] = owner ? seen.color[k] : background[k];
                if (channels == 4) image[3] = 1 - through;
                job.owners[pixel] = owner;
                job.kept[2 * pixel] = owner ? 0 : 1;
                job.kept[2 * pixel + 1] = through;
            }
        }
    }
}

// `weight` is the adjoint of the coverage times what shines through; zero where a face covers the pixel.
template <class T, int A>
void add_halo_adjoint(const Frame<T, A>& frame, const Triangle<T>& t, const HaloOptions<T>& halo,
                      const Count& weighty, const Planes<T, 1>& weight) {
    const Outline<T> outline(t, halo.margin, (int)frame.job.width, (int)frame.job.height);
    if (weighty.none(outline)) return;
    Lanes<T> place_adj[6] = {};  // x, y of each vertex
    bool touched = false;
    for (int y = outline.top; y <= outline.bottom; y++) {
        int from, to;
        outline.span(y, from, to);
        for (int x = from; x <= to; x += LaneTypes<T>::width) {
            Lanes<T> adj = load(weight.at(0, x, y));
            if (!any(adj != 0)) continue;
            Nearest<T> nearest = outline.nearest(centers<T>(x), y + T(0.5));
            Lanes<T> fade = exponential(-nearest.square * halo.sharpness), cover = (fade - halo.cut) * halo.stretch;
            Lanes<T> push = adj * fade * (2 * halo.sharpness * halo.stretch) / larger(1 - cover, splat(Tiny<T>::area));
            push = cover > 0 ? push : Lanes<T>{};
            for (int k = 0; k < 3; k++) {
                place_adj[k] += push * nearest.share[k] * nearest.dx;
                place_adj[3 + k] += push * nearest.share[k] * nearest.dy;
            }
            touched = true;
        }
    }
    if (!touched) return;
    Lanes<T> sum = totals<T>(place_adj, 0, 6);
    for (int k = 0; k < 3; k++) {
        T* adj = frame.screen_adj + 3 * t.vertex[k];
        adj[0] += sum[k];
        adj[1] += sum[3 + k];
    }
}

// Through the colours of the faces, in runs of pixels with the same one.
template <class T, int A> void color_adjoint(const Frame<T, A>& frame, const int* owners, const T* image_adj) {
    const int height = (int)frame.job.height, width = (int)frame.job.width, channels = (int)frame.job.channels;
    for (int y = 0; y < height; y++, owners += width, image_adj += (Int)width * channels) {
        for (int x = 0; x < width;) {
            const int owner = owners[x];
            int end = x + 1;
            while (end < width && owners[end] == owner) end++;
            if (owner) {
                const Triangle<T>& t = frame.triangles[owner - 1];
                TriangleAdjoint<T, A> out;
                for (int i = x; i < end; i++)
                    look_adjoint(Surface<T, A>(frame, t), T(1), i + T(0.5), y + T(0.5), image_adj + i * channels, out);
                out.spread(frame, t);
            }
            x = end;
        }
    }
}

template <class T, int A> void dibr_backward(Job<T>& job) {
    const HaloOptions<T> halo(job);
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    for (; job.more(); job.next++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, true, halo.margin);
        Planes<T, 1> weight(height, width, arena);
        Count weighty(height, width, arena);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        const Int first = job.next * height * width;
        const T* image_adj = job.image_adj + first * channels;
        color_adjoint(frame, job.owners + first, image_adj);
        if (channels == 4) {
            const T* through = job.kept + 2 * first + 1;
            for (int y = 0; y < height; y++) {
                for (int x = 0; x < width; x++, through += 2, image_adj += 4)
                    *weight.at(0, x, y) = image_adj[3] * *through;
                for (int x = width; x < weight.stride; x++) *weight.at(0, x, y) = 0;
            }
            weighty.build(height, [&](int x, int y) { return *weight.at(0, x, y) != 0; });
            for (int i = 0; i < frame.triangle_count; i++)
                add_halo_adjoint(frame, frame.triangles[i], halo, weighty, weight);
        }
        job.broken |= !frame.retreat();
    }
}

}  // namespace gradsim
