// Memory of the anchors of a rigid body's sticking friction: rows of the history, and adjoints.
// A row has the anchors of a world's bodies, or of several worlds in lanes: for each pair of a body and a shape a block
// whose first number says whether the others are not all zero, then blocks of three rows of lanes, for `width` points of
// one world or for one point of `width` worlds.
#pragma once
#include "lane_worlds.h"
#include "rigid_contact.h"

namespace gradsim {

// The anchors of a pair.
struct PairAnchors {
    int block, first;  // first block in a row, and first element of the state
    bool used[2];      // whether the adjoints in the two buffers are not all zero
};

template <class T, class S> struct BodyAnchors {
    enum { width = LaneTypes<T>::width, block_size = Anchors<T>::block_size, in_lanes = sizeof(S) > sizeof(T) };
    const RigidBodies<T>& all;
    LaneWorlds<T, S> worlds;
    const int* order;              // index of the point in every lane of the blocks of points
    int point_count, block_count;  // of points, and of blocks in a row
    int first_row;                 // of the history; -1 if it is not recorded, then two rows alternate
    int side = 0;                  // of the two buffers of adjoints, the one for the present anchors

    LANES_MEMBER BodyAnchors(const RigidBodies<T>& all_, const LaneWorlds<T, S>& worlds_, int body, int row)
        : all(all_), worlds(worlds_), order(all_.point_order + all_.blocks[body] * width), point_count(all_.sizes[body]),
          first_row(row) {
        block_count = in_lanes ? point_count : (point_count + width - 1) / width;
    }
    // The blocks of a pair before step number `step` of a launch; the first has the flag.
    LANES_MEMBER T* at(const PairAnchors& pair, int step) const {
        const long long row = first_row < 0 ? step & 1 : first_row + step;
        return all.anchors + (worlds.first / (in_lanes ? width : 1) * all.anchor_rows + row) * all.anchor_row +
               pair.block * block_size;
    }
    LANES_MEMBER T* adjoints(const PairAnchors& pair, int which) const {
        return all.anchor_scratch + which * all.anchor_row + pair.block * block_size;
    }
    LANES_MEMBER void clear(T* blocks) const {
        __builtin_memset(blocks + block_size, 0, (long long)block_count * block_size * sizeof(T));
    }

    // Calls visit(i, number, stride): number i of the blocks is `number` of a state with `stride` scalars a world.
    template <class F> LANES_MEMBER void for_each_number(const PairAnchors& pair, F visit) const {
        for (int k = 0; k < point_count; k++)
            for (int c = 0; c < 3; c++) {
                const long long i = in_lanes ? (3ll * k + c) * width : (3ll * (k / width) + c) * width + k % width;
                visit(block_size + i, 3ll * (pair.first + order[k]) + c, 3 * all.anchor_count);
            }
    }
    LANES_MEMBER void load(const T* state, const PairAnchors& pair, T* blocks) const {
        clear(blocks);
        blocks[0] = 1;
        for_each_number(pair, [&](long long i, long long number, long long stride) LANES_LAMBDA {
            const S value = worlds.read(state + number, stride);
            __builtin_memcpy(blocks + i, &value, sizeof(S));
        });
    }
    // Writes zeros if `blocks` is null.
    LANES_MEMBER void save(T* state, const PairAnchors& pair, const T* blocks) const {
        for_each_number(pair, [&](long long i, long long number, long long stride) LANES_LAMBDA {
            S value = {};
            if (blocks) __builtin_memcpy(&value, blocks + i, sizeof(S));
            worlds.write(state + number, stride, value);
        });
    }

    // Marks the anchors after a step as zero, before the evaluation that computes them.
    LANES_MEMBER void reset_next(const PairAnchors& pair, int step) const { at(pair, step + 1)[0] = 0; }
    // The anchors of a pair that may be in contact, in one evaluation of the forces.
    LANES_MEMBER Anchors<T> in_stage(const PairAnchors& pair, const Matrix<S>& R, int step, int stage, T dt) const {
        const T* now = at(pair, step);
        T* next = nullptr;
        if (stage == Tableau::anchor_stage) {
            next = at(pair, step + 1);
            clear(next);
            next[0] = 1;
            next += block_size;
        }
        const T h = stage_time(stage) * dt;
        return {now[0] != 0 ? now + block_size : nullptr, next, nullptr, nullptr, h, dt, broadcast(R)};
    }
    LANES_MEMBER Anchors<T> in_stage_adjoint(PairAnchors& pair, const Matrix<S>& R, int step, int stage, T dt) const {
        const T* now = at(pair, step);
        T* now_adj = adjoints(pair, side);
        if (!pair.used[side]) clear(now_adj);
        pair.used[side] = true;
        const T* next_adj = stage == Tableau::anchor_stage && pair.used[!side] ? adjoints(pair, !side) : nullptr;
        return {now[0] != 0 ? now + block_size : nullptr, nullptr, next_adj ? next_adj + block_size : nullptr,
                now_adj + block_size, stage_time(stage) * dt, dt, broadcast(R)};
    }
    static LANES_MEMBER T stage_time(int stage) { return T(Tableau::anchor_time[stage]); }
};

}  // namespace gradsim
