// SoftRas (Liu et al. 2019): every face blurs over its outline, and all faces of a pixel blend by their depth.
//
// Faces are taken one after another, each row by row, and a pixel keeps a running softmax: any number of faces may meet
// there and none is sorted or stored. With a pixel's place held fixed a face contributes
//
//     D = sigmoid(s),  s = +- d^2 / sigma,  d the distance to its outline, + inside,
//     e = exp(-z / (gamma (far - near))),   z its depth at clamped barycentric coordinates,
//
// colour = sum(D e c) / sum(D e) over faces and background, coverage = 1 - prod(1 - D). D is lowered by `cut` and
// stretched back to one, so that it ends at a finite distance without a jump.
#pragma once
#include "outline.h"
#include "paint.h"

namespace gradsim {

template <class T> struct SoftOptions {
    T sharpness;   // 1 / sigma [1/px^2]
    T scale;       // 1 / (gamma (far - near)) [1/m]
    T background;  // depth [m]
    T reach, cut, stretch;
    T margin;      // distance at which D ends [px]

    SoftOptions(const Job<T>& job) {
        const double half = 0.5 * job.height, sigma = job.options[0] * half * half, gamma = job.options[1];
        const double far = job.options[2], range = far - job.near;
        reach = T(job.options[3]);
        cut = 1 / (1 + exponential(splat(reach))[0]);
        stretch = 1 / (1 - cut);
        sharpness = T(1 / sigma);
        scale = T(1 / (gamma * range));
        background = T(far - 1e-3 * range);
        margin = square_root(T(sigma) * reach);
    }
};

// A triangle at a row of pixels.
template <class T, int A> struct SoftRow {
    Lanes<T> plain[3];  // barycentric coordinates
    Nearest<T> nearest;
    Mask<T> inside, seen;
    Lanes<T> sigmoid, cover;
    Lanes<T> inverse;  // 1 / sum of clamped coordinates over depth
    Lanes<T> depth, share[3];

    // Distance and depth; false where the triangle does not reach these pixels.
    LANES_MEMBER bool meet(const SoftOptions<T>& soft, const Outline<T>& outline, int x, int y) {
        const Triangle<T>& t = outline.t;
        Lanes<T> px = centers<T>(x);
        T py = y + T(0.5);
        plain[1] = (px - t.x[1]) * t.gx[1] + ((py - t.y[1]) * t.gy[1] + 1);
        plain[2] = (px - t.x[2]) * t.gx[2] + ((py - t.y[2]) * t.gy[2] + 1);
        plain[0] = 1 - plain[1] - plain[2];
        nearest = outline.nearest(px, py);
        inside = (plain[0] > 0) & (plain[1] > 0) & (plain[2] > 0);
        Lanes<T> s = (inside ? nearest.square : -nearest.square) * soft.sharpness;
        if (!any(s > -soft.reach)) return false;
        sigmoid = 1 / (1 + exponential(-s));
        cover = (sigmoid - soft.cut) * soft.stretch;
        seen = cover > 0;
        Lanes<T> level = Lanes<T>{}, sum = Lanes<T>{};
        for (int k = 0; k < 3; k++) {
            Lanes<T> c = larger(plain[k], Lanes<T>{});
            share[k] = c * t.depth[k];
            sum += c;
            level += share[k];
        }
        inverse = 1 / level;
        depth = sum * inverse;
        for (int k = 0; k < 3; k++) share[k] *= inverse;
        return true;
    }

    LANES_MEMBER void interpolate(const T* const* corner, Lanes<T>* attribute) const {
        for (int i = 0; i < A; i++)
            attribute[i] = share[0] * corner[0][i] + share[1] * corner[1][i] + share[2] * corner[2][i];
    }
};

namespace soft_forward {
enum { SUM, DEPTH, RED, GREEN, BLUE, CLEAR, PLANES };
}

template <class T, int A>
void blend(const Frame<T, A>& frame, const Triangle<T>& t, const SoftOptions<T>& soft,
           const Planes<T, soft_forward::PLANES>& planes) {
    using namespace soft_forward;
    const Outline<T> outline(t, soft.margin, (int)frame.job.width, (int)frame.job.height);
    const T* corner[3] = {frame.attribute(t.corner[0]), frame.attribute(t.corner[1]), frame.attribute(t.corner[2])};
    for (int y = outline.top; y <= outline.bottom; y++) {
        int from, to;
        outline.span(y, from, to);
        for (int x = from; x <= to; x += LaneTypes<T>::width) {
            SoftRow<T, A> row;
            if (!row.meet(soft, outline, x, y)) continue;
            T *sum = planes.at(SUM, x, y), *depth = planes.at(DEPTH, x, y), *clear = planes.at(CLEAR, x, y);
            Lanes<T> before = load(depth), ahead = (before - row.depth) * soft.scale;
            Mask<T> nearer = row.seen & (ahead > 0);
            Lanes<T> fade = exponential(ahead > 0 ? -ahead : ahead);  // of those so far, or of this one
            Lanes<T> old = nearer ? fade : splat(T(1)), now = nearer ? row.cover : row.cover * fade;
            now = row.seen ? now : Lanes<T>{};
            Lanes<T> attribute[A], color[3];
            row.interpolate(corner, attribute);
            paint(frame, t, now > 0, attribute, color);
            store(depth, nearer ? row.depth : before);
            store(sum, load(sum) * old + now);
            for (int k = 0; k < 3; k++) {
                T* channel = planes.at(RED + k, x, y);
                store(channel, load(channel) * old + now * color[k]);
            }
            store(clear, load(clear) * (row.seen ? 1 - row.cover : splat(T(1))));
        }
    }
}

template <class T, int A> void softras_forward(Job<T>& job) {
    using namespace soft_forward;
    const SoftOptions<T> soft(job);
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    for (; job.more(); job.next++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, false, soft.margin);
        Planes<T, PLANES> planes(height, width, arena);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        const T* background = job.background + job.next * job.background_frame_stride;
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < planes.stride; x += LaneTypes<T>::width) {
                Lanes<T> behind[4] = {splat(background[0]), splat(background[1]), splat(background[2])};
                if (job.background_pixel_stride && x < width)
                    read_pixels(background + 3 * ((Int)y * width + x), 3, width - x, behind);
                store(planes.at(SUM, x, y), splat(T(1)));
                store(planes.at(CLEAR, x, y), splat(T(1)));
                store(planes.at(DEPTH, x, y), splat(soft.background));
                for (int k = 0; k < 3; k++) store(planes.at(RED + k, x, y), behind[k]);
            }
        }
        for (int i = 0; i < frame.triangle_count; i++) blend(frame, frame.triangles[i], soft, planes);
        const Int first = job.next * height * width;
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x += LaneTypes<T>::width) {
                const Int pixel = first + (Int)y * width + x;
                Lanes<T> depth = load(planes.at(DEPTH, x, y)), inverse = 1 / load(planes.at(SUM, x, y));
                Lanes<T> behind = exponential((depth - soft.background) * soft.scale) * inverse;
                Lanes<T> color[4], kept[4] = {behind, depth, inverse};
                for (int k = 0; k < 3; k++) color[k] = load(planes.at(RED + k, x, y)) * inverse;
                color[3] = 1 - load(planes.at(CLEAR, x, y));
                write_pixels(job.image + pixel * channels, channels, width - x, color);
                write_pixels(job.kept + pixel * 3, 3, width - x, kept);
            }
        }
    }
}

