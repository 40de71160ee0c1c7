// Acceleration of a fixed-point iteration z += g(z) by the differences of its last steps (Anderson 1965; for a linear g
// the iterates are those of GMRES).
#pragma once
#include "sparse_cholesky.h"

namespace gradsim {

LANES_INLINE double product(const double* a, const double* b, long long size) {
    Wide sums = {};
    for (long long i = 0; i < size; i += wide) sums += load(a + i) * load(b + i);
    double sum = 0;
    for (int k = 0; k < wide; k++) sum += sums[k];
    return sum;
}
LANES_INLINE void add_multiple(double* a, double factor, const double* b, long long size) {
    for (long long i = 0; i < size; i += wide) store(a + i, load(a + i) + load(b + i) * factor);
}

struct Acceleration {
    static constexpr int capacity = implicit_sizes::history;
    long long size;  // of a vector, whole lanes
    double *steps, *changes;
    int count;

    LANES_MEMBER Acceleration(long long size_, double* memory)
        : size(size_), steps(memory), changes(memory + capacity * size_), count(0) {}

    // Adds a step and the change of g by it: makes the change orthogonal to the earlier ones, and of length one.
    void add(const double* step, const double* change) {
        if (count == capacity) count = 0;
        double *own = steps + count * size, *unit = changes + count * size;
        __builtin_memcpy(own, step, sizeof(double) * size);
        __builtin_memcpy(unit, change, sizeof(double) * size);
        const double before = product(unit, unit, size);
        for (int k = 0; k < count; k++) {
            const double part = product(unit, changes + k * size, size);
            add_multiple(unit, -part, changes + k * size, size);
            add_multiple(own, -part, steps + k * size, size);
        }
        const double square = product(unit, unit, size);
        if (!(square > 1e-20 * before)) return;
        const double scale = 1 / square_root(square);
        for (long long i = 0; i < size; i += wide) store(unit + i, load(unit + i) * scale), store(own + i, load(own + i) * scale);
        count++;
    }
    // Computes the next step from g.
    void next(const double* g, double* step) const {
        __builtin_memcpy(step, g, sizeof(double) * size);
        for (int k = 0; k < count; k++) {
            const double part = product(g, changes + k * size, size);
            add_multiple(step, -part, steps + k * size, size);
            add_multiple(step, -part, changes + k * size, size);
        }
    }
};

}  // namespace gradsim
