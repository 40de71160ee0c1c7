// The colour of a triangle at a point of the screen: attributes interpolated with perspective correction, and texture.
#pragma once
#include "frame.h"

namespace gradsim {

// Bilinear texture lookup with repeat: four texels, their weights and the derivatives of these.
template <class T> struct TextureLookup {
    Int texel[4];
    T weight[4], du[4], dv[4];

    TextureLookup(const int* texture, T u, T v) {
        const int start = texture[texture_column::first_texel];
        const int height = texture[texture_column::height], width = texture[texture_column::width];
        T x = u * width - T(0.5), y = (1 - v) * height - T(0.5);
        T column = __builtin_floor(x), row = __builtin_floor(y), a = x - column, b = y - row;
        int i0 = wrap(column, width), j0 = wrap(row, height);
        int i1 = i0 + 1 == width ? 0 : i0 + 1, j1 = j0 + 1 == height ? 0 : j0 + 1;
        int i[4] = {i0, i1, i0, i1}, j[4] = {j0, j0, j1, j1};
        for (int k = 0; k < 4; k++) {
            T wa = k & 1 ? a : 1 - a, wb = k & 2 ? b : 1 - b;
            texel[k] = 3 * ((Int)start + (Int)j[k] * width + i[k]);
            weight[k] = wa * wb;
            du[k] = (k & 1 ? wb : -wb) * width;
            dv[k] = (k & 2 ? -wa : wa) * height;
        }
    }
    static int wrap(T cell, int count) {
        cell -= __builtin_floor(cell / count) * count;
        int i = (int)cell;
        return i < 0 ? 0 : i >= count ? count - 1 : i;
    }
    T value(const T* texels, int channel) const {
        T s = 0;
        for (int k = 0; k < 4; k++) s += weight[k] * texels[texel[k] + channel];
        return s;
    }
};

// A triangle with the attributes of its corners and its texture.
template <class T, int A> struct ShadedTriangle {
    const Triangle<T>& t;
    const T* attribute[3];
    const int* texture;  // row of job.textures, null for none
    const RasterJob<T>& job;

    LANES_MEMBER ShadedTriangle(const Frame<T, A>& frame, const Triangle<T>& t)
        : t(t), texture(nullptr), job(frame.job) {
        for (int k = 0; k < 3; k++) attribute[k] = frame.attribute(t.corner[k]);
        if constexpr (A == attribute_count::textured) {
            const int row = job.face_textures[t.face];
            if (row >= 0) texture = job.textures + texture_column::count * row;
        }
    }
};

// A triangle evaluated at a point.
template <class T, int A> struct Sample {
    T barycentric[3], weight[3];  // in screen space; perspective-correct
    T inv_w;
    T attribute[A];
    T color[3];

    LANES_MEMBER void interpolate(const ShadedTriangle<T, A>& s, T x, T y) {
        const Triangle<T>& t = s.t;
        barycentric[1] = t.barycentric(1, x, y);
        barycentric[2] = t.barycentric(2, x, y);
        barycentric[0] = 1 - barycentric[1] - barycentric[2];
        for (int k = 0; k < 3; k++) weight[k] = barycentric[k] * t.inv_w[k];
        inv_w = weight[0] + weight[1] + weight[2];
        T w = 1 / inv_w;
        for (int k = 0; k < 3; k++) weight[k] *= w;
        for (int k = 0; k < A; k++)
            attribute[k] =
                weight[0] * s.attribute[0][k] + weight[1] * s.attribute[1][k] + weight[2] * s.attribute[2][k];
    }

    LANES_MEMBER void evaluate(const ShadedTriangle<T, A>& s, T x, T y) {
        interpolate(s, x, y);
        shade(s);
    }

    // Computes the colour from the attributes.
    LANES_MEMBER void shade(const ShadedTriangle<T, A>& s) {
        using namespace attribute_column;
        if constexpr (A == attribute_count::plain) {
            for (int k = 0; k < 3; k++) color[k] = attribute[k];
        } else {
            for (int k = 0; k < 3; k++) color[k] = attribute[light + k] + attribute[highlight + k];
            if (!s.texture) return;
            TextureLookup<T> lookup(s.texture, attribute[uv], attribute[uv + 1]);
            for (int k = 0; k < 3; k++)
                color[k] = lookup.value(s.job.texels, k) * attribute[light + k] + attribute[highlight + k];
        }
    }

    // Computes the adjoints of the attributes from that of the colour. Adds those of the texels, times `scale`.
    LANES_MEMBER void shade_backward(const ShadedTriangle<T, A>& s, const T* adj, T scale, T* attribute_adj) const {
        using namespace attribute_column;
        for (int k = 0; k < 3; k++) attribute_adj[light + k] = adj[k];
        if constexpr (A == attribute_count::textured) {
            for (int k = 0; k < 3; k++) attribute_adj[highlight + k] = adj[k];
            attribute_adj[uv] = attribute_adj[uv + 1] = 0;
            if (!s.texture) return;
            TextureLookup<T> lookup(s.texture, attribute[uv], attribute[uv + 1]);
            const T* texels = s.job.texels;
            T* texels_adj = s.job.chunk_texels_adj;
            for (int k = 0; k < 3; k++) {
                attribute_adj[light + k] = adj[k] * lookup.value(texels, k);
                T value_adj = adj[k] * attribute[light + k];
                for (int i = 0; i < 4; i++) {
                    T texel = texels[lookup.texel[i] + k];
                    attribute_adj[uv] += value_adj * lookup.du[i] * texel;
                    attribute_adj[uv + 1] += value_adj * lookup.dv[i] * texel;
                    if (texels_adj) texels_adj[lookup.texel[i] + k] += scale * value_adj * lookup.weight[i];
                }
            }
        }
    }
};

// Adjoints of one triangle, summed before they are added to those of its vertices and corners.
template <class T, int A> struct TriangleAdjoint {
    T screen[9];  // x, y, 1 / w of each vertex
    T attribute[3][A];

    TriangleAdjoint() {
        for (int k = 0; k < 9; k++) screen[k] = 0;
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < A; i++) attribute[k][i] = 0;
    }
    void scatter(const Frame<T, A>& frame, const Triangle<T>& t) const {
        for (int k = 0; k < 3; k++) {
            T *s = frame.screen_adj + 3 * t.vertex[k], *a = frame.attribute_adj(t.corner[k]);
            for (int i = 0; i < 3; i++) s[i] += screen[3 * k + i];
            for (int i = 0; i < A; i++) a[i] += attribute[k][i];
        }
    }
};

