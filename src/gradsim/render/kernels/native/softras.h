// SoftRas (Liu et al. 2019): every face has a blurred boundary, and all faces of a pixel are blended by depth.
//
// Faces are processed one after another, each row by row, and a pixel keeps a running softmax: any number of faces may
// overlap there and none is sorted or stored. A face contributes to a pixel
//
//     D = sigmoid(s),  s = +- d^2 / sigma,  d the distance to its boundary, + inside,
//     e = exp(-z / (gamma (far - near))),   z its depth at clamped barycentric coordinates,
//
// colour = sum(D e c) / sum(D e) over faces and background, coverage = 1 - prod(1 - D). D is reduced by `cut` and
// rescaled, so that it ends continuously at a finite distance.
#pragma once
#include "boundary_distance.h"
#include "sample_lanes.h"

namespace gradsim {

template <class T> struct SoftOptions {
    T sharpness;          // 1 / sigma [1/px^2]
    T depth_scale;        // 1 / (gamma (far - near)) [1/m]
    T background_depth;   // [m]
    T limit, cut, scale;  // D = (sigmoid(s) - cut) * scale, which ends at s = -limit
    T margin;             // distance at which D ends [px]

    SoftOptions(const RasterJob<T>& job) {
        using namespace softras_option;
        const double half = 0.5 * job.height, sigma_px = job.options[sigma] * half * half;
        const double range = job.options[far] - job.near;
        limit = T(job.options[softras_option::limit]);
        cut = 1 / (1 + exponential(splat(limit))[0]);
        scale = 1 / (1 - cut);
        sharpness = T(1 / sigma_px);
        depth_scale = T(1 / (job.options[gamma] * range));
        background_depth = T(job.options[far] - 1e-3 * range);
        margin = square_root(T(sigma_px) * limit);
    }
};

// A triangle at the pixels of a row.
template <class T, int A> struct SoftRow {
    Lanes<T> barycentric[3];
    NearestPoint<T> nearest;
    Mask<T> inside, visible;
    Lanes<T> sigmoid, cover;
    Lanes<T> inverse;  // 1 / sum of clamped barycentric coordinates over depth
    Lanes<T> depth, weight[3];

    // Computes coverage and depth. Returns false if the triangle does not contribute to these pixels.
    LANES_MEMBER bool compute(const SoftOptions<T>& soft, const Boundary<T>& boundary, int x, int y) {
        const Triangle<T>& t = boundary.t;
        Lanes<T> px = centers<T>(x);
        T py = y + T(0.5);
        barycentric[1] = (px - t.x[1]) * t.gx[1] + ((py - t.y[1]) * t.gy[1] + 1);
        barycentric[2] = (px - t.x[2]) * t.gx[2] + ((py - t.y[2]) * t.gy[2] + 1);
        barycentric[0] = 1 - barycentric[1] - barycentric[2];
        nearest = boundary.nearest(px, py);
        inside = (barycentric[0] > 0) & (barycentric[1] > 0) & (barycentric[2] > 0);
        Lanes<T> s = (inside ? nearest.square : -nearest.square) * soft.sharpness;
        if (!any(s > -soft.limit)) return false;
        sigmoid = 1 / (1 + exponential(-s));
        cover = (sigmoid - soft.cut) * soft.scale;
        visible = cover > 0;
        Lanes<T> inv_w = Lanes<T>{}, sum = Lanes<T>{};
        for (int k = 0; k < 3; k++) {
            Lanes<T> c = larger(barycentric[k], Lanes<T>{});
            weight[k] = c * t.inv_w[k];
            sum += c;
            inv_w += weight[k];
        }
        inverse = 1 / inv_w;
        depth = sum * inverse;
        for (int k = 0; k < 3; k++) weight[k] *= inverse;
        return true;
    }

    LANES_MEMBER void interpolate(const T* const* corner, Lanes<T>* attribute) const {
        for (int i = 0; i < A; i++)
            attribute[i] = weight[0] * corner[0][i] + weight[1] * corner[1][i] + weight[2] * corner[2][i];
    }
};

// Calls visit(row, x, y) for the pixels that a triangle contributes to.
template <class T, int A, class Visit>
LANES_INLINE void for_each_row(const Frame<T, A>& frame, const Triangle<T>& t, const SoftOptions<T>& soft,
                               Visit&& visit) {
    const Boundary<T> boundary(t, soft.margin, (int)frame.job.width, (int)frame.job.height);
    for (int y = boundary.top; y <= boundary.bottom; y++) {
        int from, to;
        boundary.span(y, from, to);
        for (int x = from; x <= to; x += LaneTypes<T>::width) {
            SoftRow<T, A> row;
            if (row.compute(soft, boundary, x, y)) visit(row, x, y);
        }
    }
}

namespace soft_forward {
enum { SUM, DEPTH, RED, GREEN, BLUE, TRANSMITTANCE, PLANES };  // SUM and colours are relative to exp at DEPTH
}

// Adds a triangle to the running softmax of its pixels.
template <class T, int A>
void blend(const Frame<T, A>& frame, const Triangle<T>& t, const SoftOptions<T>& soft,
           const Planes<T, soft_forward::PLANES>& planes) {
    using namespace soft_forward;
    const T* corner[3] = {frame.attribute(t.corner[0]), frame.attribute(t.corner[1]), frame.attribute(t.corner[2])};
    for_each_row(frame, t, soft, [&](const SoftRow<T, A>& row, int x, int y) LANES_LAMBDA {
        T *sum = planes.at(SUM, x, y), *depth = planes.at(DEPTH, x, y), *through = planes.at(TRANSMITTANCE, x, y);
        Lanes<T> before = load(depth), ahead = (before - row.depth) * soft.depth_scale;
        Mask<T> nearer = row.visible & (ahead > 0);
        Lanes<T> fade = exponential(ahead > 0 ? -ahead : ahead);  // of the faces so far, or of this one
        Lanes<T> old = nearer ? fade : splat(T(1)), now = nearer ? row.cover : row.cover * fade;
        now = row.visible ? now : Lanes<T>{};
        Lanes<T> attribute[A], color[3];
        row.interpolate(corner, attribute);
        shade(frame, t, now > 0, attribute, color);
        store(depth, nearer ? row.depth : before);
        store(sum, load(sum) * old + now);
        for (int k = 0; k < 3; k++) {
            T* channel = planes.at(RED + k, x, y);
            store(channel, load(channel) * old + now * color[k]);
        }
        store(through, load(through) * (row.visible ? 1 - row.cover : splat(T(1))));
    });
}

// Initializes the running softmax with the background.
template <class T>
void blend_background(const RasterJob<T>& job, const SoftOptions<T>& soft,
                      const Planes<T, soft_forward::PLANES>& planes) {
    using namespace soft_forward;
    const int height = (int)job.height, width = (int)job.width;
    const T* background = job.background + job.next_frame * job.background_frame_stride;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < planes.stride; x += LaneTypes<T>::width) {
            Lanes<T> color[4] = {splat(background[0]), splat(background[1]), splat(background[2])};
            if (job.background_pixel_stride && x < width)
                read_pixels(background + 3 * ((Int)y * width + x), 3, width - x, color);
            store(planes.at(SUM, x, y), splat(T(1)));
            store(planes.at(TRANSMITTANCE, x, y), splat(T(1)));
            store(planes.at(DEPTH, x, y), splat(soft.background_depth));
            for (int k = 0; k < 3; k++) store(planes.at(RED + k, x, y), color[k]);
        }
    }
}

