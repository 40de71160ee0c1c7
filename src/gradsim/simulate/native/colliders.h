// Shapes of rigid bodies in contact with each other: signed distances with gradients, and their adjoints.
// ../forces/colliders.py and ../forces/pairs.py define them; the portable functions are the reference.
#pragma once
#include "space.h"

namespace gradsim {

template <class T> LANES_INLINE T cube_root(T a) { return (T)__builtin_cbrt((double)a); }
template <class T> LANES_INLINE Lanes<T> cube_root(Lanes<T> a) {
    for (int k = 0; k < LaneTypes<T>::width; k++) a[k] = (T)__builtin_cbrt((double)a[k]);
    return a;
}

// The distance from a shape at a point, and its gradient.
template <class L> struct Distance {
    L value;
    Vector<L> n;
};

// A box of half sizes `extent` about `offset`; spheres and capsules have extents of zero.
template <class T> struct CoreShape {
    typedef Lanes<T> L;
    Vector<L> offset, extent;

    LANES_MEMBER Vector<L> outside(const Vector<L>& a) const {
        return {magnitude(a.x) - extent.x, magnitude(a.y) - extent.y, magnitude(a.z) - extent.z};
    }
    // A lower bound of the distance, which changes no faster than a distance.
    LANES_MEMBER L bound(const Vector<L>& y) const {
        const Vector<L> q = outside(y - offset);
        return larger(larger(q.x, q.y), q.z);
    }
    LANES_MEMBER Distance<L> operator()(const Vector<L>& y) const {
        const Vector<L> a = y - offset, q = outside(a);
        const L zero = {}, one = zero + T(1), sx = a.x < 0 ? -one : one, sy = a.y < 0 ? -one : one,
                sz = a.z < 0 ? -one : one;
        const Vector<L> p = {larger(q.x, zero), larger(q.y, zero), larger(q.z, zero)};
        const L squared = dot(p, p), deepest = larger(larger(q.x, q.y), q.z);
        const auto out = squared > 0;
        const L per_gap = inverse_root(out ? squared : one);
        const auto on_x = (q.x >= q.y) & (q.x >= q.z);
        const auto on_y = q.y >= q.z;
        const L ix = on_x ? one : zero, iy = on_x ? zero : on_y ? one : zero, iz = on_x ? zero : on_y ? zero : one;
        return {out ? squared * per_gap : deepest,
                {sx * (out ? p.x * per_gap : ix), sy * (out ? p.y * per_gap : iy), sz * (out ? p.z * per_gap : iz)}};
    }
    // The adjoint of the point, for those of distance and gradient; adds that of the extent.
    LANES_MEMBER Vector<L> adjoint(const Vector<L>& y, const Distance<L>& at, L value_adj, const Vector<L>& n_adj,
                                   Vector<L>& extent_adj) const {
        const Vector<L> a = y - offset, q = outside(a);
        const L zero = {}, one = zero + T(1);
        const Vector<L> p = {larger(q.x, zero), larger(q.y, zero), larger(q.z, zero)};
        const L squared = dot(p, p), per_gap = squared > 0 ? inverse_root(squared > 0 ? squared : one) : zero;
        const Vector<L> outward = {q.x > 0 ? n_adj.x : zero, q.y > 0 ? n_adj.y : zero, q.z > 0 ? n_adj.z : zero};
        const Vector<L> y_adj = (outward - at.n * dot(at.n, outward)) * per_gap + at.n * value_adj;
        extent_adj += Vector<L>{a.x < 0 ? y_adj.x : -y_adj.x, a.y < 0 ? y_adj.y : -y_adj.y, a.z < 0 ? y_adj.z : -y_adj.z};
        return y_adj;
    }
};

// Weights of a cubic B-spline at four nodes, and their first and second derivatives.
template <class T> struct SplineWeights {
    typedef Lanes<T> L;
    L w[4], d[4], s[4];
    LANES_MEMBER explicit SplineWeights(L t) {
        const L m = T(1) - t, sixth = L{} + T(1.0 / 6.0);
        w[0] = m * m * m * sixth, w[3] = t * t * t * sixth;
        w[1] = (t * t * (T(3) * t - T(6)) + T(4)) * sixth;
        w[2] = (t * (T(3) + t * (T(3) - T(3) * t)) + T(1)) * sixth;
        d[0] = T(-0.5) * m * m, d[3] = T(0.5) * t * t;
        d[1] = T(0.5) * t * (T(3) * t - T(4));
        d[2] = T(0.5) * (T(1) + t * (T(2) - T(3) * t));
        s[0] = m, s[3] = t, s[1] = T(3) * t - T(2), s[2] = T(1) - T(3) * t;
    }
};

// A mesh scaled by `extent` about `offset`: its distance on a grid, times the mean scale.
template <class T> struct GridShape {
    typedef Lanes<T> L;
    Vector<L> offset, extent;
    L size;  // geometric mean of the extents
    const DistanceGrid<T>* grid;

    // The cell of a point in each lane, the point in it, and the first of its nodes.
    struct Cell {
        Vector<L> t;
        Mask<T> inside;
        const T* at[LaneTypes<T>::width];
    };
    LANES_MEMBER Vector<L> in_mesh(const Vector<L>& y) const {
        const Vector<L> a = y - offset;
        return {a.x / extent.x, a.y / extent.y, a.z / extent.z};
    }
    LANES_MEMBER Vector<L> in_cells(const Vector<L>& y) const {
        const Vector<L> x = in_mesh(y);
        return {(x.x - T(grid->origin[0])) * T(grid->per_spacing), (x.y - T(grid->origin[1])) * T(grid->per_spacing),
                (x.z - T(grid->origin[2])) * T(grid->per_spacing)};
    }
    LANES_MEMBER L bound(const Vector<L>& y) const {
        const Vector<L> u = in_cells(y);
        auto outside = [&](L a, long long n) LANES_LAMBDA { return larger(T(1) - a, a - T(n - 2)); };
        const L cells = larger(larger(outside(u.x, grid->nx), outside(u.y, grid->ny)), outside(u.z, grid->nz));
        const L smallest = smaller(smaller(extent.x, extent.y), extent.z);
        return smallest * (cells / T(grid->per_spacing) + T(grid->padding));
    }
    LANES_MEMBER Cell cell(const Vector<L>& y) const {
        Cell r;
        const Vector<L> u = in_cells(y);
        auto floor = [&](L a, long long n) LANES_LAMBDA {
            return clamp(__builtin_elementwise_floor(a), L{} + T(1), L{} + T(n - 3));
        };
        const Vector<L> i = {floor(u.x, grid->nx), floor(u.y, grid->ny), floor(u.z, grid->nz)};
        r.t = u - i;
        auto within = [&](L t) LANES_LAMBDA { return (t >= 0) & (t < 1); };
        r.inside = within(r.t.x) & within(r.t.y) & within(r.t.z);
        r.t = {saturate(r.t.x), saturate(r.t.y), saturate(r.t.z)};
        for (int k = 0; k < LaneTypes<T>::width; k++)
            r.at[k] = grid->coefficients +
                      (((long long)i.x[k] - 1) * grid->ny + ((long long)i.y[k] - 1)) * grid->nz + ((long long)i.z[k] - 1);
        return r;
    }
    // Calls visit(i, j, values of the four nodes along z), one cell per lane.
    template <class F> LANES_MEMBER void for_each_line(const Cell& c, F visit) const {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                const long long start = (i * grid->ny + j) * grid->nz;
                L line[4];
                for (int k = 0; k < LaneTypes<T>::width; k++)
                    for (int m = 0; m < 4; m++) line[m][k] = c.at[k][start + m];
                visit(i, j, line);
            }
    }
    LANES_MEMBER Distance<L> operator()(const Vector<L>& y) const {
        const Cell c = cell(y);
        const SplineWeights<T> x(c.t.x), yy(c.t.y), z(c.t.z);
        L value = {};
        Vector<L> g = {};
        for_each_line(c, [&](int i, int j, const L* line) LANES_LAMBDA {
            const L a = z.w[0] * line[0] + z.w[1] * line[1] + z.w[2] * line[2] + z.w[3] * line[3];
            const L b = z.d[0] * line[0] + z.d[1] * line[1] + z.d[2] * line[2] + z.d[3] * line[3];
            value += x.w[i] * yy.w[j] * a;
            g += Vector<L>{x.d[i] * yy.w[j] * a, x.w[i] * yy.d[j] * a, x.w[i] * yy.w[j] * b};
        });
        const L factor = size * T(grid->per_spacing);
        return {c.inside ? value * size : L{} + T(1e6),
                {g.x * factor / extent.x, g.y * factor / extent.y, g.z * factor / extent.z}};
    }
    LANES_MEMBER Vector<L> adjoint(const Vector<L>& y, const Distance<L>& at, L value_adj, const Vector<L>& n_adj,
                                   Vector<L>& extent_adj) const {
        const Cell c = cell(y);
        const SplineWeights<T> x(c.t.x), yy(c.t.y), z(c.t.z);
        Symmetric<L> h = {};
        for_each_line(c, [&](int i, int j, const L* line) LANES_LAMBDA {
            const L a = z.w[0] * line[0] + z.w[1] * line[1] + z.w[2] * line[2] + z.w[3] * line[3];
            const L b = z.d[0] * line[0] + z.d[1] * line[1] + z.d[2] * line[2] + z.d[3] * line[3];
            const L s = z.s[0] * line[0] + z.s[1] * line[1] + z.s[2] * line[2] + z.s[3] * line[3];
            h.c[0] += x.s[i] * yy.w[j] * a, h.c[1] += x.w[i] * yy.s[j] * a, h.c[2] += x.w[i] * yy.w[j] * s;
            h.c[3] += x.w[i] * yy.d[j] * b, h.c[4] += x.d[i] * yy.w[j] * b, h.c[5] += x.d[i] * yy.d[j] * a;
        });
        // value = size phi(x), n = size grad phi / extent, x = (y - offset) / extent, size^3 = product of the extents
        const T per = T(grid->per_spacing);
        const Vector<L> per_extent = {T(1) / extent.x, T(1) / extent.y, T(1) / extent.z};
        const Vector<L> g_adj = multiply(n_adj, per_extent) * size;
        const Vector<L> x_adj = (h * g_adj) * (per * per) + multiply(at.n, extent) * value_adj;
        const Vector<L> y_adj = multiply(x_adj, per_extent);
        const L size_adj = (at.value * value_adj + dot(at.n, n_adj)) * T(1.0 / 3.0);  // times the size
        const Vector<L> scaled = multiply(y_adj, y - offset) + multiply(at.n, n_adj);
        extent_adj += multiply(Vector<L>{size_adj, size_adj, size_adj} - scaled, per_extent);
        return y_adj;
    }
};

}  // namespace gradsim
