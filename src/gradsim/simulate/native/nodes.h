// Updates of nodes between two evaluations of the forces and their adjoints, `width` nodes at a time.
// The portable kernels of ../state/kernels/nodes.py define them and are the reference.
#pragma once
#include "lanes.h"

namespace gradsim {

// x, y, z of `width` nodes, node after node as in the history: elementwise arithmetic needs no separate x, y and z.
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

// `repeated` gives one number per node to its x, y and z; `interleaved` and `separated` convert from and to vectors.
LANES_INLINE Triples<float> repeated(Lanes<float> a) {
    return {SHUFFLE(a, a, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5),
            SHUFFLE(a, a, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 10),
            SHUFFLE(a, a, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15)};
}
LANES_INLINE Triples<float> interleaved(const Vector<Lanes<float>>& a) {
    return {SHUFFLE(SHUFFLE(a.x, a.y, 0, 16, -1, 1, 17, -1, 2, 18, -1, 3, 19, -1, 4, 20, -1, 5), a.z,
                    0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15),
            SHUFFLE(SHUFFLE(a.x, a.y, 21, -1, 6, 22, -1, 7, 23, -1, 8, 24, -1, 9, 25, -1, 10, 26), a.z,
                    0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15),
            SHUFFLE(SHUFFLE(a.x, a.y, -1, 11, 27, -1, 12, 28, -1, 13, 29, -1, 14, 30, -1, 15, 31, -1), a.z,
                    26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31)};
}
LANES_INLINE Vector<Lanes<float>> separated(const Triples<float>& t) {
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
LANES_INLINE Triples<double> interleaved(const Vector<Lanes<double>>& a) {
    return {SHUFFLE(SHUFFLE(a.x, a.y, 0, 8, -1, 1, 9, -1, 2, 10), a.z,
                    0, 1, 8, 3, 4, 9, 6, 7),
            SHUFFLE(SHUFFLE(a.x, a.y, -1, 3, 11, -1, 4, 12, -1, 5), a.z,
                    10, 1, 2, 11, 4, 5, 12, 7),
            SHUFFLE(SHUFFLE(a.x, a.y, 13, -1, 6, 14, -1, 7, 15, -1), a.z,
                    0, 13, 2, 3, 14, 5, 6, 15)};
}
LANES_INLINE Vector<Lanes<double>> separated(const Triples<double>& t) {
    return {SHUFFLE(SHUFFLE(t.c[0], t.c[1], 0, 3, 6, 9, 12, 15, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 5, 10, 13),
            SHUFFLE(SHUFFLE(t.c[0], t.c[1], 1, 4, 7, 10, 13, -1, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 8, 11, 14),
            SHUFFLE(SHUFFLE(t.c[0], t.c[1], 2, 5, 8, 11, 14, -1, -1, -1), t.c[2],
                    0, 1, 2, 3, 4, 9, 12, 15)};
}

// Conversion from and to padded nodes, four scalars each, of which the fourth is zero.
LANES_INLINE Triples<float> unpadded(Lanes<float> a, Lanes<float> b, Lanes<float> c, Lanes<float> d) {
    return {SHUFFLE(a, b, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20),
            SHUFFLE(b, c, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25),
            SHUFFLE(c, d, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 26, 28, 29, 30)};
}
LANES_INLINE Lanes<float> without_fourth(Lanes<float> a) {
    return SHUFFLE(a, Lanes<float>{}, 0, 1, 2, 16, 4, 5, 6, 16, 8, 9, 10, 16, 12, 13, 14, 16);
}
LANES_INLINE void store_padded(float* p, const Triples<float>& t) {
    const Lanes<float> a = t.c[0], b = t.c[1], c = t.c[2];
    store(p, without_fourth(SHUFFLE(a, a, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1)));
    store(p + 16, without_fourth(SHUFFLE(a, b, 12, 13, 14, -1, 15, 16, 17, -1, 18, 19, 20, -1, 21, 22, 23, -1)));
    store(p + 32, without_fourth(SHUFFLE(b, c, 8, 9, 10, -1, 11, 12, 13, -1, 14, 15, 16, -1, 17, 18, 19, -1)));
    store(p + 48, without_fourth(SHUFFLE(c, c, 4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1)));
}
LANES_INLINE Triples<double> unpadded(Lanes<double> a, Lanes<double> b, Lanes<double> c, Lanes<double> d) {
    return {SHUFFLE(a, b, 0, 1, 2, 4, 5, 6, 8, 9),
            SHUFFLE(b, c, 2, 4, 5, 6, 8, 9, 10, 12),
            SHUFFLE(c, d, 5, 6, 8, 9, 10, 12, 13, 14)};
}
LANES_INLINE Lanes<double> without_fourth(Lanes<double> a) {
    return SHUFFLE(a, Lanes<double>{}, 0, 1, 2, 8, 4, 5, 6, 8);
}
LANES_INLINE void store_padded(double* p, const Triples<double>& t) {
    const Lanes<double> a = t.c[0], b = t.c[1], c = t.c[2];
    store(p, without_fourth(SHUFFLE(a, a, 0, 1, 2, -1, 3, 4, 5, -1)));
    store(p + 8, without_fourth(SHUFFLE(a, b, 6, 7, 8, -1, 9, 10, 11, -1)));
    store(p + 16, without_fourth(SHUFFLE(b, c, 4, 5, 6, -1, 7, 8, 9, -1)));
    store(p + 24, without_fourth(SHUFFLE(c, c, 2, 3, 4, -1, 5, 6, 7, -1)));
}

template <class T> struct NodeBlock {
    static constexpr int width = LaneTypes<T>::width;
    typedef Lanes<T> L;
    const Nodes<T>& all;
    long long first, offset;  // nodes before the block, and scalars before it in the history
    LANES_MEMBER NodeBlock(const Nodes<T>& nodes, long long block, int r)
        : all(nodes), first(block * width), offset(nodes.row * r + 3 * first) {}
    LANES_MEMBER Triples<T> read(const T* p) const {
        p += 4 * first;
        return unpadded(load(p), load(p + width), load(p + 2 * width), load(p + 3 * width));
    }
    LANES_MEMBER void write(T* p, const Triples<T>& t) const { store_padded(p + 4 * first, t); }
    LANES_MEMBER void clear(T* p) const {
        for (int k = 0; k < 4; k++) store(p + 4 * first + k * width, Lanes<T>{});
    }
    // Row j of an array [stages, nodes].
    LANES_MEMBER T* stage(T* p, int j) const { return p + 4 * all.count * j; }
    LANES_MEMBER Triples<T> recorded(const T* p) const {
        p += offset;
        return {load(p), load(p + width), load(p + 2 * width)};
    }
    LANES_MEMBER void record(T* p, const Triples<T>& t) const {
        for (int k = 0; k < 3; k++) store(p + offset + k * width, t.c[k]);
    }
    LANES_MEMBER Triples<T> acceleration(const Triples<T>& f) const {
        const T* node = all.table.value + first;
        const long long stride = all.table.stride;
        const L w = load(node + node_row::inverse_mass * stride), zero = {};
        const auto pinned = w == T(0);
        const Vector<L> g = load_vectors(node + node_row::gravity_x * stride, stride);
        return f * repeated(w) + interleaved(Vector<L>{pinned ? zero : g.x, pinned ? zero : g.y, pinned ? zero : g.z});
    }
    // The adjoint of the force, from that of the acceleration.
    LANES_MEMBER Triples<T> acceleration_adjoint(const Triples<T>& f, const Triples<T>& a_adj) const {
        const long long stride = all.table.stride;
        const L w = load(all.table.value + node_row::inverse_mass * stride + first), zero = {};
        const auto pinned = w == T(0);
        const Vector<L> products = separated(a_adj * f), g_adj = separated(a_adj);
        T* p = all.table.grad + first;
        accumulate(p + node_row::inverse_mass * stride, pinned ? zero : products.x + products.y + products.z);
        accumulate_vectors(p + node_row::gravity_x * stride, stride,
                           Vector<L>{pinned ? zero : g_adj.x, pinned ? zero : g_adj.y, pinned ? zero : g_adj.z});
        return a_adj * repeated(w);
    }
};

// Which stages later rows of the tableau use; the compiler removes terms with zero coefficients.
template <int stage> struct StageUse {
    static constexpr bool after(const double (&weights)[Tableau::stages][Tableau::stages]) {
        for (int row = stage + 1; row < Tableau::stages; row++)
            if (weights[row][stage] != 0) return true;
        return false;
    }
    // Whether no later row uses stage j.
    static constexpr bool last(const double (&weights)[Tableau::stages][Tableau::stages], int j) {
        for (int row = stage + 1; row < Tableau::stages; row++)
            if (weights[row][j] != 0) return false;
        return true;
    }
    static constexpr bool acceleration = after(Tableau::acceleration), velocity = after(Tableau::velocity);
};

// Adds the earlier stages' terms to a sum of derivatives; these lie in buffers [stages, nodes].
template <int stage, int j = 0, class T>
LANES_INLINE void add_earlier(const NodeBlock<T>& b, const double (&weights)[Tableau::stages][Tableau::stages],
                              T* derivatives, T dt, Triples<T>& sum) {
    if constexpr (j < stage) {
        if (weights[stage][j] != 0) sum = sum + b.read(b.stage(derivatives, j)) * (T(weights[stage][j]) * dt);
        add_earlier<stage, j + 1>(b, weights, derivatives, dt, sum);
    }
}
// Its adjoint: adds to the buffers of earlier stages. The last row that uses a buffer is the first in the backward pass
// and overwrites it.
template <int stage, int j = 0, class T>
LANES_INLINE void add_earlier_adjoint(const NodeBlock<T>& b, const double (&weights)[Tableau::stages][Tableau::stages],
                                      T* derivatives, T dt, const Triples<T>& sum_adj) {
    if constexpr (j < stage) {
        if (weights[stage][j] != 0) {
            Triples<T> own = sum_adj * (T(weights[stage][j]) * dt);
            T* p = b.stage(derivatives, j);
            if (!StageUse<stage>::last(weights, j)) own = own + b.read(p);
            b.write(p, own);
        }
        add_earlier_adjoint<stage, j + 1>(b, weights, derivatives, dt, sum_adj);
    }
}

// Computes the state of the next stage, or of the end of the step, from the state and the force at a stage.
template <int stage, class T> LANES_INLINE void node_update(const NodeBlock<T>& b, T dt, bool record) {
    const Nodes<T>& all = b.all;
    const Triples<T> x = b.read(all.x), v = b.read(all.v), f = b.read(all.f);
    b.clear(all.f);
    if (record) b.record(all.xs, x), b.record(all.vs, v), b.record(all.fs, f);
    const Triples<T> a = b.acceleration(f);
    Triples<T> v1 = v, x1 = x;
    if constexpr (stage == 0) {
        if constexpr (Tableau::stages > 1) b.write(all.x_start, x), b.write(all.v_start, v);
    } else {
        x1 = b.read(all.x_start), v1 = b.read(all.v_start);
    }
    if constexpr (StageUse<stage>::acceleration) b.write(b.stage(all.a_stage, stage), a);
    if constexpr (StageUse<stage>::velocity) b.write(b.stage(all.v_stage, stage), v);
    add_earlier<stage>(b, Tableau::acceleration, all.a_stage, dt, v1);
    add_earlier<stage>(b, Tableau::velocity, all.v_stage, dt, x1);
    if constexpr (Tableau::acceleration[stage][stage] != 0) v1 = v1 + a * (T(Tableau::acceleration[stage][stage]) * dt);
    if constexpr (Tableau::velocity[stage][stage] != 0) x1 = x1 + v * (T(Tableau::velocity[stage][stage]) * dt);
    if constexpr (Tableau::new_velocity[stage] != 0) x1 = x1 + v1 * (T(Tableau::new_velocity[stage]) * dt);
    b.write(all.v, v1);
    b.write(all.x, x1);
}

// Computes the adjoints of the force and of the state at a stage from that of the next state. The adjoints of the
// forces add to that of the state afterwards.
template <int stage, class T> LANES_INLINE void node_update_adjoint(const NodeBlock<T>& b, T dt) {
    const Nodes<T>& all = b.all;
    constexpr bool last = stage == Tableau::stages - 1;
    b.write(all.x, b.recorded(all.xs));
    b.write(all.v, b.recorded(all.vs));
    Triples<T> x_adj = b.read(all.x_adj), v_adj = b.read(all.v_adj);
    if constexpr (Tableau::new_velocity[stage] != 0) v_adj = v_adj + x_adj * (T(Tableau::new_velocity[stage]) * dt);
    add_earlier_adjoint<stage>(b, Tableau::acceleration, all.a_stage, dt, v_adj);
    add_earlier_adjoint<stage>(b, Tableau::velocity, all.v_stage, dt, x_adj);
    Triples<T> a_sum = v_adj * (T(Tableau::acceleration[stage][stage]) * dt);
    Triples<T> v_sum = x_adj * (T(Tableau::velocity[stage][stage]) * dt);
    if constexpr (StageUse<stage>::acceleration) a_sum = a_sum + b.read(b.stage(all.a_stage, stage));
    if constexpr (StageUse<stage>::velocity) v_sum = v_sum + b.read(b.stage(all.v_stage, stage));
    b.write(all.f_adj, b.acceleration_adjoint(b.recorded(all.fs), a_sum));
    if constexpr (!last) x_adj = b.read(all.x_start) + x_adj, v_adj = b.read(all.v_start) + v_adj;
    if constexpr (stage == 0) {
        b.write(all.x_adj, x_adj);
        if constexpr (Tableau::velocity[0][0] != 0 || StageUse<0>::velocity) v_adj = v_adj + v_sum;
        b.write(all.v_adj, v_adj);
    } else {
        b.write(all.x_start, x_adj);
        b.write(all.v_start, v_adj);
        b.clear(all.x_adj);
        b.write(all.v_adj, v_sum);
    }
}

// --- rules that carry their force ------------------------------------------------------------------------------------
// h = v + dt K a, x' = x + dt D h, and v' = h + dt E a' with the force at x' and the velocity h + dt P a. The buffer v has
// that velocity during a step, v_start has h. In the backward pass v_stage has the adjoint of v'.

template <class T> struct CarriedWeights {
    T kick, drift, prediction, end;
    LANES_MEMBER CarriedWeights(T dt)
        : kick(T(Tableau::acceleration[0][0]) * dt), drift(T(Tableau::new_velocity[0]) * dt),
          prediction(T(Tableau::prediction[0]) * dt),
          end(T(Tableau::acceleration[Tableau::stages - 1][Tableau::stages - 1]) * dt) {}
};
template <class T>
LANES_INLINE void node_predict(const NodeBlock<T>& b, const CarriedWeights<T>& w, const Triples<T>& x, const Triples<T>& v,
                               const Triples<T>& a) {
    const Triples<T> h = v + a * w.kick;
    b.clear(b.all.f);
    b.write(b.all.v_start, h);
    b.write(b.all.x, x + h * w.drift);
    b.write(b.all.v, h + a * w.prediction);
}
// The start of the first step of a launch, whose force was evaluated or carried.
template <class T> LANES_INLINE void node_begin(const NodeBlock<T>& b, T dt, bool record) {
    const Nodes<T>& all = b.all;
    const Triples<T> x = b.read(all.x), v = b.read(all.v), f = b.read(all.f);
    if (record) b.record(all.xs, x), b.record(all.vs, v), b.record(all.fs, f);
    node_predict(b, CarriedWeights<T>(dt), x, v, b.acceleration(f));
}
// The end of a step after the evaluation, and the start of the next one if `continues`.
template <class T> LANES_INLINE void node_end(const NodeBlock<T>& b, T dt, bool record, bool continues) {
    const Nodes<T>& all = b.all;
    const CarriedWeights<T> w(dt);
    const Triples<T> x = b.read(all.x), f = b.read(all.f), a = b.acceleration(f);
    if (record) b.record(all.xs, x), b.record(all.vs, b.read(all.v)), b.record(all.fs, f);
    const Triples<T> v = b.read(all.v_start) + a * w.end;
    if (continues)
        node_predict(b, w, x, v, a);
    else
        b.write(all.v, v);
}
// Adjoint of `node_predict`: returns the adjoint of v, and sets that of a; the adjoint of x does not change.
template <class T>
LANES_INLINE Triples<T> node_predict_adjoint(const NodeBlock<T>& b, const CarriedWeights<T>& w, Triples<T>& a_adj) {
    const Triples<T> p_adj = b.read(b.all.v_adj);
    const Triples<T> h_adj = p_adj + b.read(b.all.x_adj) * w.drift + b.read(b.all.v_stage);
    a_adj = p_adj * w.prediction + h_adj * w.kick;
    return h_adj;
}
template <class T> LANES_INLINE void node_begin_adjoint(const NodeBlock<T>& b, T dt) {
    const Nodes<T>& all = b.all;
    Triples<T> a_adj;
    const Triples<T> v_adj = node_predict_adjoint(b, CarriedWeights<T>(dt), a_adj);
    b.write(all.x, b.recorded(all.xs));
    b.write(all.v, b.recorded(all.vs));
    b.write(all.v_adj, v_adj);
    b.write(all.f_adj, b.acceleration_adjoint(b.recorded(all.fs), a_adj));
}
template <class T> LANES_INLINE void node_end_adjoint(const NodeBlock<T>& b, T dt, bool continues) {
    const Nodes<T>& all = b.all;
    const CarriedWeights<T> w(dt);
    Triples<T> a_adj = {};
    const Triples<T> v_adj = continues ? node_predict_adjoint(b, w, a_adj) : b.read(all.v_adj);
    b.write(all.x, b.recorded(all.xs));
    b.write(all.v, b.recorded(all.vs));
    b.write(all.v_stage, v_adj);
    b.clear(all.v_adj);
    b.write(all.f_adj, b.acceleration_adjoint(b.recorded(all.fs), a_adj + v_adj * w.end));
}

}  // namespace gradsim
