// Images by exact visible area: a pixel is the mean of what is seen through it, and its gradient the integral of colour
// differences along moving outlines. A piece of a triangle in a pixel counts area * colour(centroid).
#pragma once
#include "exact_backward.h"
#include "exact_forward.h"

namespace gradsim {

template <class T, int A> void exact_forward(Job<T>& job) {
    for (; job.more(); job.next++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, false);
        ExactForward<T, A> exact(job, frame, arena);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        if (!exact.draw(arena)) return;
    }
}

template <class T, int A> void exact_backward(Job<T>& job) {
    for (; job.more(); job.next++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, true);
        const int* list = job.lists[job.next];
        int most_fragments = 0;
        for (int i = 0; i < list[0]; i++) {
            int end = i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i];
            most_fragments = larger(most_fragments, end - list[2 + 2 * i]);
        }
        Pixel<T> pixel(arena, most_fragments);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        ExactBackward<T, A> exact(job, frame);
        exact.mosaics();
        exact.layers(pixel);
        job.broken |= !frame.retreat();
    }
}

}  // namespace gradsim
