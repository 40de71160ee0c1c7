// Rows of pixels that one untextured triangle covers wholly, several pixels at a time: the same sums as look and
// look_adjoint of surface.h, where most pixels of a picture of few triangles are spent.
#pragma once
#include "lanes.h"
#include "surface.h"

namespace gradsim {

template <class T> RENDER_INLINE T total(Lanes<T> a, T) {
    T s = a[0];
    for (int i = 1; i < LaneTypes<T>::width; i++) s += a[i];
    return s;
}

// Shares of the three corners at the centres of pixels x, x + 1, ... of row y.
template <class T> struct RunShares {
    Lanes<T> plain[3], share[3], r;  // r = w

    RunShares(const Triangle<T>& t, int x, int y) {
        Lanes<T> ramp;
        for (int i = 0; i < LaneTypes<T>::width; i++) ramp[i] = T(i);
        for (int k = 1; k < 3; k++) plain[k] = ramp * t.gx[k] + t.weight(k, x + T(0.5), y + T(0.5));
        plain[0] = 1 - plain[1] - plain[2];
        for (int k = 0; k < 3; k++) share[k] = plain[k] * t.depth[k];
        r = 1 / (share[0] + share[1] + share[2]);
        for (int k = 0; k < 3; k++) share[k] *= r;
    }
};

// Colours of the first `count` of them.
template <class T>
RENDER_INLINE void look_run(const Surface<T, 3>& surface, int x, int y, int count, T* out, int channels) {
    RunShares<T> s(surface.t, x, y);
    const T *a = surface.attribute[0], *b = surface.attribute[1], *c = surface.attribute[2];
    for (int k = 0; k < 3; k++) {
        Lanes<T> color = s.share[0] * a[k] + s.share[1] * b[k] + s.share[2] * c[k];
        for (int i = 0; i < count; i++) out[i * channels + k] = color[i];
    }
    if (channels == 4)
        for (int i = 0; i < count; i++) out[i * channels + 3] = 1;
}

// Sums over many runs of one triangle, from which its adjoints follow at the end.
template <class T> struct RunAdjoint {
    Lanes<T> color[3][3];  // share k * adjoint i
    Lanes<T> move[3][3];   // plain k * rise m

    RunAdjoint() {
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 3; i++) color[k][i] = move[k][i] = Lanes<T>{};
    }

    // The first `count` of them, where the triangle owns the pixel.
    RENDER_MEMBER void add(const Surface<T, 3>& surface, int x, int y, int count, const int* owners, int own,
                           const T* adj, int channels) {
        RunShares<T> s(surface.t, x, y);
        Lanes<T> g[3] = {}, worth[3], level = {};
        for (int l = 0; l < count; l++)
            if (owners[l] == own)
                for (int i = 0; i < 3; i++) g[i][l] = adj[l * channels + i];
        for (int k = 0; k < 3; k++) {
            const T* a = surface.attribute[k];
            worth[k] = g[0] * a[0] + g[1] * a[1] + g[2] * a[2];
            level += s.share[k] * worth[k];
            for (int i = 0; i < 3; i++) color[k][i] += s.share[k] * g[i];
        }
        for (int m = 0; m < 3; m++) {
            Lanes<T> rise = (worth[m] - level) * s.r;
            for (int k = 0; k < 3; k++) move[k][m] += s.plain[k] * rise;
        }
    }

    void finish(const Triangle<T>& t, TriangleAdjoint<T, 3>& out) const {
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 3; i++) {
                T m = total(move[k][i], T());
                out.attribute[k][i] += total(color[k][i], T());
                if (k == i) out.screen[3 * k + 2] += m;
                out.screen[3 * k] -= m * t.depth[i] * t.gx[i];
                out.screen[3 * k + 1] -= m * t.depth[i] * t.gy[i];
            }
    }
};

}  // namespace gradsim
