// Data that the forward and the backward pass of exact visible area share.
#pragma once
#include "sample.h"

namespace gradsim {

// An integer a pixel: (nearest triangle that covers it fully + 1) << FRONT_SHIFT, a flag, and the kind of the pixel.
// Kind 0 shows the front triangle or the background only.
constexpr int FRONT_SHIFT = 3;
constexpr int FLAGS = 7, KIND = 3;     // bits
constexpr int SILHOUETTE = 1;          // kind while the forward runs: a silhouette crosses, there may be many layers
constexpr int SINGLE_LAYER_EDGE = 1;   // final kind: one layer of triangles that do not overlap, and background
constexpr int SINGLE_LAYER = 2;        // one layer of triangles that do not overlap covers the pixel
constexpr int MULTI_LAYER = 3;         // listed triangles, which may overlap, and the front triangle
constexpr int INTERSECTING_FRONT = 4;  // flag: triangles that cover the pixel fully intersect; all are listed

constexpr int front_code(int triangle) { return (triangle + 1) << FRONT_SHIFT; }

template <class T, int A> struct Exact {
    RasterJob<T>& job;
    Frame<T, A>& frame;
    const int height, width, pixel_count;
    const Window window;
    int* saved_front;  // integers of this frame's pixels
    const T* background;

    Exact(RasterJob<T>& job, Frame<T, A>& frame)
        : job(job), frame(frame), height((int)job.height), width((int)job.width), pixel_count(height * width),
          window(frame.window) {
        saved_front = job.front_triangle + frame.index * pixel_count;
        background = job.background + frame.index * job.background_frame_stride;
    }

    inline const T* background_at(int j) const { return background + j * job.background_pixel_stride; }
    // The triangle that covers a pixel fully and hides all others; null for none.
    inline const Triangle<T>* front_triangle(int code) const {
        int t = (code >> FRONT_SHIFT) - 1;
        return t < 0 || code & INTERSECTING_FRONT ? nullptr : frame.triangles + t;
    }
};

// The list of a frame: the number of multi-layer pixels; for each the pixel, ~ if its triangles form full layers, and
// where its triangles begin; where they end; the triangles of all.
struct LayerList {
    const int* list;
    LayerList(const int* list) : list(list) {}

    int pixel_count() const { return list[0]; }
    int pixel(int i) const { return larger(list[1 + 2 * i], ~list[1 + 2 * i]); }
    bool full_layers(int i) const { return list[1 + 2 * i] < 0; }
    const int* triangles(int i) const { return list + list[2 + 2 * i]; }
    int triangle_count(int i) const { return end(i) - list[2 + 2 * i]; }
    int end(int i) const { return i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i]; }

    static int header_size(int pixels) { return 2 + 2 * pixels; }
};

}  // namespace gradsim
