// Cholesky factor of a sparse symmetric matrix with blocks of 3 x 3, by dense fronts (Duff and Reid 1983), in double
// precision. ../../compile/elimination.py chooses the fronts. Dense matrices lie by columns, of which each starts a cache
// line; their rows are padded to whole lanes.
#pragma once
#include "lanes.h"

namespace gradsim {

typedef Lanes<double> Wide;
constexpr int wide = LaneTypes<double>::width;
LANES_INLINE int padded(int count) { return (count + wide - 1) / wide * wide; }

// c -= a b' for the columns [first, end) and the rows of whole lanes from the first column on, where all three are parts
// of one matrix: a and b have its rows and `depth` columns.
static __attribute__((noinline)) void subtract_products(const double* a, int depth, double* c, int stride, int first,
                                                        int end) {
    int j = first;
    for (; j + 4 <= end; j += 4)
        for (int i = j / wide * wide; i < stride; i += wide) {
            Wide s0 = {}, s1 = {}, s2 = {}, s3 = {};
            const double *rows = a + i, *b = a + j;
            for (int p = 0; p < depth; p++, rows += stride, b += stride) {
                const Wide r = load(rows);
                s0 += r * b[0], s1 += r * b[1], s2 += r * b[2], s3 += r * b[3];
            }
            double* to = c + (long long)j * stride + i;
            const Wide sums[4] = {s0, s1, s2, s3};
            for (int q = 0; q < 4; q++, to += stride) store(to, load(to) - sums[q]);
        }
    for (; j < end; j++)
        for (int i = j / wide * wide; i < stride; i += wide) {
            Wide s = {};
            for (int p = 0; p < depth; p++) s += load(a + (long long)p * stride + i) * a[(long long)p * stride + j];
            double* to = c + (long long)j * stride + i;
            store(to, load(to) - s);
        }
}

// Eliminates the first `count` of `size` unknowns of a dense matrix, of which the lower triangle counts: these columns
// become those of the factor, the others the Schur complement. Returns whether all pivots are positive.
static __attribute__((noinline)) bool eliminate(double* front, int size, int count, int stride) {
    constexpr int panel = 24;
    for (int first = 0; first < count; first += panel) {
        const int end = first + panel < count ? first + panel : count;
        for (int j = first; j < end; j++) {
            double* column = front + (long long)j * stride;
            for (int p = first; p < j; p++) {
                const double* other = front + (long long)p * stride;
                const double factor = other[j];
                for (int i = j / wide * wide; i < stride; i += wide)
                    store(column + i, load(column + i) - load(other + i) * factor);
            }
            if (!(column[j] > 0)) return false;
            const double scale = 1 / square_root(column[j]);
            for (int i = j / wide * wide; i < stride; i += wide) store(column + i, load(column + i) * scale);
        }
        subtract_products(front + (long long)first * stride, end - first, front, stride, end, size);
    }
    return true;
}

// The factor of a matrix; `T` is the scalar type of the simulation, which does not matter here.
template <class T> struct SparseCholesky {
    const ImplicitSystem<T>& all;
    LANES_MEMBER SparseCholesky(const ImplicitSystem<T>& system) : all(system) {}

    // Computes the factor of the matrix in `all.blocks` plus `diagonal` times the identity in the rows of each node, [N]
    // in steps of four. Returns false if it is not positive definite.
    LANES_MEMBER bool factorize(const double* diagonal) const {
        for (int q = 0; q < all.front_count; q++)
            if (!factorize_front(all.fronts[q], diagonal)) return false;
        return true;
    }

    // Replaces the vector z, four scalars a node, by the solution.
    void solve(double* z) const {
        for (int q = 0; q < all.front_count; q++) substitute(all.fronts[q], z);
        for (int q = (int)all.front_count - 1; q >= 0; q--) substitute_back(all.fronts[q], z);
    }

private:
    bool factorize_front(const Front<T>& front, const double* diagonal) const {
        const int size = 3 * front.size, own = 3 * front.own, stride = front.stride;
        double* work = all.work;
        __builtin_memset(work, 0, sizeof(double) * size * stride);
        const int* nodes = all.front_nodes + front.nodes;
        for (int a = 0; a < front.own; a++)
            for (int c = 0; c < 3; c++) work[(long long)(3 * a + c) * (stride + 1)] = diagonal[nodes[a]];
        for (long long k = front.blocks, end = k + front.block_count; k < end; k++) {
            const int* place = all.block_places + 2 * k;
            const double* block = all.blocks + 9 * k;
            double* to = work + (long long)(3 * place[1]) * stride + 3 * place[0];
            for (int j = 0; j < 3; j++)
                for (int i = 0; i < 3; i++) to[(long long)j * stride + i] += block[3 * j + i];
        }
        for (int k = 0; k < front.child_count; k++) add_update(all.fronts[all.children[front.children + k]], stride);
        if (!eliminate(work, size, own, stride)) return false;
        double *factor = all.factor + front.factor, *inverse = all.inverses + front.unknowns;
        __builtin_memcpy(factor, work, sizeof(double) * own * stride);
        for (int j = 0; j < own; j++) {
            double* column = factor + (long long)j * stride;
            inverse[j] = 1 / column[j];
            for (int i = 0; i <= j; i++) column[i] = 0;
        }
        const int left = size - own;
        double* update = all.stack + front.update;
        for (int j = 0; j < left; j++)
            __builtin_memcpy(update + (long long)j * left + j, work + (long long)(own + j) * stride + own + j,
                             sizeof(double) * (left - j));
        return true;
    }
    // Adds the Schur complement of a child to the front in `all.work`.
    void add_update(const Front<T>& child, int stride) const {
        const int count = child.size - child.own, left = 3 * count;
        const int* place = all.relative + child.relative;
        const double* update = all.stack + child.update;
        for (int a = 0; a < count; a++)
            for (int j = 0; j < 3; j++) {
                double* to = all.work + (long long)(3 * place[a] + j) * stride;
                const double* from = update + (long long)(3 * a + j) * left;
                for (int b = a; b < count; b++)
                    for (int i = 0; i < 3; i++) to[3 * place[b] + i] += a == b && i < j ? 0 : from[3 * b + i];
            }
    }
    void substitute(const Front<T>& front, double* z) const {
        const int own = 3 * front.own, stride = front.stride;
        const int* nodes = all.front_nodes + front.nodes;
        double* y = all.work;
        for (int a = 0; a < front.own; a++)
            for (int c = 0; c < 3; c++) y[3 * a + c] = z[nodes[a] + c];
        for (int i = own; i < stride; i++) y[i] = 0;
        const double* inverse = all.inverses + front.unknowns;
        for (int j = 0; j < own; j++) {
            const double* column = all.factor + front.factor + (long long)j * stride;
            const double value = y[j] *= inverse[j];
            for (int i = j / wide * wide; i < stride; i += wide) store(y + i, load(y + i) - load(column + i) * value);
        }
        for (int a = 0; a < front.own; a++)
            for (int c = 0; c < 3; c++) z[nodes[a] + c] = y[3 * a + c];
        for (int a = front.own; a < front.size; a++)
            for (int c = 0; c < 3; c++) z[nodes[a] + c] += y[3 * a + c];
    }
    void substitute_back(const Front<T>& front, double* z) const {
        const int own = 3 * front.own, stride = front.stride;
        const int* nodes = all.front_nodes + front.nodes;
        double* y = all.work;
        for (int a = 0; a < front.size; a++)
            for (int c = 0; c < 3; c++) y[3 * a + c] = z[nodes[a] + c];
        for (int i = 3 * front.size; i < stride; i++) y[i] = 0;
        const double* inverse = all.inverses + front.unknowns;
        for (int j = own - 1; j >= 0; j--) {
            const double* column = all.factor + front.factor + (long long)j * stride;
            Wide sums = {};
            for (int i = j / wide * wide; i < stride; i += wide) sums += load(column + i) * load(y + i);
            double sum = 0;
            for (int k = 0; k < wide; k++) sum += sums[k];
            y[j] = (y[j] - sum) * inverse[j];
        }
        for (int a = 0; a < front.own; a++)
            for (int c = 0; c < 3; c++) z[nodes[a] + c] = y[3 * a + c];
    }
};

}  // namespace gradsim