template <class T>
void write_frame(RasterJob<T>& job, const SoftOptions<T>& soft, const Planes<T, soft_forward::PLANES>& planes) {
    using namespace soft_forward;
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x += LaneTypes<T>::width) {
            const Int pixel = (job.next_frame * height + y) * width + x;
            Lanes<T> depth = load(planes.at(DEPTH, x, y)), inverse = 1 / load(planes.at(SUM, x, y));
            Lanes<T> color[4], saved[4];
            saved[softras_saved::background_weight] =
                exponential((depth - soft.background_depth) * soft.depth_scale) * inverse;
            saved[softras_saved::depth] = depth;
            saved[softras_saved::inverse_sum] = inverse;
            saved[3] = Lanes<T>{};
            for (int k = 0; k < 3; k++) color[k] = load(planes.at(RED + k, x, y)) * inverse;
            color[3] = 1 - load(planes.at(TRANSMITTANCE, x, y));
            write_pixels(job.image + pixel * channels, channels, width - x, color);
            write_pixels(job.saved + pixel * softras_saved::count, softras_saved::count, width - x, saved);
        }
    }
}

template <class T, int A> void softras_forward(RasterJob<T>& job) {
    const SoftOptions<T> soft(job);
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next_frame, arena, false, soft.margin);
        Planes<T, soft_forward::PLANES> planes((int)job.height, (int)job.width, arena);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        blend_background(job, soft, planes);
        for (int i = 0; i < frame.triangle_count; i++) blend(frame, frame.triangles[i], soft, planes);
        write_frame(job, soft, planes);
    }
}

namespace soft_backward {
enum { DEPTH, INVERSE_SUM, RED, GREEN, BLUE, MEAN, TRANSMITTANCE, PLANES };
// RED to BLUE: adjoint of the colour; MEAN: adjoint . colour; TRANSMITTANCE: adjoint of the coverage * transmittance
}

