// The example rasterizer of test_custom_rasterizer.py: every vertex of a triangle as a round spot.
#pragma once
#include "pixels.h"
#include "sample.h"

namespace gradsim {

// Calls visit(corner k, pixel, dx / width^2, dy / width^2, strength * exp(-d^2 / width^2)).
template <class T, class Visit> void for_each_spot(const RasterJob<T>& job, const Triangle<T>& t, Visit&& visit) {
    const T strength = T(job.options[splat_option::strength]), width = T(job.options[splat_option::width]);
    for (int k = 0; k < 3; k++)
        for (int y = 0; y < (int)job.height; y++)
            for (int x = 0; x < (int)job.width; x++) {
                const T dx = (x + T(0.5) - t.x[k]) / width, dy = (y + T(0.5) - t.y[k]) / width;
                const T spot = strength * exponential(splat(-dx * dx - dy * dy))[0];
                visit(k, (job.next_frame * job.height + y) * job.width + x, dx / width, dy / width, spot);
            }
}

template <class T, int A> void splat_forward(RasterJob<T>& job) {
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next_frame, arena, false);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        const Int pixels = job.height * job.width, first = job.next_frame * pixels;
        const T* background = job.background + job.next_frame * job.background_frame_stride;
        for (Int j = 0; j < pixels; j++) {
            if (job.saved) job.saved[(first + j) * splat_saved::count + splat_saved::background_weight] = 1;
            for (int c = 0; c < 3; c++)
                job.image[(first + j) * job.channels + c] = background[j * job.background_pixel_stride + c];
        }
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            for_each_spot(job, t, [&](int k, Int pixel, T, T, T spot) {
                for (int c = 0; c < 3; c++)
                    job.image[pixel * job.channels + c] += spot * frame.attribute(t.corner[k])[c];
            });
        }
    }
}

template <class T, int A> void splat_backward(RasterJob<T>& job) {
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next_frame, arena, true);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            TriangleAdjoint<T, A> adj;
            for_each_spot(job, t, [&](int k, Int pixel, T dx, T dy, T spot) {
                const T *color = frame.attribute(t.corner[k]), *g = job.image_adj + pixel * job.channels;
                const T pull = 2 * spot * (g[0] * color[0] + g[1] * color[1] + g[2] * color[2]);
                adj.screen[3 * k] += pull * dx;
                adj.screen[3 * k + 1] += pull * dy;
                for (int c = 0; c < 3; c++) adj.attribute[k][c] += spot * g[c];
            });
            adj.scatter(frame, t);
        }
        job.non_finite |= !frame.project_backward();
    }
}

}  // namespace gradsim
