// The parts of an image that differ from an image drawn before: all others are copied.
//
// A face has changed if a vertex or an attribute of it has, to the last bit. Pixels outside of the bounds of the changed
// faces, before and now, show the same faces as before, and their values do not depend on the window in which they are
// drawn.
#pragma once
#include "pixels.h"

namespace gradsim {

struct Windows {
    Window window[2];
    int count;
};

inline Int area(const Window& w) { return (Int)(w.right - w.left) * (w.bottom - w.top); }
inline Window united(const Window& a, const Window& b) {
    return {smaller(a.left, b.left), larger(a.right, b.right), smaller(a.top, b.top), larger(a.bottom, b.bottom)};
}

template <class T> struct Redraw {
    const RasterJob<T>& job;
    const Int now, before;      // frames
    unsigned char* is_changed;  // vertices, then rows of attributes

    Redraw(const RasterJob<T>& job, Arena& arena) : job(job), now(job.next_frame), before(job.drawn_frame) {
        is_changed = arena.template allocate<unsigned char>(2 * job.vertex_count + job.corner_count);
    }

    // The windows to draw; the whole image if there is nothing to copy or if copying saves nothing.
    Windows windows() const {
        const Window whole = {0, (int)job.width, 0, (int)job.height};
        const Windows everything = {{whole, whole}, 1};
        if (!job.copies || before < 0 || !has_same_background()) return everything;
        compare_rows(job.vertices, job.vertex_count, 3, job.vertex_count * 3, is_changed);
        compare_rows(job.attributes, job.corner_count, job.attribute_count, job.attribute_stride,
                     is_changed + 2 * job.vertex_count);
        if (!mark_changed_faces()) return everything;
        Window a, b;
        if (!bounds(before, a) || !bounds(now, b)) return everything;
        if (!area(a) && !area(b)) return {{whole, whole}, 0};
        const Window both = !area(a) ? b : !area(b) ? a : united(a, b);
        if (area(both) <= area(a) + area(b)) return {{both, both}, 1};
        return {{a, b}, 2};
    }

    // Copies the image of the frame before.
    void copy_image() const {
        const Int size = job.height * job.width * job.channels;
        __builtin_memcpy(job.image + now * size, job.image + before * size, size * sizeof(T));
    }

private:
    bool has_same_background() const {
        const Int stride = job.background_frame_stride;
        const Int size = job.background_pixel_stride ? job.height * job.width * 3 : 3;
        return !stride || !__builtin_memcmp(job.background + now * stride, job.background + before * stride,
                                            size * sizeof(T));
    }

    void compare_rows(const T* values, Int count, Int columns, Int frame_stride, unsigned char* changed) const {
        const T *a = values + now * frame_stride, *b = values + before * frame_stride;
        for (Int i = 0; i < count; i++) {
            bool same = true;
            for (Int k = 0; k < columns; k++) same &= a[i * columns + k] == b[i * columns + k];
            changed[i] = !same;
        }
    }

    // Marks all vertices of changed faces. Returns whether some face has not changed.
    bool mark_changed_faces() const {
        unsigned char *marked = is_changed + job.vertex_count, *attribute = marked + job.vertex_count;
        for (Int v = 0; v < job.vertex_count; v++) marked[v] = 0;
        bool some_same = false;
        for (Int f = 0; f < job.face_count; f++) {
            const int *v = job.faces + 3 * f, *c = job.corners + 3 * f;
            const bool changed = is_changed[v[0]] | is_changed[v[1]] | is_changed[v[2]] | attribute[c[0]] |
                                 attribute[c[1]] | attribute[c[2]];
            some_same |= !changed;
            for (int k = 0; changed && k < 3; k++) marked[v[k]] = 1;
        }
        return some_same;
    }

    // The window around the marked vertices at a frame, of whole vectors. Returns false if one is behind the camera.
    bool bounds(Int frame, Window& window) const {
        enum { lanes = LaneTypes<T>::width };
        const unsigned char* marked = is_changed + job.vertex_count;
        const T pad = T(1e-3);  // more than that of silhouettes [px]
        T left = T(job.width), right = 0, top = T(job.height), bottom = 0;
        for (Int v = 0; v < job.vertex_count; v++) {
            if (!marked[v]) continue;
            const T* p = job.vertices + (frame * job.vertex_count + v) * 3;
            if (!(p[2] >= T(job.near))) return false;
            const T x = p[0] / p[2], y = p[1] / p[2];
            left = smaller(left, x - pad); right = larger(right, x + pad);
            top = smaller(top, y - pad); bottom = larger(bottom, y + pad);
        }
        window = {left > 0 ? (int)left / lanes * lanes : 0, (int)job.width, top > 0 ? (int)top : 0, (int)job.height};
        if (right < job.width) window.right = smaller(((int)right / lanes + 1) * lanes, (int)job.width);
        if (bottom < job.height) window.bottom = (int)bottom + 1;
        if (!(right > 0 && bottom > 0 && left < job.width && top < job.height)) window = {0, 0, 0, 0};
        return true;
    }
};

}  // namespace gradsim
