// Colours of a row of pixels from the attributes interpolated there, and the way back: surface.h for pixels in lanes.
#pragma once
#include "pixels.h"
#include "surface.h"

namespace gradsim {

template <class T, int A> RENDER_INLINE bool textured(const Frame<T, A>& frame, const Triangle<T>& t) {
    if constexpr (A == 3) return false;
    else return frame.job.marks[t.face] >> 1 != 0;
}

// Colours, those of textures only where `seen`: texels are fetched pixel by pixel.
template <class T, int A>
RENDER_INLINE void paint(const Frame<T, A>& frame, const Triangle<T>& t, Mask<T> seen, const Row<T>* attribute,
                         Row<T>* color) {
    for (int k = 0; k < 3; k++) color[k] = A == 3 ? attribute[k] : attribute[k] + attribute[A - 5 + k];
    if (!textured(frame, t)) return;
    for (int i = 0; i < PixelTypes<T>::width; i++) {
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
RENDER_INLINE Row<T> paint_adjoint(const Frame<T, A>& frame, const Triangle<T>& t, Mask<T> seen,
                                   const Row<T>* attribute, const Row<T>* adj, Row<T> scale, Row<T>* attribute_adj) {
    for (int k = 0; k < A; k++) attribute_adj[k] = k < 6 ? adj[k % 3] : Row<T>{};
    if (textured(frame, t)) {
        for (int i = 0; i < PixelTypes<T>::width; i++) {
            if (!seen[i]) continue;
            Seen<T, A> one;
            T color_adj[3] = {adj[0][i], adj[1][i], adj[2][i]}, weight[A];
            for (int k = 0; k < A; k++) one.attribute[k] = attribute[k][i];
            one.paint_adjoint(Surface<T, A>(frame, t), color_adj, scale[i], weight);
            for (int k = 0; k < A; k++) attribute_adj[k][i] = weight[k];
        }
    }
    Row<T> product = Row<T>{};
    for (int k = 0; k < (A == 3 ? 3 : 6); k++) product += attribute_adj[k] * attribute[k];
    return product;
}

}  // namespace gradsim