namespace soft_backward {
enum { DEPTH, INVERSE, RED, GREEN, BLUE, LEVEL, CLEAR, PLANES };  // LEVEL: adjoint . colour; CLEAR: adjoint * clear
}

template <class T, int A>
void blend_adjoint(const Frame<T, A>& frame, const Triangle<T>& t, const SoftOptions<T>& soft,
                   const Planes<T, soft_backward::PLANES>& planes) {
    using namespace soft_backward;
    const Outline<T> outline(t, soft.margin, (int)frame.job.width, (int)frame.job.height);
    const T* corner[3] = {frame.attribute(t.corner[0]), frame.attribute(t.corner[1]), frame.attribute(t.corner[2])};
    Lanes<T> adjoint[9 + 3 * A], *screen_adj = adjoint, *corner_adj = adjoint + 9;
    for (int i = 0; i < 9 + 3 * A; i++) adjoint[i] = Lanes<T>{};
    for (int y = outline.top; y <= outline.bottom; y++) {
        int from, to;
        outline.span(y, from, to);
        for (int x = from; x <= to; x += LaneTypes<T>::width) {
            SoftRow<T, A> row;
            if (!row.meet(soft, outline, x, y)) continue;
            Lanes<T> fade = exponential((load(planes.at(DEPTH, x, y)) - row.depth) * soft.scale);
            fade *= load(planes.at(INVERSE, x, y));
            Lanes<T> weight = row.seen ? fade * row.cover : Lanes<T>{};
            Lanes<T> attribute[A], attribute_adj[A], adj[3];
            for (int k = 0; k < 3; k++) adj[k] = load(planes.at(RED + k, x, y));
            row.interpolate(corner, attribute);
            Lanes<T> level = paint_adjoint(frame, t, weight > 0, attribute, adj, weight, attribute_adj);
            Lanes<T> gain = level - load(planes.at(LEVEL, x, y));

            // Through the distance: by coverage and by the colour's weight.
            Lanes<T> slope = row.sigmoid * (1 - row.sigmoid) * soft.stretch;
            Lanes<T> s_adj = load(planes.at(CLEAR, x, y)) * row.sigmoid + fade * gain * slope;
            Lanes<T> push = row.seen ? s_adj * (2 * soft.sharpness) : Lanes<T>{};
            push = row.inside ? -push : push;

            // Through depth and barycentric coordinates: what a share is worth beyond the mean of all.
            Lanes<T> mean = Lanes<T>{}, toward = gain * soft.scale, x_adj = Lanes<T>{}, y_adj = Lanes<T>{};
            for (int i = 0; i < A; i++) mean += attribute_adj[i] * attribute[i];
            Lanes<T> pull = weight * row.inverse;
            for (int k = 0; k < 3; k++) {
                Lanes<T> worth = toward * row.depth - mean;
                for (int i = 0; i < A; i++) worth += attribute_adj[i] * corner[k][i];
                Lanes<T> c = larger(row.plain[k], Lanes<T>{}), plain_adj = (worth * t.depth[k] - toward) * pull;
                plain_adj = row.plain[k] > 0 ? plain_adj : Lanes<T>{};
                x_adj += plain_adj * t.gx[k];
                y_adj += plain_adj * t.gy[k];
                screen_adj[3 * k + 2] += worth * pull * c;
                for (int i = 0; i < A; i++) corner_adj[k * A + i] += weight * row.share[k] * attribute_adj[i];
            }
            for (int k = 0; k < 3; k++) {
                Lanes<T> touch = push * row.nearest.share[k];
                screen_adj[3 * k] += touch * row.nearest.dx - row.plain[k] * x_adj;
                screen_adj[3 * k + 1] += touch * row.nearest.dy - row.plain[k] * y_adj;
            }
        }
    }
    T sums[9 + 3 * A + LaneTypes<T>::width];
    for (int i = 0; i < 9 + 3 * A; i += LaneTypes<T>::width) store(sums + i, totals<T>(adjoint, i, 9 + 3 * A));
    TriangleAdjoint<T, A> out;
    for (int i = 0; i < 9; i++) out.screen[i] = sums[i];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < A; i++) out.attribute[k][i] = sums[9 + k * A + i];
    out.spread(frame, t);
}

