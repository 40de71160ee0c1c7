// Rotations of the neighbourhoods of nodes since the factor of the matrix: in rotated coordinates a body that turns keeps
// its stiffness, so that its factor serves more steps. They only precondition; nothing else depends on them.
#pragma once
#include "sparse_cholesky.h"

namespace gradsim {

template <class T> struct Corotation {
    const ImplicitSystem<T>& all;
    double *places, *turns;  // of the nodes at the factor; quaternions since, [nodes, 4] each

    LANES_MEMBER Corotation(const ImplicitSystem<T>& system, double* memory, long long count)
        : all(system), places(memory), turns(memory + 4 * count) {}

    void begin(const T* x) const {
        for (long long k = 0; k < all.node_count; k++)
            for (int c = 0; c < 4; c++) places[4 * k + c] = x[4 * k + c], turns[4 * k + c] = c == 3;
    }
    // The rotations that bring the nodes around each from their places at the factor to x, as well as possible (Müller,
    // Bender, Chentanez and Macklin 2016), from those of the last call.
    void update(const T* x) const {
        for (long long k = 0; k < all.node_count; k++) {
            Matrix<double> moments = {};
            for (int p = all.near_offsets[k]; p < all.near_offsets[k + 1]; p++) {
                const int j = all.near[p];
                const double* from = places + j;
                const double* origin = places + 4 * k;
                const T *to = x + j, *center = x + 4 * k;
                const Vector<double> b = {(double)to[0] - center[0], (double)to[1] - center[1], (double)to[2] - center[2]};
                moments.x += b * (from[0] - origin[0]), moments.y += b * (from[1] - origin[1]);
                moments.z += b * (from[2] - origin[2]);
            }
            turn(moments, turns + 4 * k);
        }
    }
    // Turns a vector of four scalars a node from the coordinates of the factor to the present ones, or back.
    void rotate(double* z, bool back) const {
        const double sign = back ? -1 : 1;
        for (long long k = 0; k < all.node_count; k++) {
            const double* q = turns + 4 * k;
            const Vector<double> a = {sign * q[0], sign * q[1], sign * q[2]}, v = {z[4 * k], z[4 * k + 1], z[4 * k + 2]};
            const Vector<double> t = cross(a, v) * 2.0, r = v + t * q[3] + cross(a, t);
            z[4 * k] = r.x, z[4 * k + 1] = r.y, z[4 * k + 2] = r.z;
        }
    }

private:
    static void turn(const Matrix<double>& moments, double* q) {
        for (int iteration = 0; iteration < 20; iteration++) {
            const double x = q[0], y = q[1], z = q[2], w = q[3];
            const Vector<double> r0 = {1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)};
            const Vector<double> r1 = {2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w)};
            const Vector<double> r2 = {2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)};
            const double scale = magnitude(dot(r0, moments.x) + dot(r1, moments.y) + dot(r2, moments.z));
            if (!(scale > 0)) return;
            const Vector<double> half = (cross(r0, moments.x) + cross(r1, moments.y) + cross(r2, moments.z)) * (0.5 / scale);
            const double length = 1 / square_root(1 + dot(half, half));
            const Vector<double> a = {x, y, z};
            const Vector<double> b = (half * w + a + cross(half, a)) * length;
            q[3] = (w - dot(half, a)) * length, q[0] = b.x, q[1] = b.y, q[2] = b.z;
            if (dot(half, half) < 1e-10) return;
        }
    }
};

}  // namespace gradsim
