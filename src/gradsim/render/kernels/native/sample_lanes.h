// The colours of a triangle at several pixels, one a lane, and the backward pass of this.
#pragma once
#include "pixels.h"
#include "sample.h"

namespace gradsim {

template <class T, int A> LANES_INLINE bool is_textured(const Frame<T, A>& frame, const Triangle<T>& t) {
    if constexpr (A == attribute_count::plain) return false;
    else return frame.job.face_textures[t.face] >= 0;
}

// Computes colours from attributes. Texels are fetched pixel by pixel, and only where `visible`.
template <class T, int A>
LANES_INLINE void shade(const Frame<T, A>& frame, const Triangle<T>& t, Mask<T> visible, const Lanes<T>* attribute,
                        Lanes<T>* color) {
    for (int k = 0; k < 3; k++) {
        color[k] = attribute[k];
        if constexpr (A == attribute_count::textured) color[k] += attribute[attribute_column::highlight + k];
    }
    if (!is_textured(frame, t)) return;
    for (int i = 0; i < LaneTypes<T>::width; i++) {
        if (!visible[i]) continue;
        Sample<T, A> sample;
        for (int k = 0; k < A; k++) sample.attribute[k] = attribute[k][i];
        sample.shade(ShadedTriangle<T, A>(frame, t));
        for (int k = 0; k < 3; k++) color[k][i] = sample.color[k];
    }
}

// Computes the adjoints of the attributes from that of the colour. Adds those of the texels, times `scale`.
// Returns adjoint . colour.
template <class T, int A>
LANES_INLINE Lanes<T> shade_backward(const Frame<T, A>& frame, const Triangle<T>& t, Mask<T> visible,
                                     const Lanes<T>* attribute, const Lanes<T>* adj, Lanes<T> scale,
                                     Lanes<T>* attribute_adj) {
    using namespace attribute_column;
    for (int k = 0; k < A; k++) attribute_adj[k] = k < uv ? adj[k % 3] : Lanes<T>{};
    if (is_textured(frame, t)) {
        for (int i = 0; i < LaneTypes<T>::width; i++) {
            if (!visible[i]) continue;
            Sample<T, A> sample;
            T color_adj[3] = {adj[0][i], adj[1][i], adj[2][i]}, own_adj[A];
            for (int k = 0; k < A; k++) sample.attribute[k] = attribute[k][i];
            sample.shade_backward(ShadedTriangle<T, A>(frame, t), color_adj, scale[i], own_adj);
            for (int k = 0; k < A; k++) attribute_adj[k][i] = own_adj[k];
        }
    }
    Lanes<T> product = Lanes<T>{};
    for (int k = 0; k < A && k < uv; k++) product += attribute_adj[k] * attribute[k];
    return product;
}

// A triangle evaluated at one point of each of several pixels.
template <class T, int A> struct SampleLanes {
    Lanes<T> barycentric[3], weight[3], w;  // in screen space; perspective-correct; depth
    Lanes<T> attribute[A], color[3];

    // At the points (x + u, y + v). Barycentric coordinates are clamped to the triangle, so that no lane divides by 0.
    LANES_MEMBER void evaluate(const ShadedTriangle<T, A>& s, const Frame<T, A>& frame, int x, int y, Lanes<T> u,
                               Lanes<T> v, Mask<T> visible) {
        const Triangle<T>& t = s.t;
        for (int k = 1; k < 3; k++)
            barycentric[k] = saturate(t.barycentric(k, T(x), T(y)) + u * t.gx[k] + v * t.gy[k]);
        barycentric[0] = larger(1 - barycentric[1] - barycentric[2], Lanes<T>{});
        for (int k = 0; k < 3; k++) weight[k] = barycentric[k] * t.inv_w[k];
        w = 1 / (weight[0] + weight[1] + weight[2]);
        for (int k = 0; k < 3; k++) weight[k] *= w;
        for (int i = 0; i < A; i++)
            attribute[i] =
                weight[0] * s.attribute[0][i] + weight[1] * s.attribute[1][i] + weight[2] * s.attribute[2][i];
        shade(frame, t, visible, attribute, color);
    }
};

// Adjoints of one triangle, each the sum over the lanes of a vector.
template <class T, int A> struct TriangleAdjointLanes {
    enum { count = 9 + 3 * A };
    Lanes<T> sum[count];  // x, y, 1 / w of each vertex, attributes of each corner

    LANES_MEMBER TriangleAdjointLanes() {
        for (int k = 0; k < count; k++) sum[k] = Lanes<T>{};
    }

    // Adds the adjoints of area * adj . colour, at fixed points. Returns adj . colour and its gradient in the point.
    LANES_MEMBER void add_sample(const ShadedTriangle<T, A>& s, const Frame<T, A>& frame, const SampleLanes<T, A>& at,
                                 Mask<T> visible, Lanes<T> area, const Lanes<T>* adj, Lanes<T>& value, Lanes<T>& dx,
                                 Lanes<T>& dy) {
        const Triangle<T>& t = s.t;
        Lanes<T> attribute_adj[A];
        value = shade_backward(frame, t, visible, at.attribute, adj, area, attribute_adj);
        Lanes<T> mean = value;
        for (int i = attribute_column::uv; i < A; i++) mean += attribute_adj[i] * at.attribute[i];
        dx = dy = Lanes<T>{};
        for (int k = 0; k < 3; k++) {
            const T* a = s.attribute[k];
            Lanes<T> gain = -mean, scale = area * at.weight[k];
            for (int i = 0; i < A; i++) {
                gain += attribute_adj[i] * a[i];
                sum[9 + k * A + i] += scale * attribute_adj[i];
            }
            gain *= at.w;
            dx += gain * (t.inv_w[k] * t.gx[k]);
            dy += gain * (t.inv_w[k] * t.gy[k]);
            sum[3 * k + 2] += area * gain * at.barycentric[k];
        }
        for (int k = 0; k < 3; k++) {  // moving a vertex moves the points where its barycentric coordinate is constant
            Lanes<T> scale = area * at.barycentric[k];
            sum[3 * k] -= scale * dx;
            sum[3 * k + 1] -= scale * dy;
        }
    }

    void scatter(const Frame<T, A>& frame, const Triangle<T>& t) const {
        enum { width = LaneTypes<T>::width };
        T all[(count + width - 1) / width * width];
        for (int k = 0; k < count; k += width) store(all + k, lane_sums<T>(sum, k, count));
        for (int k = 0; k < 3; k++) {
            T *s = frame.screen_adj + 3 * t.vertex[k], *a = frame.attribute_adj(t.corner[k]);
            for (int i = 0; i < 3; i++) s[i] += all[3 * k + i];
            for (int i = 0; i < A; i++) a[i] += all[9 + k * A + i];
        }
    }
};

}  // namespace gradsim