// A function of the point on the screen: its value and gradient.
template <class T> struct PointFunction { T value, dx, dy; };

// Adds the adjoints of scale * adj . colour(x, y), at a fixed point, to those of a triangle. Returns adj . colour.
template <class T, int A>
LANES_INLINE PointFunction<T> sample_backward(const ShadedTriangle<T, A>& s, T scale, T x, T y, const T* adj,
                                              TriangleAdjoint<T, A>& out) {
    const Triangle<T>& t = s.t;
    Sample<T, A> sample;
    sample.evaluate(s, x, y);
    T attribute_adj[A];
    sample.shade_backward(s, adj, scale, attribute_adj);
    PointFunction<T> f = {adj[0] * sample.color[0] + adj[1] * sample.color[1] + adj[2] * sample.color[2], 0, 0};
    T mean = 0;
    for (int i = 0; i < A; i++) mean += attribute_adj[i] * sample.attribute[i];
    T w = 1 / sample.inv_w;
    for (int k = 0; k < 3; k++) {
        const T* a = s.attribute[k];
        T gain = -mean;  // of this corner's attributes over the interpolated ones
        for (int i = 0; i < A; i++) {
            gain += attribute_adj[i] * a[i];
            out.attribute[k][i] += scale * sample.weight[k] * attribute_adj[i];
        }
        gain *= w;
        f.dx += gain * t.inv_w[k] * t.gx[k];
        f.dy += gain * t.inv_w[k] * t.gy[k];
        out.screen[3 * k + 2] += scale * gain * sample.barycentric[k];
    }
    for (int k = 0; k < 3; k++) {  // moving a vertex moves the points where its barycentric coordinate is constant
        out.screen[3 * k] -= scale * sample.barycentric[k] * f.dx;
        out.screen[3 * k + 1] -= scale * sample.barycentric[k] * f.dy;
    }
    return f;
}

}  // namespace gradsim
