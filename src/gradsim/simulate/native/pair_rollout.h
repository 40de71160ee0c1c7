// Rollout of rigid bodies that touch each other over many steps in one launch, and its adjoint. One thread per world, or
// per block of worlds in lanes.
#pragma once
#include "pairs.h"

namespace gradsim {

template <int stage = 0, class T, class S>
LANES_INLINE void pair_stages(const CoupledBodies<T, S>& bodies, Pairs<T, S>& pairs, int step) {
    if constexpr (stage < Tableau::stages) {
        if (bodies.template evaluates<stage>(step)) {
            bodies.template begin_stage<stage>(step);
            pairs.add_forces(step, stage);
        } else {
            bodies.begin_carried_stage(step);
        }
        bodies.template update<stage>();
        pair_stages<stage + 1>(bodies, pairs, step);
    }
}
template <int stage = Tableau::stages - 1, class T, class S>
LANES_INLINE void pair_stages_adjoint(const CoupledBodies<T, S>& bodies, Pairs<T, S>& pairs, int step) {
    if constexpr (stage >= 0) {
        bodies.template update_adjoint<stage>(step);
        if (bodies.template evaluates<stage>(step)) {
            bodies.clear_forces();
            pairs.add_adjoints(step, stage);
            bodies.template forces_adjoint<stage>(step);
        } else {
            bodies.carried_stage_adjoint(step);
        }
        pair_stages_adjoint<stage - 1>(bodies, pairs, step);
    }
}

template <class T, class S>
LANES_INLINE void pair_rollout(int block, int steps, const int* clock, const T* dt, const RigidBodies<T>& all,
                               const PairArrays<T>& arrays) {
    const FlushDenormals flushed;
    const RolloutClock<T> time(clock, dt);
    const CoupledBodies<T, S> bodies(all, time, block);
    Pairs<T, S> pairs(arrays, bodies);
    bodies.begin();
    pairs.anchors.begin();
    for (int step = 0; step < steps; step++) {
        bodies.begin_step();
        pair_stages(bodies, pairs, step);
    }
    bodies.end(steps);
    pairs.anchors.end(steps);
}

template <class T, class S>
LANES_INLINE void pair_rollout_adjoint(int block, int steps, const int* clock, const T* dt, const RigidBodies<T>& all,
                                       const PairArrays<T>& arrays) {
    const FlushDenormals flushed;
    const RolloutClock<T> time(clock, dt);
    const CoupledBodies<T, S> bodies(all, time, block);
    Pairs<T, S> pairs(arrays, bodies);
    bodies.begin_adjoint(steps);
    pairs.anchors.begin_adjoint();
    for (int step = steps - 1; step >= 0; step--) {
        bodies.begin_step_adjoint(step);
        pair_stages_adjoint(bodies, pairs, step);
    }
    bodies.end_adjoint();
    pairs.anchors.end_adjoint();
    pairs.add_gradients();
}

}  // namespace gradsim