template <class T, int A> void softras_backward(Job<T>& job) {
    using namespace soft_backward;
    const SoftOptions<T> soft(job);
    const int height = (int)job.height, width = (int)job.width, channels = (int)job.channels;
    for (; job.more(); job.next++) {
        Arena arena(job.scratch, job.scratch_size);
        Frame<T, A> frame(job, job.next, arena, true, soft.margin);
        Planes<T, PLANES> planes(height, width, arena);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return;
        }
        const Int first = job.next * height * width;
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x += LaneTypes<T>::width) {
                const Int pixel = first + (Int)y * width + x;
                Lanes<T> color[4], adj[4], kept[4];
                read_pixels(job.image + pixel * channels, channels, width - x, color);
                read_pixels(job.image_adj + pixel * channels, channels, width - x, adj);
                read_pixels(job.kept + pixel * 3, 3, width - x, kept);
                store(planes.at(DEPTH, x, y), kept[1]);
                store(planes.at(INVERSE, x, y), kept[2]);
                for (int k = 0; k < 3; k++) store(planes.at(RED + k, x, y), adj[k]);
                store(planes.at(LEVEL, x, y), adj[0] * color[0] + adj[1] * color[1] + adj[2] * color[2]);
                store(planes.at(CLEAR, x, y), channels == 4 ? adj[3] * (1 - color[3]) : Lanes<T>{});
            }
            for (int plane = 0; plane < PLANES; plane++)  // what lies beside the image has no adjoint
                for (int x = width; x < planes.stride; x++) *planes.at(plane, x, y) = 0;
        }
        for (int i = 0; i < frame.triangle_count; i++) blend_adjoint(frame, frame.triangles[i], soft, planes);
        job.broken |= !frame.retreat();
    }
}

}  // namespace gradsim
