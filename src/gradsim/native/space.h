// Vectors, matrices and quaternions in space over a scalar S: a number, or lanes.
#pragma once

// Products and sums fuse, which Warp's compiler does not do by itself.
#pragma clang fp contract(fast)

#include "simd.h"

namespace gradsim {

template <class S> struct Vector {
    S x, y, z;
};
template <class S> LANES_INLINE Vector<S> operator+(const Vector<S>& a, const Vector<S>& b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class S> LANES_INLINE Vector<S> operator-(const Vector<S>& a, const Vector<S>& b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class S, class A> LANES_INLINE Vector<S> operator*(const Vector<S>& a, A s) {
    return {a.x * s, a.y * s, a.z * s};
}
template <class S> LANES_INLINE Vector<S> operator-(const Vector<S>& a) { return {-a.x, -a.y, -a.z}; }
template <class S> LANES_INLINE void operator+=(Vector<S>& a, const Vector<S>& b) { a = a + b; }
template <class S> LANES_INLINE void operator-=(Vector<S>& a, const Vector<S>& b) { a = a - b; }
template <class S> LANES_INLINE S dot(const Vector<S>& a, const Vector<S>& b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
// Product by components.
template <class S> LANES_INLINE Vector<S> multiply(const Vector<S>& a, const Vector<S>& b) {
    return {a.x * b.x, a.y * b.y, a.z * b.z};
}
template <class S> LANES_INLINE Vector<S> cross(const Vector<S>& a, const Vector<S>& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// A matrix by its columns.
template <class S> struct Matrix {
    Vector<S> x, y, z;
};
template <class S> LANES_INLINE Matrix<S> operator+(const Matrix<S>& a, const Matrix<S>& b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class S> LANES_INLINE Matrix<S> operator*(const Matrix<S>& a, S s) { return {a.x * s, a.y * s, a.z * s}; }
template <class S> LANES_INLINE Vector<S> operator*(const Matrix<S>& a, const Vector<S>& b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class S> LANES_INLINE Matrix<S> operator*(const Matrix<S>& a, const Matrix<S>& b) {
    return {a * b.x, a * b.y, a * b.z};
}
template <class S> LANES_INLINE Matrix<S> transpose(const Matrix<S>& a) {
    return {{a.x.x, a.y.x, a.z.x}, {a.x.y, a.y.y, a.z.y}, {a.x.z, a.y.z, a.z.z}};
}
// Frobenius inner product.
template <class S> LANES_INLINE S inner(const Matrix<S>& a, const Matrix<S>& b) {
    return dot(a.x, b.x) + dot(a.y, b.y) + dot(a.z, b.z);
}

// A symmetric matrix: xx, yy, zz, yz, zx, xy.
template <class S> struct Symmetric {
    S c[6];
    LANES_MEMBER Vector<S> operator*(const Vector<S>& a) const {
        return {c[0] * a.x + c[5] * a.y + c[4] * a.z, c[5] * a.x + c[1] * a.y + c[3] * a.z,
                c[4] * a.x + c[3] * a.y + c[2] * a.z};
    }
    // Gradient of a . (this b).
    LANES_MEMBER void add_adjoint(const Vector<S>& a, const Vector<S>& b) {
        c[0] += a.x * b.x, c[1] += a.y * b.y, c[2] += a.z * b.z;
        c[3] += a.y * b.z + a.z * b.y, c[4] += a.z * b.x + a.x * b.z, c[5] += a.x * b.y + a.y * b.x;
    }
};

template <class S> LANES_INLINE Symmetric<S> inverse(const Symmetric<S>& a) {
    const S* c = a.c;
    const S xx = c[1] * c[2] - c[3] * c[3], xy = c[3] * c[4] - c[5] * c[2], xz = c[5] * c[3] - c[1] * c[4];
    const S d = 1 / (c[0] * xx + c[5] * xy + c[4] * xz);
    return {{xx * d, (c[0] * c[2] - c[4] * c[4]) * d, (c[0] * c[1] - c[5] * c[5]) * d, (c[5] * c[4] - c[0] * c[3]) * d,
             xz * d, xy * d}};
}

// A quaternion: vector part and real part. Unit quaternions are rotations.
template <class S> struct Quaternion {
    Vector<S> a;
    S w;
};
template <class S> LANES_INLINE Quaternion<S> operator*(const Quaternion<S>& p, const Quaternion<S>& q) {
    return {cross(p.a, q.a) + p.a * q.w + q.a * p.w, p.w * q.w - dot(p.a, q.a)};
}
// Products with a pure quaternion.
template <class S> LANES_INLINE Quaternion<S> operator*(const Quaternion<S>& p, const Vector<S>& b) {
    return {cross(p.a, b) + b * p.w, -dot(p.a, b)};
}
template <class S> LANES_INLINE Quaternion<S> operator*(const Vector<S>& b, const Quaternion<S>& p) {
    return {cross(b, p.a) + b * p.w, -dot(p.a, b)};
}
template <class S> LANES_INLINE Quaternion<S> operator+(const Quaternion<S>& p, const Quaternion<S>& q) {
    return {p.a + q.a, p.w + q.w};
}
template <class S> LANES_INLINE Quaternion<S> scaled(const Quaternion<S>& p, S s) { return {p.a * s, p.w * s}; }
template <class S> LANES_INLINE Quaternion<S> conjugate(const Quaternion<S>& p) { return {-p.a, p.w}; }

// 1 / sqrt(a), a neither zero nor denormal. A square root and a division of lanes take 40 to 60 cycles; an estimate,
// refined by Newton's method to one or two units in the last place, takes a quarter of that.
template <class S> LANES_INLINE S inverse_root(S a) { return 1 / square_root(a); }
#ifdef __AVX512F__
LANES_INLINE Lanes<float> inverse_root(Lanes<float> a) {
    const Lanes<float> r = __builtin_ia32_rsqrt14ps512_mask(a, Lanes<float>{}, -1);
    return r + r * (0.5f * (1.0f - a * r * r));
}
LANES_INLINE Lanes<double> inverse_root(Lanes<double> a) {
    Lanes<double> r = __builtin_ia32_rsqrt14pd512_mask(a, Lanes<double>{}, -1);
    r = r + r * (0.5 * (1.0 - a * r * r));
    return r + r * (0.5 * (1.0 - a * r * r));
}
#endif
template <class S> LANES_INLINE S length(const Vector<S>& a) { return square_root(dot(a, a)); }
template <class S> LANES_INLINE Quaternion<S> normalized(const Quaternion<S>& p) {
    return scaled(p, inverse_root(dot(p.a, p.a) + p.w * p.w));
}

// The matrix of a unit quaternion; its columns are the rotated axes.
template <class S> LANES_INLINE Matrix<S> rotation_matrix(const Quaternion<S>& q) {
    const Vector<S> a = q.a, d = q.a + q.a, wd = d * q.w;
    const S xx = a.x * d.x, yy = a.y * d.y, zz = a.z * d.z, xy = a.x * d.y, yz = a.y * d.z, zx = a.z * d.x;
    return {{1 - (yy + zz), xy + wd.z, zx - wd.y},
            {xy - wd.z, 1 - (xx + zz), yz + wd.x},
            {zx + wd.y, yz - wd.x, 1 - (xx + yy)}};
}

// `broadcast` repeats a number in all lanes; `sum_lanes` is its adjoint. Both leave lanes as they are.
LANES_INLINE Lanes<float> broadcast(float a) { return splat(a); }
LANES_INLINE Lanes<double> broadcast(double a) { return splat(a); }
LANES_INLINE Lanes<float> broadcast(Lanes<float> a) { return a; }
LANES_INLINE Lanes<double> broadcast(Lanes<double> a) { return a; }
template <class S> LANES_INLINE auto broadcast(const Vector<S>& a) -> Vector<decltype(broadcast(a.x))> {
    return {broadcast(a.x), broadcast(a.y), broadcast(a.z)};
}
template <class S> LANES_INLINE auto broadcast(const Matrix<S>& r) -> Matrix<decltype(broadcast(r.x.x))> {
    return {broadcast(r.x), broadcast(r.y), broadcast(r.z)};
}

LANES_INLINE void sum_lanes(Lanes<float> a, Lanes<float>& sum) { sum = a; }
LANES_INLINE void sum_lanes(Lanes<double> a, Lanes<double>& sum) { sum = a; }
LANES_INLINE void sum_lanes(Lanes<float> a, float& sum) {
    auto b = SHUFFLE(a, a, 0, 1, 2, 3, 4, 5, 6, 7) + SHUFFLE(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
    auto c = SHUFFLE(b, b, 0, 1, 2, 3) + SHUFFLE(b, b, 4, 5, 6, 7);
    auto d = SHUFFLE(c, c, 0, 1) + SHUFFLE(c, c, 2, 3);
    sum = d[0] + d[1];
}
LANES_INLINE void sum_lanes(Lanes<double> a, double& sum) {
    auto b = SHUFFLE(a, a, 0, 1, 2, 3) + SHUFFLE(a, a, 4, 5, 6, 7);
    auto c = SHUFFLE(b, b, 0, 1) + SHUFFLE(b, b, 2, 3);
    sum = c[0] + c[1];
}
template <class L, class S> LANES_INLINE void sum_lanes(const Vector<L>& a, Vector<S>& sum) {
    sum_lanes(a.x, sum.x), sum_lanes(a.y, sum.y), sum_lanes(a.z, sum.z);
}

}  // namespace gradsim
