// Colours of a row of pixels from the attributes interpolated there, and the way back: surface.h for pixels in lanes.
#pragma once
#include "pixels.h"
#include "surface.h"

namespace gradsim {

template <class T, int A> LANES_INLINE bool textured(const Frame<T, A>& frame, const Triangle<T>& t) {
    if constexpr (A == 3) return false;
    else return frame.job.marks[t.face] >> 1 != 0;
}

// Colours, those of textures only where `seen`: texels are fetched pixel by pixel.
template <class T, int A>
LANES_INLINE void paint(const Frame<T, A>& frame, const Triangle<T>& t, Mask<T> seen, const Lanes<T>* attribute,
                         Lanes<T>* color) {
    for (int k = 0; k < 3; k++) color[k] = A == 3 ? attribute[k] : attribute[k] + attribute[A - 5 + k];
    if (!textured(frame, t)) return;
    for (int i = 0; i < LaneTypes<T>::width; i++) {
        if (!seen[i]) continue;
        Seen<T, A> one;
        for (int k = 0; k < A; k++) one.attribute[k] = attribute[k][i];
        one.paint(Surface<T, A>(frame, t));
        for (int k = 0; k < 3; k++) color[k][i] = one.color[k];
    }
}

// The adjoint of the colour becomes that of the attributes; `scale` times it reaches the texels at once.
// Returns adjoint . colour.
template <class T, int A>
LANES_INLINE Lanes<T> paint_adjoint(const Frame<T, A>& frame, const Triangle<T>& t, Mask<T> seen,
                                   const Lanes<T>* attribute, const Lanes<T>* adj, Lanes<T> scale, Lanes<T>* attribute_adj) {
    for (int k = 0; k < A; k++) attribute_adj[k] = k < 6 ? adj[k % 3] : Lanes<T>{};
    if (textured(frame, t)) {
        for (int i = 0; i < LaneTypes<T>::width; i++) {
            if (!seen[i]) continue;
            Seen<T, A> one;
            T color_adj[3] = {adj[0][i], adj[1][i], adj[2][i]}, weight[A];
            for (int k = 0; k < A; k++) one.attribute[k] = attribute[k][i];
            one.paint_adjoint(Surface<T, A>(frame, t), color_adj, scale[i], weight);
            for (int k = 0; k < A; k++) attribute_adj[k][i] = weight[k];
        }
    }
    Lanes<T> product = Lanes<T>{};
    for (int k = 0; k < (A == 3 ? 3 : 6); k++) product += attribute_adj[k] * attribute[k];
    return product;
}

// A triangle seen at one place in each of several pixels.
template <class T, int A> struct SeenRow {
    Lanes<T> plain[3], share[3], r;  // barycentric coordinates on the screen, and with perspective; r = w
    Lanes<T> attribute[A], color[3];

    // At places u and v from (x, y); coordinates are kept within the triangle, so that no lane divides by zero.
    LANES_MEMBER void look(const Surface<T, A>& s, const Frame<T, A>& frame, int x, int y, Lanes<T> u, Lanes<T> v,
                            Mask<T> seen) {
        const Triangle<T>& t = s.t;
        for (int k = 1; k < 3; k++)
            plain[k] = smaller(larger(t.weight(k, T(x), T(y)) + u * t.gx[k] + v * t.gy[k], Lanes<T>{}), splat(T(1)));
        plain[0] = larger(1 - plain[1] - plain[2], Lanes<T>{});
        for (int k = 0; k < 3; k++) share[k] = plain[k] * t.depth[k];
        r = 1 / (share[0] + share[1] + share[2]);
        for (int k = 0; k < 3; k++) share[k] *= r;
        for (int i = 0; i < A; i++)
            attribute[i] = share[0] * s.attribute[0][i] + share[1] * s.attribute[1][i] + share[2] * s.attribute[2][i];
        paint(frame, t, seen, attribute, color);
    }
};

// Adjoints of one triangle, each a sum over lanes that is still to be taken.
template <class T, int A> struct RowAdjoint {
    enum { count = 9 + 3 * A };
    Lanes<T> sum[count];  // as in TriangleAdjoint: x, y, 1 / w of each vertex, attributes of each corner

    LANES_MEMBER RowAdjoint() {
        for (int k = 0; k < count; k++) sum[k] = Lanes<T>{};
    }

    // Adds area * adj . colour, at places held fixed; returns adj . colour and its slopes as the place moves.
    LANES_MEMBER void look(const Surface<T, A>& s, const Frame<T, A>& frame, const SeenRow<T, A>& at, Mask<T> seen,
                            Lanes<T> area, const Lanes<T>* adj, Lanes<T>& value, Lanes<T>& slope_x, Lanes<T>& slope_y) {
        const Triangle<T>& t = s.t;
        Lanes<T> weight[A];
        value = paint_adjoint(frame, t, seen, at.attribute, adj, area, weight);
        Lanes<T> level = value;
        for (int i = 6; i < A; i++) level += weight[i] * at.attribute[i];
        slope_x = slope_y = Lanes<T>{};
        for (int k = 0; k < 3; k++) {
            const T* a = s.attribute[k];
            Lanes<T> rise = -level, scale = area * at.share[k];
            for (int i = 0; i < A; i++) {
                rise += weight[i] * a[i];
                sum[9 + k * A + i] += scale * weight[i];
            }
            rise *= at.r;
            slope_x += rise * (t.depth[k] * t.gx[k]);
            slope_y += rise * (t.depth[k] * t.gy[k]);
            sum[3 * k + 2] += area * rise * at.plain[k];
        }
        for (int k = 0; k < 3; k++) {  // a vertex that moves drags its barycentric coordinate along
            Lanes<T> drag = area * at.plain[k];
            sum[3 * k] -= drag * slope_x;
            sum[3 * k + 1] -= drag * slope_y;
        }
    }

    void spread(const Frame<T, A>& frame, const Triangle<T>& t) const {
        enum { width = LaneTypes<T>::width };
        T all[(count + width - 1) / width * width];
        for (int k = 0; k < count; k += width) store(all + k, totals<T>(sum, k, count));
        for (int k = 0; k < 3; k++) {
            T *s = frame.screen_adj + 3 * t.vertex[k], *a = frame.attribute_adj(t.corner[k]);
            for (int i = 0; i < 3; i++) s[i] += all[3 * k + i];
            for (int i = 0; i < A; i++) a[i] += all[9 + k * A + i];
        }
    }
};

}  // namespace gradsim
