// What a triangle looks like at a place on the screen: attributes interpolated with perspective, and the texture.
#pragma once
#include "frame.h"

namespace gradsim {

// Bilinear lookup with repeat: four texels and their weights.
template <class T> struct Lookup {
    Int texel[4];
    T weight[4], du[4], dv[4];  // weights and their slopes by the texture coordinates

    Lookup(const int* texture, T u, T v) {
        const int start = texture[0], height = texture[1], width = texture[2];
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

// A triangle with what its corners carry.
template <class T, int A> struct Surface {
    const Triangle<T>& t;
    const T* attribute[3];
    const int* texture;  // its row of job.textures, null where it has none
    const Job<T>& job;

    LANES_MEMBER Surface(const Frame<T, A>& frame, const Triangle<T>& t) : t(t), texture(nullptr), job(frame.job) {
        for (int k = 0; k < 3; k++) attribute[k] = frame.attribute(t.corner[k]);
        if constexpr (A != 3) {
            int number = job.marks[t.face] >> 1;
            if (number) texture = job.textures + 3 * (number - 1);
        }
    }
};

// A triangle seen at one place.
template <class T, int A> struct Seen {
    T plain[3], share[3];  // barycentric coordinates on the screen, and with perspective
    T depth;               // 1 / w
    T attribute[A];
    T color[3];

    LANES_MEMBER void interpolate(const Surface<T, A>& s, T x, T y) {
        const Triangle<T>& t = s.t;
        plain[1] = t.weight(1, x, y);
        plain[2] = t.weight(2, x, y);
        plain[0] = 1 - plain[1] - plain[2];
        for (int k = 0; k < 3; k++) share[k] = plain[k] * t.depth[k];
        depth = share[0] + share[1] + share[2];
        T r = 1 / depth;
        for (int k = 0; k < 3; k++) share[k] *= r;
        for (int k = 0; k < A; k++)
            attribute[k] = share[0] * s.attribute[0][k] + share[1] * s.attribute[1][k] + share[2] * s.attribute[2][k];
    }

    LANES_MEMBER void look(const Surface<T, A>& s, T x, T y) {
        interpolate(s, x, y);
        paint(s);
    }

    // Colour from attributes.
    LANES_MEMBER void paint(const Surface<T, A>& s) {
        if constexpr (A == 3) {
            for (int k = 0; k < 3; k++) color[k] = attribute[k];
        } else {
            for (int k = 0; k < 3; k++) color[k] = attribute[k] + attribute[3 + k];
            if (!s.texture) return;
            Lookup<T> lookup(s.texture, attribute[6], attribute[7]);
            for (int k = 0; k < 3; k++) color[k] = lookup.value(s.job.texels, k) * attribute[k] + attribute[3 + k];
        }
    }

    // The adjoint of the colour becomes that of the attributes; texels get theirs at once.
    LANES_MEMBER void paint_adjoint(const Surface<T, A>& s, const T* adj, T scale, T* attribute_adj) const {
        for (int k = 0; k < 3; k++) attribute_adj[k] = adj[k];
        if constexpr (A != 3) {
            for (int k = 0; k < 3; k++) attribute_adj[3 + k] = adj[k];
            attribute_adj[6] = attribute_adj[7] = 0;
            if (!s.texture) return;
            Lookup<T> lookup(s.texture, attribute[6], attribute[7]);
            const T* texels = s.job.texels;
            T* texels_adj = s.job.piece_texels_adj;
            for (int k = 0; k < 3; k++) {
                attribute_adj[k] = adj[k] * lookup.value(texels, k);
                T light = adj[k] * attribute[k];
                for (int i = 0; i < 4; i++) {
                    T texel = texels[lookup.texel[i] + k];
                    attribute_adj[6] += light * lookup.du[i] * texel;
                    attribute_adj[7] += light * lookup.dv[i] * texel;
                    if (texels_adj) texels_adj[lookup.texel[i] + k] += scale * light * lookup.weight[i];
                }
            }
        }
    }
};

// Adjoints of one triangle, gathered before they are spread to its vertices and corners.
template <class T, int A> struct TriangleAdjoint {
    T screen[9];  // x, y, 1 / w of each vertex
    T attribute[3][A];

    TriangleAdjoint() { clear(); }
    void clear() {
        for (int k = 0; k < 9; k++) screen[k] = 0;
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < A; i++) attribute[k][i] = 0;
    }
    void spread(const Frame<T, A>& frame, const Triangle<T>& t) const {
        for (int k = 0; k < 3; k++) {
            T *s = frame.screen_adj + 3 * t.vertex[k], *a = frame.attribute_adj(t.corner[k]);
            for (int i = 0; i < 3; i++) s[i] += screen[3 * k + i];
            for (int i = 0; i < A; i++) a[i] += attribute[k][i];
        }
    }
};

// adjoint . colour at a place, and its slopes as the place moves.
template <class T> struct Slope { T value, x, y; };

// Adds scale * adj . colour(x, y), at a place held fixed, to the adjoints of a triangle.
template <class T, int A>
LANES_INLINE Slope<T> look_adjoint(const Surface<T, A>& s, T scale, T x, T y, const T* adj, TriangleAdjoint<T, A>& out) {
    const Triangle<T>& t = s.t;
    Seen<T, A> seen;
    seen.look(s, x, y);
    T weight[A];
    seen.paint_adjoint(s, adj, scale, weight);
    Slope<T> slope = {adj[0] * seen.color[0] + adj[1] * seen.color[1] + adj[2] * seen.color[2], 0, 0};
    T level = 0;
    for (int i = 0; i < A; i++) level += weight[i] * seen.attribute[i];
    T r = 1 / seen.depth;
    for (int k = 0; k < 3; k++) {
        const T* a = s.attribute[k];
        T rise = -level;
        for (int i = 0; i < A; i++) {
            rise += weight[i] * a[i];
            out.attribute[k][i] += scale * seen.share[k] * weight[i];
        }
        rise *= r;
        slope.x += rise * t.depth[k] * t.gx[k];
        slope.y += rise * t.depth[k] * t.gy[k];
        out.screen[3 * k + 2] += scale * rise * seen.plain[k];
    }
    for (int k = 0; k < 3; k++) {  // a vertex that moves drags its barycentric coordinate along
        out.screen[3 * k] -= scale * seen.plain[k] * slope.x;
        out.screen[3 * k + 1] -= scale * seen.plain[k] * slope.y;
    }
    return slope;
}

}  // namespace gradsim
