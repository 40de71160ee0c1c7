// Threads that advance the worlds of a shard together.
//
// A single large world has subdomains: ranges of its nodes, with the blocks of each force that act on one of them only. Each
// thread advances some of them. What acts on several follows between two barriers, so that no memory is written by
// two threads at once. Of several worlds, each thread takes the next one that nobody has begun: a thread that starts late
// holds up nothing. Neither changes the order of a sum.
#pragma once
#include "simd.h"

namespace gradsim {

// Subdomains of a world: first, first + step, ... before `end`. The blocks that act on several count as a last one.
struct SubdomainRange {
    int first, end, step;
    bool shared;  // whether it has what acts on several subdomains
};

// One thread of a team, which is alone if its size is 1.
struct Team {
    int number, size, world_count;
    TeamState<double>* state;
    const long long launch;  // number of this launch in the rollout, from 1, the same for all threads
    LANES_MEMBER Team(int number_, int size_, int world_count_, void* memory)
        : number(number_), size(size_), world_count(world_count_), state((TeamState<double>*)memory),
          launch(size > 1 ? state->launch[number] : 0) {
        if (size == 1) return;
        if (world_count == 1)
            wait();
        else if (number == 0)
            __atomic_store_n(&state->next, launch << 32, __ATOMIC_RELEASE);
    }
    LANES_MEMBER bool stopped() const { return size > 1 && __atomic_load_n(&state->stop, __ATOMIC_RELAXED); }

    // The world that a thread advances first, and the next one; -1 if none is left.
    LANES_MEMBER int first_world(int thread) const {
        if (size == 1) return thread;
        return world_count == 1 ? 0 : take();
    }
    LANES_MEMBER int next_world() const {
        if (size == 1) return -1;
        if (world_count == 1) return wait(), -1;
        __atomic_add_fetch(&state->done, 1, __ATOMIC_ACQ_REL);
        return take();
    }
    // The subdomains of a single world that this thread advances.
    LANES_MEMBER int first_subdomain() const { return divides() ? number : 0; }
    LANES_MEMBER int subdomain_step() const { return divides() ? size : 1; }
    LANES_MEMBER bool divides() const { return size > 1 && world_count == 1; }

    // Waits for all threads that advance a world together.
    LANES_MEMBER void wait() const {
        if (!divides()) return;
        const long long passed = __atomic_load_n(&state->passed, __ATOMIC_ACQUIRE);
        if (__atomic_add_fetch(&state->arrived, 1, __ATOMIC_ACQ_REL) == size) {
            __atomic_store_n(&state->arrived, 0, __ATOMIC_RELAXED);
            __atomic_store_n(&state->passed, passed + 1, __ATOMIC_RELEASE);
            return;
        }
        while (__atomic_load_n(&state->passed, __ATOMIC_ACQUIRE) == passed && !stopped()) pause();
    }

private:
    // Takes a world of this launch. The first thread waits for those that others have begun.
    LANES_MEMBER int take() const {
        while (!stopped()) {
            long long next = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE);
            const long long at = next >> 32;
            if (at > launch) return -1;
            if (at == launch && (next & 0xffffffff) >= world_count) {
                if (number > 0 || __atomic_load_n(&state->done, __ATOMIC_ACQUIRE) == launch * world_count) return -1;
            } else if (at == launch && __atomic_compare_exchange_n(&state->next, &next, next + 1, false,
                                                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
                return (int)(next & 0xffffffff);
            }
            pause();
        }
        return -1;
    }
    static LANES_MEMBER void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __builtin_arm_yield();
#endif
    }
};

}  // namespace gradsim
