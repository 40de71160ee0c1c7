// The updates of nodes between two evaluations of the forces and their adjoints, `width` nodes at a time.
// What they do stands in ../integrate.py, whose portable kernels are the reference.
#pragma once
#include "lanes.h"

namespace gradsim {

// x, y, z of `width` nodes one after the other, as they lie in the history.
template <class T> struct Triples {
    Lanes<T> c[3];
};
template <class T> LANES_INLINE Triples<T> operator+(const Triples<T>& a, const Triples<T>& b) {
    return {a.c[0] + b.c[0], a.c[1] + b.c[1], a.c[2] + b.c[2]};
}
template <class T> LANES_INLINE Triples<T> operator*(const Triples<T>& a, const Triples<T>& b) {
    return {a.c[0] * b.c[0], a.c[1] * b.c[1], a.c[2] * b.c[2]};
}
template <class T> LANES_INLINE Triples<T> operator*(const Triples<T>& a, T s) {
    return {a.c[0] * s, a.c[1] * s, a.c[2] * s};
}

// From a number a node to that number three times; from lanes of x, y, z to triples, and back.
LANES_INLINE Triples<float> repeated(Lanes<float> a) {
    return {SHUFFLE(a, a, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5),
            SHUFFLE(a, a, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 10),
            SHUFFLE(a, a, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15)};
}
LANES_INLINE Triples<float> interleaved(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
    return {SHUFFLE(SHUFFLE(a, b, 0, 16, -1, 1, 17, -1, 2, 18, -1, 3, 19, -1, 4, 20, -1, 5), c,
                    0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15),
            SHUFFLE(SHUFFLE(a, b, 21, -1, 6, 22, -1, 7, 23, -1, 8, 24, -1, 9, 25, -1, 10, 26), c,
                    0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15),
            SHUFFLE(SHUFFLE(a, b, -1, 11, 27, -1, 12, 28, -1, 13, 29, -1, 14, 30, -1, 15, 31, -1), c,
                    26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31)};
}
LANES_INLINE Vec<float> separated(const Triples<float>& t) {
    return {SHUFFLE(SHUFFLE(t.c[0], t.c[1], 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, -1, -1, -1, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29),
            SHUFFLE(SHUFFLE(t.c[0], t.c[1], 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, -1, -1, -1, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 21, 24, 27, 30),
            SHUFFLE(SHUFFLE(t.c[0], t.c[1], 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, -1, -1, -1, -1, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19, 22, 25, 28, 31)};
}
LANES_INLINE Triples<double> repeated(Lanes<double> a) {
    return {SHUFFLE(a, a, 0, 0, 0, 1, 1, 1, 2, 2),
            SHUFFLE(a, a, 2, 3, 3, 3, 4, 4, 4, 5),
            SHUFFLE(a, a, 5, 5, 6, 6, 6, 7, 7, 7)};
}
LANES_INLINE Triples<double> interleaved(Lanes<double> a, Lanes<double> b, Lanes<double> c) {
    return {SHUFFLE(SHUFFLE(a, b, 0, 8, -1, 1, 9, -1, 2, 10), c,
                    0, 1, 8, 3, 4, 9, 6, 7),
            SHUFFLE(SHUFFLE(a, b, -1, 3, 11, -1, 4, 12, -1, 5), c,
                    10, 1, 2, 11, 4, 5, 12, 7),
            SHUFFLE(SHUFFLE(a, b, 13, -1, 6, 14, -1, 7, 15, -1), c,
                    0, 13, 2, 3, 14, 5, 6, 15)};
}
LANES_INLINE Vec<double> separated(const Triples<double>& t) {
    return {SHUFFLE(SHUFFLE(t.c[0], t.c[1], 0, 3, 6, 9, 12, 15, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 5, 10, 13),
            SHUFFLE(SHUFFLE(t.c[0], t.c[1], 1, 4, 7, 10, 13, -1, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 8, 11, 14),
            SHUFFLE(SHUFFLE(t.c[0], t.c[1], 2, 5, 8, 11, 14, -1, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 9, 12, 15)};
}

// From rows of four scalars a node, of which the fourth is zero, to triples, and back.
LANES_INLINE Triples<float> from_rows(Lanes<float> a, Lanes<float> b, Lanes<float> c, Lanes<float> d) {
    return {SHUFFLE(a, b, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20),
            SHUFFLE(b, c, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25),
            SHUFFLE(c, d, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 26, 28, 29, 30)};
}
LANES_INLINE Lanes<float> without_fourth(Lanes<float> a) {
    return SHUFFLE(a, Lanes<float>{}, 0, 1, 2, 16, 4, 5, 6, 16, 8, 9, 10, 16, 12, 13, 14, 16);
}
LANES_INLINE void to_rows(float* p, const Triples<float>& t) {
    const Lanes<float> a = t.c[0], b = t.c[1], c = t.c[2];
    store(p, without_fourth(SHUFFLE(a, a, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1)));
    store(p + 16, without_fourth(SHUFFLE(a, b, 12, 13, 14, -1, 15, 16, 17, -1, 18, 19, 20, -1, 21, 22, 23, -1)));
    store(p + 32, without_fourth(SHUFFLE(b, c, 8, 9, 10, -1, 11, 12, 13, -1, 14, 15, 16, -1, 17, 18, 19, -1)));
    store(p + 48, without_fourth(SHUFFLE(c, c, 4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1)));
}
LANES_INLINE Triples<double> from_rows(Lanes<double> a, Lanes<double> b, Lanes<double> c, Lanes<double> d) {
    return {SHUFFLE(a, b, 0, 1, 2, 4, 5, 6, 8, 9),
            SHUFFLE(b, c, 2, 4, 5, 6, 8, 9, 10, 12),
            SHUFFLE(c, d, 5, 6, 8, 9, 10, 12, 13, 14)};
}
LANES_INLINE Lanes<double> without_fourth(Lanes<double> a) {
    return SHUFFLE(a, Lanes<double>{}, 0, 1, 2, 8, 4, 5, 6, 8);
}
LANES_INLINE void to_rows(double* p, const Triples<double>& t) {
    const Lanes<double> a = t.c[0], b = t.c[1], c = t.c[2];
    store(p, without_fourth(SHUFFLE(a, a, 0, 1, 2, -1, 3, 4, 5, -1)));
    store(p + 8, without_fourth(SHUFFLE(a, b, 6, 7, 8, -1, 9, 10, 11, -1)));
    store(p + 16, without_fourth(SHUFFLE(b, c, 4, 5, 6, -1, 7, 8, 9, -1)));
    store(p + 24, without_fourth(SHUFFLE(c, c, 2, 3, 4, -1, 5, 6, 7, -1)));
}

// All nodes of some worlds, of which each fills whole blocks; as ../node_march.py fills it in. What moves lies in rows
// of four scalars a node, the history in triples, a row an evaluation of the forces.
template <class T> struct Nodes {
    long long blocks;  // of a world
    long long row;     // scalars of the history an evaluation
    T *x, *v, *f;
    T *ax, *av, *af;  // adjoints
    T *xe, *ve;       // state at the start of a midpoint step; on the way back, the adjoint at its end
    T *xs, *vs, *fs;  // history
    const T* table;   // inverse mass and gravity
    T* atable;
    long long stride;
};

template <class T> struct NodeBlock {
    static constexpr int width = LaneTypes<T>::width;
    const Nodes<T>& all;
    long long first, place;  // nodes before the block, and scalars before it in the history
    LANES_MEMBER NodeBlock(const Nodes<T>& nodes, long long block, int r)
        : all(nodes), first(block * width), place(nodes.row * r + 3 * first) {}
    LANES_MEMBER Triples<T> read(const T* p) const {
        p += 4 * first;
        return from_rows(load(p), load(p + width), load(p + 2 * width), load(p + 3 * width));
    }
    LANES_MEMBER void write(T* p, const Triples<T>& t) const { to_rows(p + 4 * first, t); }
    LANES_MEMBER void clear(T* p) const {
        for (int k = 0; k < 4; k++) store(p + 4 * first + k * width, Lanes<T>{});
    }
    LANES_MEMBER Triples<T> recall(const T* p) const {
        p += place;
        return {load(p), load(p + width), load(p + 2 * width)};
    }
    LANES_MEMBER void record(T* p, const Triples<T>& t) const {
        for (int k = 0; k < 3; k++) store(p + place + k * width, t.c[k]);
    }
    LANES_MEMBER Triples<T> acceleration(const Triples<T>& f) const {
        const T* node = all.table + first;
        const Lanes<T> w = load(node), none = {};
        const auto held = w == T(0);
        const Lanes<T> gx = load(node + all.stride), gy = load(node + 2 * all.stride), gz = load(node + 3 * all.stride);
        return f * repeated(w) + interleaved(held ? none : gx, held ? none : gy, held ? none : gz);
    }
    // The adjoint of the force, from that of the acceleration.
    LANES_MEMBER Triples<T> acceleration_adjoint(const Triples<T>& f, const Triples<T>& aa) const {
        const Lanes<T> w = load(all.table + first), none = {};
        const auto held = w == T(0);
        const Vec<T> work = separated(aa * f), ag = separated(aa);
        T* p = all.atable + first;
        accumulate(p, held ? none : work.c[0] + work.c[1] + work.c[2]);
        for (int k = 0; k < 3; k++) accumulate(p + (k + 1) * all.stride, held ? none : ag.c[k]);
        return aa * repeated(w);
    }
    LANES_MEMBER void recall_state() const {
        write(all.x, recall(all.xs));
        write(all.v, recall(all.vs));
    }
};

// The state and the force that an update starts from.
template <class T> struct Present {
    Triples<T> x, v, f;
    LANES_MEMBER Present(const NodeBlock<T>& b, bool keep) : x(b.read(b.all.x)), v(b.read(b.all.v)), f(b.read(b.all.f)) {
        b.clear(b.all.f);
        if (keep) b.record(b.all.xs, x), b.record(b.all.vs, v), b.record(b.all.fs, f);
    }
};

template <class T> LANES_INLINE void node_euler(const NodeBlock<T>& b, T dt, bool keep) {
    const Present<T> s(b, keep);
    const Triples<T> v = s.v + b.acceleration(s.f) * dt;
    b.write(b.all.v, v);
    b.write(b.all.x, s.x + v * dt);
}
template <class T> LANES_INLINE void node_half(const NodeBlock<T>& b, T dt, bool keep) {
    const Present<T> s(b, keep);
    const T h = T(0.5) * dt;
    b.write(b.all.xe, s.x);
    b.write(b.all.ve, s.v);
    b.write(b.all.x, s.x + s.v * h);
    b.write(b.all.v, s.v + b.acceleration(s.f) * h);
}
template <class T> LANES_INLINE void node_full(const NodeBlock<T>& b, T dt, bool keep) {
    const Present<T> s(b, keep);
    b.write(b.all.x, b.read(b.all.xe) + s.v * dt);
    b.write(b.all.v, b.read(b.all.ve) + b.acceleration(s.f) * dt);
}

template <class T> LANES_INLINE void node_euler_adjoint(const NodeBlock<T>& b, T dt) {
    b.recall_state();
    const Triples<T> av = b.read(b.all.av) + b.read(b.all.ax) * dt;
    b.write(b.all.av, av);
    b.write(b.all.af, b.acceleration_adjoint(b.recall(b.all.fs), av * dt));
}
template <class T> LANES_INLINE void node_full_adjoint(const NodeBlock<T>& b, T dt) {
    b.recall_state();
    const Triples<T> ax = b.read(b.all.ax), av = b.read(b.all.av);
    b.write(b.all.xe, ax);
    b.write(b.all.ve, av);
    b.write(b.all.af, b.acceleration_adjoint(b.recall(b.all.fs), av * dt));
    b.write(b.all.av, ax * dt);
    b.clear(b.all.ax);
}
template <class T> LANES_INLINE void node_half_adjoint(const NodeBlock<T>& b, T dt) {
    b.recall_state();
    const Triples<T> ax = b.read(b.all.ax), av = b.read(b.all.av);
    const T h = T(0.5) * dt;
    b.write(b.all.af, b.acceleration_adjoint(b.recall(b.all.fs), av * h));
    b.write(b.all.av, b.read(b.all.ve) + ax * h + av);
    b.write(b.all.ax, b.read(b.all.xe) + ax);
}

}  // namespace gradsim
