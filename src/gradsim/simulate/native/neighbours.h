// The pairs of rigid bodies that may touch soon: a list that holds until a body has moved by a margin.
#pragma once
#include "coupled_bodies.h"

namespace gradsim {

// Bodies in cells of a grid, in a hash table. Much larger bodies than the mean are tested against all others instead, so
// that the cells stay small. In lanes, a body is a sphere that contains those of all worlds.
template <class T, class S> struct Neighbours {
    static constexpr int table = 4;  // entries of the hash table for each body, at most
    const CoupledBodies<T, S>* bodies;
    S* bounds;          // radii of the bodies
    Vector<S>* listed;  // positions for which the list was made
    T* spheres;         // x, y, z, radius
    int *pairs, *heads, *next, *cells;
    int capacity, count = -1;
    S margin;  // a list is valid until a body has moved so far

    LANES_MEMBER Neighbours() : bodies(nullptr), capacity(0) {}
    // `memory` holds `sizes::neighbour_scratch` numbers for each body and lane, then the spheres, integers and pairs.
    LANES_MEMBER Neighbours(const CoupledBodies<T, S>& bodies_, int capacity_, S* memory)
        : bodies(&bodies_), capacity(capacity_) {
        const int n = bodies->count;
        bounds = memory;
        listed = (Vector<S>*)(memory + n);
        spheres = (T*)(memory + n * sizes::neighbour_scratch);
        heads = (int*)(spheres + 4 * n);
        next = heads + table * n;
        cells = next + n;
        pairs = cells + 3 * n;
    }
    LANES_MEMBER void set_bound(int b, S bound) {
        bounds[b] = bound;
        margin = b ? margin + bound : bound;
        if (b == bodies->count - 1) margin = margin * (T(0.25) / T(bodies->count));
    }
    LANES_MEMBER const Vector<S>& position(int b) const { return bodies->all[b].step.s.p; }
    LANES_MEMBER bool is_near(int a, int b) const {
        const Vector<S> d = position(a) - position(b);
        const S reach = bounds[a] + bounds[b];
        return any(dot(d, d) < reach * reach);
    }

    // Calls visit(a, b), a < b, for pairs whose bounding spheres overlap, in order; `touches` tells which pairs may.
    template <class G, class F> LANES_MEMBER void for_each(G touches, F visit) {
        if (capacity && !is_valid()) list(touches);
        if (count >= 0) {
            for (int k = 0; k < count; k++)
                if (is_near(pairs[2 * k], pairs[2 * k + 1])) visit(pairs[2 * k], pairs[2 * k + 1]);
            return;
        }
        for (int a = 0; a < bodies->count; a++)
            for (int b = a + 1; b < bodies->count; b++)
                if (touches(a, b) && is_near(a, b)) visit(a, b);
    }
    LANES_MEMBER bool is_valid() const {
        if (count < 0) return false;
        for (int b = 0; b < bodies->count; b++) {
            const Vector<S> moved = position(b) - listed[b];
            if (any(dot(moved, moved) >= margin * margin)) return false;
        }
        return true;
    }

    // Sets the spheres and returns the mean radius.
    LANES_MEMBER T set_spheres() {
        T total = 0;
        for (int b = 0; b < bodies->count; b++) {
            const Vector<S> p = listed[b] = position(b);
            T* sphere = spheres + 4 * b;
            const T *x = (const T*)&p.x, *y = (const T*)&p.y, *z = (const T*)&p.z, *r = (const T*)&bounds[b];
            sphere[0] = x[0], sphere[1] = y[0], sphere[2] = z[0], sphere[3] = 0;
            for (int k = 0; k < LaneWorlds<T, S>::width; k++) {
                const T dx = x[k] - x[0], dy = y[k] - y[0], dz = z[k] - z[0];
                sphere[3] = larger(sphere[3], square_root(dx * dx + dy * dy + dz * dz) + r[k]);
            }
            total += sphere[3];
        }
        return total / T(bodies->count);
    }
    LANES_MEMBER int hash(int x, int y, int z, int mask) const {
        return ((unsigned)x * 73856093u ^ (unsigned)y * 19349663u ^ (unsigned)z * 83492791u) & (unsigned)mask;
    }
    // Adds a pair if it may touch before a body has moved by the margin, in order of the second body.
    template <class G> LANES_MEMBER void add(int first, int a, int b, T further, G touches) {
        const T *p = spheres + 4 * a, *q = spheres + 4 * b;
        const T dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2], reach = p[3] + q[3] + further;
        if (count < 0 || dx * dx + dy * dy + dz * dz >= reach * reach || !touches(a, b)) return;
        if (count == capacity) {
            count = -1;
            return;
        }
        int k = count++;
        for (; k > first && pairs[2 * k - 1] > b; k--) pairs[2 * k] = a, pairs[2 * k + 1] = pairs[2 * k - 1];
        pairs[2 * k] = a, pairs[2 * k + 1] = b;
    }
    // Makes the list; `count` is -1 if there are more pairs than its capacity.
    template <class G> __attribute__((noinline)) void list(G touches) {
        const int n = bodies->count;
        const T mean = set_spheres();
        T largest = 0, farther = 0;
        const T* own = (const T*)&margin;
        for (int k = 0; k < LaneWorlds<T, S>::width; k++) farther = larger(farther, T(2) * own[k]);
        for (int b = 0; b < n; b++)
            if (spheres[4 * b + 3] <= T(4) * mean) largest = larger(largest, spheres[4 * b + 3]);
        const T per_cell = 1 / (T(2) * largest + farther);
        int mask = 1;
        while (mask < 2 * n) mask *= 2;
        mask--;
        for (int k = 0; k <= mask; k++) heads[k] = -1;
        for (int b = n - 1; b >= 0; b--) {
            const T* sphere = spheres + 4 * b;
            next[b] = -2;  // a large body
            if (sphere[3] > T(4) * mean) continue;
            int* cell = cells + 3 * b;
            for (int k = 0; k < 3; k++) {
                const T at = __builtin_elementwise_floor(clamp(sphere[k] * per_cell, T(-1e8), T(1e8)));
                cell[k] = (int)at;
            }
            int& head = heads[hash(cell[0], cell[1], cell[2], mask)];
            next[b] = head, head = b;
        }
        count = 0;
        for (int a = 0; a < n; a++) {
            const int first = count;
            if (next[a] == -2) {
                for (int b = a + 1; b < n; b++) add(first, a, b, farther, touches);
                continue;
            }
            for (int b = a + 1; b < n; b++)
                if (next[b] == -2) add(first, a, b, farther, touches);
            for (int k = 0; k < 27; k++) {
                const int x = cells[3 * a] + k / 9 - 1, y = cells[3 * a + 1] + k / 3 % 3 - 1, z = cells[3 * a + 2] + k % 3 - 1;
                for (int b = heads[hash(x, y, z, mask)]; b >= 0; b = next[b])
                    if (b > a && cells[3 * b] == x && cells[3 * b + 1] == y && cells[3 * b + 2] == z)
                        add(first, a, b, farther, touches);
            }
            if (count < 0) return;
        }
    }
};

}  // namespace gradsim
