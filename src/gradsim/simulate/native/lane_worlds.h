// The state of a rigid body, and array access with the same body of several worlds in lanes.
#pragma once
#include "space.h"

namespace gradsim {

template <class S> struct RigidState {
    Vector<S> p;
    Quaternion<S> q;
    Vector<S> v, l;
};
static_assert(sizeof(RigidState<double>) == sizes::rigid_state * sizeof(double), "scalars of a rigid body's state");

// Access to one number per world, `step` apart in an array. Lanes beyond the last world repeat it.
template <class T, class S> struct LaneWorlds {
    enum { width = sizeof(S) / sizeof(T) };
    long long first;
    int count;
    LANES_MEMBER LaneWorlds() : first(0), count(0) {}
    // Those of block `thread`, counted modulo the number of blocks.
    LANES_MEMBER LaneWorlds(long long world_count, int thread) {
        first = (long long)(thread % block_count(world_count)) * width;
        count = world_count - first < width ? (int)(world_count - first) : (int)width;
    }
    static LANES_MEMBER int block_count(long long world_count) { return (int)((world_count + width - 1) / width); }
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
