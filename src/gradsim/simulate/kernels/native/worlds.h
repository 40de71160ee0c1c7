// The arrays of rigid bodies, and how lanes reach the same body of several worlds in them.
#pragma once
#include "space.h"

namespace gradsim {

// The arrays of all bodies of all worlds. Tables are [rows, worlds * elements], gradients lie as values do.
template <class T> struct Rigids {
    int world_count, body_count, shape_count, push_count;
    int first_step, first_row, step_count;
    bool keep;  // whether the history is written
    T dt;
    const int *blocks, *sizes;  // of a body: where its blocks of points start, and how many points it has
    const T* points;
    const int *kinds, *pushed;  // of shapes; bodies that pushes act on
    const T *law, *shape, *push, *body;
    long long law_stride, shape_stride, push_stride, body_stride;
    T *p, *q, *v, *l;
    T* history;  // [threads, rows, STATE, lanes]
    int row_count;
    T* room;  // for pairs and pushes of one body
};
template <class T> struct RigidGradients {
    T *law, *shape, *push, *body, *p, *q, *v, *l;
};

enum { STATE = 13, AHEAD = 2 };

template <class S> struct State {
    Vector<S> p;
    Quaternion<S> q;
    Vector<S> v, l;
};

// One number of each of some worlds, which lie `step` apart in an array. Lanes beyond the last world repeat it.
template <class T, class S> struct Worlds {
    enum { width = sizeof(S) / sizeof(T) };
    long long first;
    int count;
    LANES_MEMBER S read(const T* a, long long step) const {
        T r[width];
        for (int k = 0; k < width; k++) r[k] = a[(first + (k < count ? k : count - 1)) * step];
        S s;
        __builtin_memcpy(&s, r, sizeof(s));
        return s;
    }
    LANES_MEMBER void write(T* a, long long step, S s) const {
        T r[width];
        __builtin_memcpy(r, &s, sizeof(s));
        for (int k = 0; k < count; k++) a[(first + k) * step] = r[k];
    }
    LANES_MEMBER void add(T* a, long long step, S s) const {
        T r[width];
        __builtin_memcpy(r, &s, sizeof(s));
        for (int k = 0; k < count; k++) a[(first + k) * step] += r[k];
    }
    LANES_MEMBER Vector<S> read3(const T* a, long long step) const {
        return {read(a, step), read(a + 1, step), read(a + 2, step)};
    }
    LANES_MEMBER void write3(T* a, long long step, const Vector<S>& s) const {
        write(a, step, s.x), write(a + 1, step, s.y), write(a + 2, step, s.z);
    }
};

}  // namespace gradsim
