// Contact of nodes with nodes and its adjoint, `width` pairs at a time, for all nodes of a world at once.
// The portable kernels of ../forces/node_pairs.py are the reference; which pairs are listed does not change the result.
#pragma once
#include "contact_law.h"
#include "nodes.h"

namespace gradsim {

// The balls of a world, and the list of pairs that may touch.
template <class T> struct BallList {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const Nodes<T>& nodes;
    const Table<T>& table;
    int count, capacity, bucket_count;
    long long first;                            // element of the tables
    const int *id, *group, *offsets, *smaller;  // places in the buffers; groups and lists of pairs that never touch
    // Of the list: reach of the pairs in it (0: none) and positions at which it was made; -1 pairs: too many, try all.
    T *reach, *made_at;
    int *pair_count, *pairs, *buckets, *next;

    LANES_MEMBER BallList(const ForceArrays<T>& force, const Nodes<T>& nodes_, int world)
        : nodes(nodes_), table(force.tables[0]) {
        count = (int)force.count;
        first = (long long)world * count;
        id = force.ints(0) + first;
        const int* fixed = force.ints(1);
        capacity = fixed[0], bucket_count = fixed[1];
        group = fixed + 2, offsets = group + count, smaller = offsets + count + 1;
        reach = (T*)force.constants[2] + world * (3ll * count + 1), made_at = reach + 1;
        pair_count = (int*)force.constants[3] + world * (1ll + 2 * capacity + bucket_count + count);
        pairs = pair_count + 1, buckets = pairs + 2 * capacity, next = buckets + bucket_count;
    }
    LANES_MEMBER T radius(int a) const { return table.value[node_pair_row::radius * table.stride + first + a]; }
    LANES_MEMBER Vector<T> point(int a) const {
        const T* x = nodes.x + id[a];
        return {x[0], x[1], x[2]};
    }
    LANES_MEMBER bool may_collide(int a, int b) const {
        if (group[a] == group[b] && group[a] < 0) return false;
        for (int k = offsets[a]; k < offsets[a + 1]; k++)
            if (smaller[k] == b) return false;
        return true;
    }

    // Renews the list if nodes have moved too far since it was made, apart from a common translation.
    LANES_MEMBER void update() const {
        T largest = 0;
        for (int a = 0; a < count; a++) largest = radius(a) > largest ? radius(a) : largest;
        const T spare = *reach - 2 * largest;
        if (spare > 0) {
            Vector<T> mean = {};
            for (int a = 0; a < count; a++) mean += point(a) - old_point(a);
            mean = mean * (T(1) / T(count));
            T moved2 = 0;
            for (int a = 0; a < count; a++) {
                const Vector<T> d = point(a) - old_point(a) - mean;
                moved2 = dot(d, d) > moved2 ? dot(d, d) : moved2;
            }
            if (4 * moved2 < spare * spare) return;
        }
        make(T(3.2) * largest);
    }
    LANES_MEMBER Vector<T> old_point(int a) const { return {made_at[3 * a], made_at[3 * a + 1], made_at[3 * a + 2]}; }

    // Everything beyond the outermost cells, as in a motion that diverges, is in these.
    LANES_MEMBER static int cell_of(T x, T per_cell) {
        return (int)__builtin_elementwise_floor(clamp(x * per_cell, T(-1e8), T(1e8)));
    }
    LANES_MEMBER int bucket(int x, int y, int z) const {
        const unsigned hash = (unsigned)x * 73856093u ^ (unsigned)y * 19349663u ^ (unsigned)z * 83492791u;
        return (int)(hash & (unsigned)(bucket_count - 1));
    }
    // Lists all pairs closer than `distance`, ordered by their larger element, then by the smaller one.
    LANES_MEMBER void make(T distance) const {
        const T per_cell = 1 / distance;
        *reach = distance;
        int listed = 0;
        for (int k = 0; k < bucket_count; k++) buckets[k] = -1;
        for (int a = 0; a < count; a++) {
            const Vector<T> x = point(a);
            made_at[3 * a] = x.x, made_at[3 * a + 1] = x.y, made_at[3 * a + 2] = x.z;
            const int cx = cell_of(x.x, per_cell), cy = cell_of(x.y, per_cell), cz = cell_of(x.z, per_cell);
            const int begin = listed;
            for (int cell = 0; cell < 27 && listed >= 0; cell++) {
                const int ox = cx + cell % 3 - 1, oy = cy + cell / 3 % 3 - 1, oz = cz + cell / 9 - 1;
                for (int b = buckets[bucket(ox, oy, oz)]; b >= 0 && listed >= 0; b = next[b]) {
                    const Vector<T> y = old_point(b), d = x - y;
                    if (!(dot(d, d) < distance * distance) || cell_of(y.x, per_cell) != ox ||
                        cell_of(y.y, per_cell) != oy || cell_of(y.z, per_cell) != oz || !may_collide(a, b))
                        continue;
                    listed = listed < capacity ? insert(begin, listed, a, b) : -1;
                }
            }
            const int own = bucket(cx, cy, cz);
            next[a] = buckets[own], buckets[own] = a;
        }
        *pair_count = listed;
    }
    LANES_MEMBER int insert(int begin, int end, int a, int b) const {
        int at = end;
        for (; at > begin && pairs[2 * at - 1] > b; at--) pairs[2 * at + 1] = pairs[2 * at - 1];
        pairs[2 * end] = a, pairs[2 * at + 1] = b;
        return end + 1;
    }

    // Calls visit(a, b, n) with `width` elements each of n pairs that touch; the lanes after them repeat the last pair.
    template <class F> LANES_MEMBER void for_each_contact(F visit) const {
        update();
        int a[width], b[width], n = 0;
        auto add = [&](int one, int other) LANES_LAMBDA {
            const Vector<T> d = point(one) - point(other);
            const T sum = radius(one) + radius(other), d2 = dot(d, d);
            if (!(d2 < sum * sum) || !(d2 > 0)) return;
            a[n] = one, b[n] = other;
            if (++n < width) return;
            visit(a, b, n);
            n = 0;
        };
        for (int k = 0; k < *pair_count; k++) add(pairs[2 * k], pairs[2 * k + 1]);
        if (*pair_count < 0)
            for (int one = 0; one < count; one++)
                for (int other = 0; other < one; other++)
                    if (may_collide(one, other)) add(one, other);
        if (!n) return;
        for (int k = n; k < width; k++) a[k] = a[n - 1], b[k] = b[n - 1];
        visit(a, b, n);
    }

    LANES_MEMBER L mean(int row, const int* a, const int* b) const {
        const T* values = table.value + row * table.stride + first;
        L mean;
        for (int k = 0; k < width; k++) mean[k] = T(0.5) * (values[a[k]] + values[b[k]]);
        return mean;
    }
    LANES_MEMBER ContactLaw<L> law(const int* a, const int* b) const {
        const L delta = mean(contact_row::delta, a, b);
        const auto smooth = delta > T(0);
        const L per_delta = smooth ? T(1) / delta : splat(T(1e30));
        return {mean(contact_row::ke, a, b), mean(contact_row::kd, a, b), mean(contact_row::kf, a, b),
                mean(contact_row::mu, a, b), delta, per_delta, any(~smooth)};
    }
};

// Geometry of `width` pairs; the depth of unused lanes is zero.
template <class T> struct BallPairs {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    int one[width], other[width];  // places in the buffers
    L distance, depth;
    Vector<L> n, v;
    LANES_MEMBER BallPairs(const BallList<T>& balls, const int* a, const int* b, int used) {
        for (int k = 0; k < width; k++) one[k] = balls.id[a[k]], other[k] = balls.id[b[k]];
        const Vector<L> d = gather(balls.nodes.x, one) - gather(balls.nodes.x, other);
        distance = length(d);
        n = d * (T(1) / distance);
        v = gather(balls.nodes.v, one) - gather(balls.nodes.v, other);
        depth = larger(T(2) * balls.mean(node_pair_row::radius, a, b) - distance, L{});
        for (int k = used; k < width; k++) depth[k] = 0;
    }
};

template <class T>
static __attribute__((noinline)) void node_pair_force(const ForceArrays<T>& force, int world, const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const BallList<T> balls(force, nodes, world);
    balls.for_each_contact([&](const int* a, const int* b, int used) LANES_LAMBDA {
        const BallPairs<T> pairs(balls, a, b, used);
        const Vector<L> f = contact_force<T>(balls.law(a, b), pairs.depth, pairs.n, pairs.v);
        scatter_add(nodes.f, pairs.one, f);
        scatter_add(nodes.f, pairs.other, -f);
    });
}

template <class T>
static __attribute__((noinline)) void node_pair_force_adjoint(const ForceArrays<T>& force, int world,
                                                              const Nodes<T>& nodes) {
    typedef Lanes<T> L;
    const BallList<T> balls(force, nodes, world);
    balls.for_each_contact([&](const int* a, const int* b, int used) LANES_LAMBDA {
        const BallPairs<T> pairs(balls, a, b, used);
        const Vector<L> n = pairs.n, f_adj = gather(nodes.f_adj, pairs.one) - gather(nodes.f_adj, pairs.other);
        const ContactAdjoint<L> adj = contact_force_adjoint<T>(balls.law(a, b), f_adj, pairs.depth, n, pairs.v);
        auto add = [&](int row, const L& value, T share) LANES_LAMBDA {
            T* grad = balls.table.grad + row * balls.table.stride + balls.first;
            for (int k = 0; k < used; k++) grad[a[k]] += share * value[k], grad[b[k]] += share * value[k];
        };
        for (int row = 0; row < contact_row::count; row++) add(row, adj.law[row], T(0.5));
        add(node_pair_row::radius, adj.c, T(1));
        const Vector<L> d_adj = (adj.n - n * dot(n, adj.n)) * (T(1) / pairs.distance) - n * adj.c;
        scatter_add(nodes.x_adj, pairs.one, d_adj);
        scatter_add(nodes.x_adj, pairs.other, -d_adj);
        scatter_add(nodes.v_adj, pairs.one, adj.v);
        scatter_add(nodes.v_adj, pairs.other, -adj.v);
    });
}

}  // namespace gradsim
