// Rigid bodies of one world, or of several in lanes, that advance together, stage by stage.
#pragma once
#include "rigid_rollout.h"

namespace gradsim {
struct InPlace {
    void* memory;
};
}  // namespace gradsim
inline void* operator new(__SIZE_TYPE__, gradsim::InPlace at) noexcept { return at.memory; }

namespace gradsim {

// Memory of the bodies: the steps, the sums of coupling forces, then pairs and pushes of each body.
constexpr int step_scratch = sizes::body_scratch + sizes::stage_scratch * Tableau::stages;

template <class T, class S> struct CoupledBodies {
    CoupledBody<T, S>* all;
    Vector<S>* forces;  // sums of the coupling forces on each body, in the adjoint
    int count;

    LANES_MEMBER CoupledBodies() : all(nullptr), forces(nullptr), count(0) {}
    // `block` counts worlds, or blocks of worlds in lanes.
    LANES_MEMBER CoupledBodies(const RigidBodies<T>& bodies, const RolloutClock<T>& clock, int block) {
        static_assert(sizeof(CoupledBody<T, S>) <= step_scratch * sizeof(S), "scratch memory of a rigid body");
        constexpr int width = LaneWorlds<T, S>::width;
        const int blocks = (int)((bodies.world_count + width - 1) / width);
        count = (int)bodies.body_count;
        S* memory = (S*)bodies.scratch;
        all = (CoupledBody<T, S>*)memory;
        memory += count * step_scratch;
        forces = (Vector<S>*)memory;
        memory += count * 4;
        for (int b = 0; b < count; b++) {
            new (InPlace{all + b}) CoupledBody<T, S>{{bodies, clock, b * blocks + block, (T*)memory}, {}};
            memory += bodies.shape_count * sizes::pair_scratch + bodies.push_count * sizes::push_scratch;
        }
    }
    template <class F> LANES_MEMBER void for_each(F visit) const {
        for (int b = 0; b < count; b++) visit(all[b]);
    }
    // Whether the forces are evaluated at a stage of a step, or carried from the step before.
    template <int stage> LANES_MEMBER bool evaluates(int step) const {
        return count == 0 || all->body.clock.template evaluates<stage>(step);
    }
    LANES_MEMBER void clear_forces() const {
        for (int b = 0; b < count; b++) forces[b] = {};
    }

    LANES_MEMBER void begin() const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { 
            b.step.s = b.body.load_state();
            b.step.load_carried(b.body);
        });
    }
    LANES_MEMBER void begin_step() const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { b.step.start = b.step.s; });
    }
    template <int stage> LANES_MEMBER void begin_stage(int step) const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { b.step.template begin_stage<stage>(b.body, step); });
    }
    // The first stage of a step with the force of the step before.
    LANES_MEMBER void begin_carried_stage(int step) const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { b.step.template place<0>(b.body, step); });
    }
    LANES_MEMBER void carried_stage_adjoint(int step) const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { b.step.carried_adjoint(b.body, step); });
    }
    template <int stage> LANES_MEMBER void update() const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { b.step.template update<stage>(b.body); });
    }
    LANES_MEMBER void end(int steps) const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA {
            if (b.body.motion >= 0) b.step.s = b.body.prescribed_state(steps - 1, T(1));
            b.body.record(Tableau::stages * steps, b.step.s);
            b.body.save_state(b.step.s, steps);
            b.step.save_carried(b.body);
        });
    }

    LANES_MEMBER void begin_adjoint(int steps) const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA {
            b.step.s = b.body.recorded(Tableau::stages * steps);
            b.step.adj = b.body.load_adjoint(b.step.s);
            b.step.load_carried_adjoint(b.body, steps);
            if (b.body.motion >= 0) b.body.add_prescribed_adjoint(steps - 1, T(1), b.step.adj);
        });
    }
    LANES_MEMBER void begin_step_adjoint(int step) const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { b.step.begin_step_adjoint(b.body, step, b.step.s); });
    }
    template <int stage> LANES_MEMBER void update_adjoint(int step) const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA { b.step.template update_adjoint<stage>(b.body, step); });
    }
    // Adjoint of the bodies' own forces, after those of the coupling forces.
    template <int stage> LANES_MEMBER void forces_adjoint(int step) const {
        for (int b = 0; b < count; b++) all[b].step.template forces_adjoint<stage>(all[b].body, step, forces[b]);
    }
    LANES_MEMBER void end_adjoint() const {
        for_each([&](CoupledBody<T, S>& b) LANES_LAMBDA {
            b.body.save_adjoint(b.step.s, b.step.adj);
            b.step.save_carried_adjoint(b.body);
            b.body.add_gradients();
        });
    }
};

}  // namespace gradsim
