// Memory of the anchors of sticking friction between rigid bodies: rows of the history, and adjoints.
// A row has one flag for the samples of each of the two bodies of a pair, which says whether their anchors are not all
// zero, then the blocks of all of them. An anchor is a vector in the axes of the body that the sample touches.
#pragma once
#include "anchors.h"
#include "coupled_bodies.h"

namespace gradsim {

template <class T, class S> struct PairAnchors {
    typedef Anchors<T, SameAxes<Lanes<T>>> Stage;
    typedef AnchorBlocks<T, S> Blocks;
    const PairArrays<T>* all = nullptr;
    LaneWorlds<T, S> worlds;
    int body_count = 0;
    int first_row = 0;  // of the history; -1 if it is not recorded, then two rows alternate
    int side = 0;       // of the two buffers of adjoints, the one for the present anchors
    T dt = 0;

    LANES_MEMBER PairAnchors() {}
    LANES_MEMBER PairAnchors(const PairArrays<T>& arrays, const CoupledBodies<T, S>& bodies)
        : all(arrays.anchor_count ? &arrays : nullptr), worlds(bodies.all[0].body.worlds), body_count(bodies.count) {
        const RolloutClock<T>& clock = bodies.all[0].body.clock;
        first_row = clock.record ? clock.row / Tableau::stages : -1;
        dt = clock.dt;
    }

    // Number of the samples of the first body of a pair, a < b, among all samples with anchors; the next number is that
    // of the second body's samples.
    LANES_MEMBER int number(int a, int b) const { return 2 * all->anchor_pairs[a * body_count + b]; }

    // --- memory ------------------------------------------------------------------------------------------------------

    // The flags of a row, which are the start of it, before step number `step` of a launch.
    LANES_MEMBER T* row(int step) const {
        const long long k = first_row < 0 ? step & 1 : first_row + step;
        return all->anchors + (worlds.first / LaneWorlds<T, S>::width * all->anchor_rows + k) * all->anchor_row;
    }
    LANES_MEMBER T* adjoints(int which) const { return all->anchor_scratch + which * all->anchor_row; }
    LANES_MEMBER T* blocks_of(T* row, int number) const {
        return row + all->anchor_flags + (long long)all->anchor_blocks[number] * Blocks::block_size;
    }
    LANES_MEMBER Blocks blocks(int number) const {
        const int shape = all->anchor_shapes[number];
        return {worlds, all->sample_order + all->blocks[shape] * LaneTypes<T>::width, all->sizes[shape],
                3 * all->anchor_count};
    }
    LANES_MEMBER void clear_flags(T* row) const { __builtin_memset(row, 0, all->anchor_flags * sizeof(T)); }

    LANES_MEMBER void load(const T* state, T* row) const {
        for (int k = 0; k < all->anchor_numbers; k++) {
            if (all->anchor_blocks[k] < 0) continue;
            row[k] = 1;
            blocks(k).load(state, all->anchor_elements[k], blocks_of(row, k));
        }
    }
    LANES_MEMBER void save(T* state, T* row) const {
        for (int k = 0; k < all->anchor_numbers; k++)
            if (all->anchor_blocks[k] >= 0)
                blocks(k).save(state, all->anchor_elements[k], row[k] != 0 ? blocks_of(row, k) : nullptr);
    }

    // --- rollout -----------------------------------------------------------------------------------------------------

    LANES_MEMBER void begin() const {
        if (all) load(all->xi, row(0));
    }
    LANES_MEMBER void begin_stage(int step, int stage) const {
        if (all && stage == Tableau::anchor_stage) clear_flags(row(step + 1));
    }
    LANES_MEMBER void end(int steps) const {
        if (all) save(all->xi, row(steps));
    }
    LANES_MEMBER void begin_adjoint() const {
        if (all) load(all->xi_adj, adjoints(side));
    }
    LANES_MEMBER void begin_stage_adjoint(int stage) {
        if (!all || stage != Tableau::stages - 1) return;
        side = !side;  // adjoints of the anchors after the step are complete
        clear_flags(adjoints(side));
    }
    LANES_MEMBER void end_adjoint() const {
        if (all) save(all->xi_adj, adjoints(side));
    }

    // The anchors of samples in contact, in one evaluation of the forces.
    LANES_MEMBER Stage in_stage(int number, int step, int stage) const {
        T *now = row(step), *next = nullptr;
        if (stage == Tableau::anchor_stage) {
            next = blocks_of(row(step + 1), number);
            blocks(number).clear(next);
            row(step + 1)[number] = 1;
        }
        return {now[number] != 0 ? blocks_of(now, number) : nullptr, next, nullptr, nullptr, stage_time(stage), dt, {}};
    }
    LANES_MEMBER Stage in_stage_adjoint(int number, int step, int stage) const {
        T *now = row(step), *now_adj = adjoints(side), *next_adj = adjoints(!side);
        if (now_adj[number] == 0) blocks(number).clear(blocks_of(now_adj, number));
        now_adj[number] = 1;
        const bool moves = stage == Tableau::anchor_stage && next_adj[number] != 0;
        return {now[number] != 0 ? blocks_of(now, number) : nullptr, nullptr,
                moves ? blocks_of(next_adj, number) : nullptr, blocks_of(now_adj, number), stage_time(stage), dt, {}};
    }
    LANES_MEMBER T stage_time(int stage) const { return T(Tableau::anchor_time[stage]) * dt; }
};

}  // namespace gradsim
