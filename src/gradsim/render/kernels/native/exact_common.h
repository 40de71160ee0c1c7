// What the forward and the backward of exact visible area share: how pixels are drawn.
#pragma once
#include "surface.h"

namespace gradsim {

// A pixel's owner is 8 (triangle that covers it wholly and is closest + 1) + how it is drawn:
constexpr int PLAIN = 0;    // by its owner or as background
constexpr int OUTLINE = 1;  // while the forward runs: an outline passes, so there may be several layers
constexpr int EDGED = 1;    // in the end: by one layer of triangles side by side before the background
constexpr int MOSAIC = 2;   // by one layer of triangles side by side, no matter where one ends and the next begins
constexpr int LAYERED = 3;  // by the triangles listed for it, before its owner
constexpr int UNOWNED = 4;  // flag: several that cover it pierce each other, all are listed and the owner is none

template <class T, int A> struct Exact {
    Job<T>& job;
    Frame<T, A>& frame;
    const int height, width, pixels;
    int* kept_owner;  // of each pixel, for the backward
    const T* background;

    Exact(Job<T>& job, Frame<T, A>& frame)
        : job(job), frame(frame), height((int)job.height), width((int)job.width), pixels(height * width) {
        kept_owner = job.owners + frame.frame * pixels;
        background = job.background + frame.frame * job.background_frame_stride;
    }

    inline const T* behind(int j) const { return background + j * job.background_pixel_stride; }
    inline const Triangle<T>* covering(int own) const {
        int t = (own >> 3) - 1;
        return t < 0 || own & UNOWNED ? nullptr : frame.triangles + t;
    }
};

}  // namespace gradsim
