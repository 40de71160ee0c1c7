// Samples of quantities that change in time; ../engine/signals.py defines the interpolation and is the reference.
#pragma once
#include "lanes.h"

namespace gradsim {

// Time of a launch: first step, first row of the history, steps of the rollout and of a frame, and whether the history is
// recorded.
template <class T> struct RolloutClock {
    int step, row, total, frame;
    bool record;
    T dt;
    LANES_MEMBER RolloutClock(const int* clock, const T* dt_)
        : step(clock[0]), row(clock[1]), total(clock[2]), frame(clock[4]), record(clock[3]), dt(*dt_) {}

    // Whether step number `k` of the launch is the first of a frame.
    LANES_MEMBER bool starts_frame(int k) const { return (step + k) % frame == 0; }
    // Whether the forces are evaluated at a stage of a step, or carried from the step before.
    template <int stage> LANES_MEMBER bool evaluates(int k) const {
        return !Tableau::carries || stage > 0 || starts_frame(k);
    }
};

// Weights of the samples first to first + count - 1 at a time: a fraction `stage` of step number `step` of a launch.
template <class T> struct SignalWeights {
    long long first;
    int count;
    T w[4];
    LANES_MEMBER SignalWeights(const SignalArrays<T>& signal, const RolloutClock<T>& clock, int step, T stage) {
        const long long samples = signal.sample_count, last = samples - 2;
        const T position = (T(clock.step + step) + stage) * T(samples - 1) / T(clock.total);
        const long long k = (long long)position < last ? (long long)position : last;
        const T s = position - T(k), u = 1 - s;
        first = k, count = 2;
        w[0] = u, w[1] = s;
        if (signal.interpolation == interpolation::linear) return;
        T c[4] = {T(-0.5) * s * u * u, 1 - s * s * (T(2.5) - T(1.5) * s), 1 - u * u * (T(2.5) - T(1.5) * u),
                  T(-0.5) * u * s * s};
        if (signal.interpolation == interpolation::rate) {
            const T rate = T(samples - 1) / (T(clock.total) * clock.dt);
            c[0] = T(-0.5) * u * (1 - 3 * s) * rate, c[1] = s * (T(4.5) * s - 5) * rate;
            c[2] = -u * (T(4.5) * u - 5) * rate, c[3] = T(0.5) * s * (1 - 3 * u) * rate;
        }
        // Samples beyond the ends continue the line through the last two.
        if (k == 0) c[1] += 2 * c[0], c[2] -= c[0];
        if (k == last) c[2] += 2 * c[3], c[1] -= c[3];
        count = 0;
        first = k == 0 ? 0 : k - 1;
        for (int m = k == 0 ? 1 : 0; m < (k == last ? 3 : 4); m++) w[count++] = c[m];
    }
};

}  // namespace gradsim
