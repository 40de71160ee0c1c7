// Distances of pixels to the boundary of a triangle, and the pixels within a given distance.
#pragma once
#include "pixels.h"

namespace gradsim {

// The point of the boundary nearest to each pixel of a row.
template <class T> struct NearestPoint {
    Lanes<T> square;     // of the distance [px^2]
    Lanes<T> dx, dy;     // from the point to the pixel
    Lanes<T> weight[3];  // of the vertices in the point
};

template <class T> struct Boundary {
    const Triangle<T>& t;
    T ex[3], ey[3], inverse[3];    // edges from vertex k on, 1 / their squared lengths
    int left, right, top, bottom;  // pixels that can be within the margin
    T slope[3], limit[3];          // of the lines parallel to the edges that bound them: x = limit - slope y
    bool bounds_left[3];           // whether the line bounds them on the left

    Boundary(const Triangle<T>& t, T margin, int width, int height) : t(t) {
        margin += T(1e-3);  // for rounding
        for (int k = 0; k < 3; k++) {
            int l = k == 2 ? 0 : k + 1;
            ex[k] = t.x[l] - t.x[k];
            ey[k] = t.y[l] - t.y[k];
            inverse[k] = 1 / (ex[k] * ex[k] + ey[k] * ey[k]);
            T r = 1 / t.gx[k];
            slope[k] = t.gy[k] * r;
            limit[k] =
                t.x[k] + slope[k] * t.y[k] - (1 + margin * square_root(t.gx[k] * t.gx[k] + t.gy[k] * t.gy[k])) * r;
            bounds_left[k] = t.gx[k] > 0;
        }
        left = first(t.left - margin, width);
        right = last(t.right + margin, width);
        top = first(t.top - margin, height);
        bottom = last(t.bottom + margin, height);
    }

    // First pixel whose centre is not before a coordinate, `count` if there is none, and last one whose centre is not
    // after it, -1 if there is none.
    static int first(T coordinate, int count) {
        return (int)__builtin_elementwise_ceil(smaller(larger(coordinate, T(0.5)), count + T(0.5)) - T(0.5));
    }
    static int last(T coordinate, int count) {
        return (int)__builtin_elementwise_floor(larger(smaller(coordinate, count - T(0.5)), T(-0.5)) - T(0.5));
    }

    // The pixels of a row that can be within the margin.
    void span(int y, int& from, int& to) const {
        T low = left, high = right, py = y + T(0.5);
        for (int k = 0; k < 3; k++) {
            T x = limit[k] - slope[k] * py - T(0.5);  // infinite or NaN for a horizontal edge: no bound
            if (bounds_left[k]) { if (x > low) low = x; }
            else if (x < high) high = x;
        }
        from = (int)__builtin_elementwise_ceil(smaller(low, T(right + 1)));
        to = (int)__builtin_elementwise_floor(larger(high, T(left - 1)));
    }

    LANES_MEMBER NearestPoint<T> nearest(Lanes<T> x, T y) const {
        NearestPoint<T> n;
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
            n.weight[k] = nearer ? 1 - u : n.weight[k];
            n.weight[l] = nearer ? u : n.weight[l];
            n.weight[m] = nearer ? Lanes<T>{} : n.weight[m];
        }
        return n;
    }

    // Coordinate along edge k of the point nearest to vertex k + (rx, ry): 0 at its start, 1 at its end.
    LANES_MEMBER Lanes<T> along(Lanes<T> rx, T ry, int k) const {
        return saturate((rx * ex[k] + ry * ey[k]) * inverse[k]);
    }
};

}  // namespace gradsim
