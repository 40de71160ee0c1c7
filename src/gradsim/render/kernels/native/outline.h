// How far pixels are from a triangle's outline, and which pixels are near enough to matter.
#pragma once
#include "pixels.h"

namespace gradsim {

// The point of the outline next to each pixel of a row.
template <class T> struct Nearest {
    Lanes<T> square;    // of the distance [px^2]
    Lanes<T> dx, dy;    // from the point to the pixel
    Lanes<T> share[3];  // of the vertices in the point
};

template <class T> struct Outline {
    const Triangle<T>& t;
    T ex[3], ey[3], inverse[3];  // edges from vertex k on, one over their squared lengths
    int left, right, top, bottom;  // pixels that can be within the margin
    T tilt[3], limit[3];           // of the lines that bound them: x = limit - tilt y
    bool rightward[3];

    Outline(const Triangle<T>& t, T margin, int width, int height) : t(t) {
        margin += T(1e-3);  // rounding
        for (int k = 0; k < 3; k++) {
            int l = k == 2 ? 0 : k + 1;
            ex[k] = t.x[l] - t.x[k];
            ey[k] = t.y[l] - t.y[k];
            inverse[k] = 1 / (ex[k] * ex[k] + ey[k] * ey[k]);
            T r = 1 / t.gx[k];
            tilt[k] = t.gy[k] * r;
            limit[k] = t.x[k] + tilt[k] * t.y[k] - (1 + margin * square_root(t.gx[k] * t.gx[k] + t.gy[k] * t.gy[k])) * r;
            rightward[k] = t.gx[k] > 0;
        }
        left = first(t.left - margin, width);
        right = last(t.right + margin, width);
        top = first(t.top - margin, height);
        bottom = last(t.bottom + margin, height);
    }

    // First and last pixel whose centre is not before or behind a place.
    static int first(T place, int count) {
        return (int)__builtin_elementwise_ceil(smaller(larger(place, T(0.5)), T(count + 1)) - T(0.5));
    }
    static int last(T place, int count) {
        return (int)__builtin_elementwise_floor(larger(smaller(place, count - T(0.5)), T(-1)) - T(0.5));
    }

    // The pixels of a row that can be within the margin.
    void span(int y, int& from, int& to) const {
        T low = left, high = right, py = y + T(0.5);
        for (int k = 0; k < 3; k++) {
            T x = limit[k] - tilt[k] * py - T(0.5);  // of a level edge infinite or not a number: no bound
            if (rightward[k]) { if (x > low) low = x; }
            else if (x < high) high = x;
        }
        from = (int)__builtin_elementwise_ceil(smaller(low, T(right + 1)));
        to = (int)__builtin_elementwise_floor(larger(high, T(left - 1)));
    }

    LANES_MEMBER Nearest<T> nearest(Lanes<T> x, T y) const {
        Nearest<T> n;
        for (int k = 0; k < 3; k++) {
            int l = k == 2 ? 0 : k + 1, m = k == 0 ? 2 : k - 1;
            Lanes<T> rx = x - t.x[k], u;
            T ry = y - t.y[k];
            u = along(rx, ry, k);
            rx -= u * ex[k];
            Lanes<T> r = ry - u * ey[k], d = rx * rx + r * r;
            if (k == 0) {
                n = {d, rx, r, {1 - u, u, Lanes<T>{}}};
                continue;
            }
            Mask<T> nearer = d < n.square;
            n.square = nearer ? d : n.square;
            n.dx = nearer ? rx : n.dx;
            n.dy = nearer ? r : n.dy;
            n.share[k] = nearer ? 1 - u : n.share[k];
            n.share[l] = nearer ? u : n.share[l];
            n.share[m] = nearer ? Lanes<T>{} : n.share[m];
        }
        return n;
    }

    LANES_MEMBER Lanes<T> along(Lanes<T> rx, T ry, int k) const {
        return smaller(larger((rx * ex[k] + ry * ey[k]) * inverse[k], Lanes<T>{}), splat(T(1)));
    }
};

}  // namespace gradsim