template <class T, int A>
void blend_backward(const Frame<T, A>& frame, const Triangle<T>& t, const SoftOptions<T>& soft,
                    const Planes<T, soft_backward::PLANES>& planes) {
    using namespace soft_backward;
    const T* corner[3] = {frame.attribute(t.corner[0]), frame.attribute(t.corner[1]), frame.attribute(t.corner[2])};
    TriangleAdjointLanes<T, A> out;
    Lanes<T> *screen_adj = out.sum, *corner_adj = out.sum + 9;
    for_each_row(frame, t, soft, [&](const SoftRow<T, A>& row, int x, int y) LANES_LAMBDA {
        Lanes<T> fade = exponential((load(planes.at(DEPTH, x, y)) - row.depth) * soft.depth_scale);
        fade *= load(planes.at(INVERSE_SUM, x, y));
        Lanes<T> weight = row.visible ? fade * row.cover : Lanes<T>{};
        Lanes<T> attribute[A], attribute_adj[A], adj[3];
        for (int k = 0; k < 3; k++) adj[k] = load(planes.at(RED + k, x, y));
        row.interpolate(corner, attribute);
        Lanes<T> value = shade_backward(frame, t, weight > 0, attribute, adj, weight, attribute_adj);
        Lanes<T> gain = value - load(planes.at(MEAN, x, y));

        // Through the distance: the coverage and the weight of the colour.
        Lanes<T> slope = row.sigmoid * (1 - row.sigmoid) * soft.scale;
        Lanes<T> s_adj = load(planes.at(TRANSMITTANCE, x, y)) * row.sigmoid + fade * gain * slope;
        Lanes<T> pull = row.visible ? s_adj * (2 * soft.sharpness) : Lanes<T>{};
        pull = row.inside ? -pull : pull;

        // Through depth and barycentric coordinates: the gain of a corner over the interpolated value.
        Lanes<T> mean = Lanes<T>{}, depth_gain = gain * soft.depth_scale, x_adj = Lanes<T>{}, y_adj = Lanes<T>{};
        for (int i = 0; i < A; i++) mean += attribute_adj[i] * attribute[i];
        Lanes<T> scale = weight * row.inverse;
        for (int k = 0; k < 3; k++) {
            Lanes<T> corner_gain = depth_gain * row.depth - mean;
            for (int i = 0; i < A; i++) corner_gain += attribute_adj[i] * corner[k][i];
            Lanes<T> c = larger(row.barycentric[k], Lanes<T>{});
            Lanes<T> c_adj = (corner_gain * t.inv_w[k] - depth_gain) * scale;
            c_adj = row.barycentric[k] > 0 ? c_adj : Lanes<T>{};
            x_adj += c_adj * t.gx[k];
            y_adj += c_adj * t.gy[k];
            screen_adj[3 * k + 2] += corner_gain * scale * c;
            for (int i = 0; i < A; i++) corner_adj[k * A + i] += weight * row.weight[k] * attribute_adj[i];
        }
        for (int k = 0; k < 3; k++) {
            Lanes<T> vertex_pull = pull * row.nearest.weight[k];
            screen_adj[3 * k] += vertex_pull * row.nearest.dx - row.barycentric[k] * x_adj;
            screen_adj[3 * k + 1] += vertex_pull * row.nearest.dy - row.barycentric[k] * y_adj;
        }
    });
    out.scatter(frame, t);
}

// Reads the adjoint of the image and the saved values.
template <class T> void read_frame(const RasterJob<T>& job, const Planes<T, soft_backward::PLANES>& planes) {
    using namespace soft_backward;
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x += LaneTypes<T>::width) {
            const Int pixel = (job.next_frame * height + y) * width + x;
            Lanes<T> color[4], adj[4], saved[4];
            read_pixels(job.image + pixel * channels, channels, width - x, color);
            read_pixels(job.image_adj + pixel * channels, channels, width - x, adj);
            read_pixels(job.saved + pixel * softras_saved::count, softras_saved::count, width - x, saved);
            store(planes.at(DEPTH, x, y), saved[softras_saved::depth]);
            store(planes.at(INVERSE_SUM, x, y), saved[softras_saved::inverse_sum]);
            for (int k = 0; k < 3; k++) store(planes.at(RED + k, x, y), adj[k]);
            store(planes.at(MEAN, x, y), adj[0] * color[0] + adj[1] * color[1] + adj[2] * color[2]);
            store(planes.at(TRANSMITTANCE, x, y), channels == 4 ? adj[3] * (1 - color[3]) : Lanes<T>{});
        }
        for (int plane = 0; plane < PLANES; plane++)  // the padding has no adjoint
            for (int x = width; x < planes.stride; x++) *planes.at(plane, x, y) = 0;
    }
}

template <class T, int A> void softras_backward(RasterJob<T>& job) {
    const SoftOptions<T> soft(job);
    for (; has_next_frame(job); job.next_frame++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next_frame, arena, true, soft.margin);
        Planes<T, soft_backward::PLANES> planes((int)job.height, (int)job.width, arena);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return;
        }
        read_frame(job, planes);
        for (int i = 0; i < frame.triangle_count; i++) blend_backward(frame, frame.triangles[i], soft, planes);
        job.non_finite |= !frame.project_backward();
    }
}

}  // namespace gradsim
