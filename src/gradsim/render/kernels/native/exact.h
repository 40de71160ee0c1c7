// Images by exact visible area: a pixel is the mean of the visible colours, and its gradient the integral of colour
// differences along moving edges. A piece of a triangle in a pixel contributes area * colour(centroid).
#pragma once
#include "exact_backward.h"
#include "exact_forward.h"
#include "redraw.h"

namespace gradsim {

// Draws a part of the next frame. Returns false if that needs more memory, which the job then requests.
template <class T, int A> bool draw_window(RasterJob<T>& job, Arena arena, const Window& window) {
    Frame<T, A> frame(job, job.next_frame, arena, false, 0, window);
    ExactForward<T, A> exact(job, frame, arena);
    if (!arena.fits()) {
        job.scratch_needed = arena.used;
        return false;
    }
    return exact.draw(arena);
}

template <class T, int A> void exact_forward(RasterJob<T>& job) {
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        const Redraw<T> redraw(job, arena);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        const Windows windows = redraw.windows();
        if (windows.count != 1 || area(windows.window[0]) < job.height * job.width) redraw.copy_image();
        for (int k = 0; k < windows.count; k++)
            if (!draw_window<T, A>(job, arena, windows.window[k])) return;
        job.drawn_frame = job.next_frame;
    }
}

template <class T, int A> void exact_backward(RasterJob<T>& job) {
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next_frame, arena, true);
        const LayerList list(job.lists[job.next_frame]);
        int max_fragments = 0;
        for (int i = 0; i < list.pixel_count(); i++) max_fragments = larger(max_fragments, list.triangle_count(i));
        PixelVisibility<T> visibility(arena, max_fragments);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        ExactBackward<T, A> exact(job, frame);
        exact.single_layer_backward();
        exact.multi_layer_backward(visibility);
        job.non_finite |= !frame.project_backward();
    }
}

}  // namespace gradsim
