// Memory of the anchors of a rigid body's sticking friction: rows of the history, and adjoints.
// A row has the anchors of a world's bodies, or of several worlds in lanes: for each pair of a body and a shape a block
// whose first number says whether the others are not all zero, then blocks of three rows of lanes, for `width` points of
// one world or for one point of `width` worlds.
#pragma once
#include "lane_worlds.h"
#include "rigid_contact.h"

namespace gradsim {

// The anchors of `count` points in a row of the history: blocks of three rows of lanes, for `width` points of one world
// or for one point of `width` worlds. `order` has the index of the point in every lane; the state has `stride` scalars a
// world.
template <class T, class S> struct AnchorBlocks {
    enum { width = LaneTypes<T>::width, block_size = Anchors<T>::block_size, in_lanes = sizeof(S) > sizeof(T) };
    LaneWorlds<T, S> worlds;
    const int* order;
    int count;
    long long stride;

    LANES_MEMBER void clear(T* blocks) const {
        const int number = in_lanes ? count : (count + width - 1) / width;
        __builtin_memset(blocks, 0, (long long)number * block_size * sizeof(T));
    }
    // Calls visit(i, number): number i of the blocks is `number` of a state whose first anchor is `first`.
    template <class F> LANES_MEMBER void for_each_number(int first, F visit) const {
        for (int k = 0; k < count; k++)
            for (int c = 0; c < 3; c++) {
                const long long i = in_lanes ? (3ll * k + c) * width : (3ll * (k / width) + c) * width + k % width;
                visit(i, 3ll * (first + order[k]) + c);
            }
    }
    LANES_MEMBER void load(const T* state, int first, T* blocks) const {
        clear(blocks);
        for_each_number(first, [&](long long i, long long number) LANES_LAMBDA {
            const S value = worlds.read(state + number, stride);
            __builtin_memcpy(blocks + i, &value, sizeof(S));
        });
    }
    // Writes zeros if `blocks` is null.
    LANES_MEMBER void save(T* state, int first, const T* blocks) const {
        for_each_number(first, [&](long long i, long long number) LANES_LAMBDA {
            S value = {};
            if (blocks) __builtin_memcpy(&value, blocks + i, sizeof(S));
            worlds.write(state + number, stride, value);
        });
    }
};

// The anchors of a body's contact with a shape.
struct ShapeAnchors {
    int block, first;  // first block in a row, and first element of the state
    bool used[2];      // whether the adjoints in the two buffers are not all zero
};

template <class T, class S> struct BodyAnchors {
    enum { block_size = Anchors<T>::block_size };
    const RigidBodies<T>& all;
    LaneWorlds<T, S> worlds;
    AnchorBlocks<T, S> points;
    int first_row;  // of the history; -1 if it is not recorded, then two rows alternate
    int side = 0;   // of the two buffers of adjoints, the one for the present anchors

    LANES_MEMBER BodyAnchors(const RigidBodies<T>& all_, const LaneWorlds<T, S>& worlds_, int body, int row)
        : all(all_), worlds(worlds_), points{worlds_, all_.point_order + all_.blocks[body] * LaneTypes<T>::width,
                                             all_.sizes[body], 3 * all_.anchor_count},
          first_row(row) {}
    // The blocks of a pair before step number `step` of a launch; the first has the flag.
    LANES_MEMBER T* at(const ShapeAnchors& pair, int step) const {
        const long long row = first_row < 0 ? step & 1 : first_row + step;
        return all.anchors + (worlds.first / LaneWorlds<T, S>::width * all.anchor_rows + row) * all.anchor_row +
               pair.block * block_size;
    }
    LANES_MEMBER T* adjoints(const ShapeAnchors& pair, int which) const {
        return all.anchor_scratch + which * all.anchor_row + pair.block * block_size;
    }
    LANES_MEMBER void clear(T* blocks) const { points.clear(blocks + block_size); }
    LANES_MEMBER void load(const T* state, const ShapeAnchors& pair, T* blocks) const {
        blocks[0] = 1;
        points.load(state, pair.first, blocks + block_size);
    }
    // Writes zeros if `blocks` is null.
    LANES_MEMBER void save(T* state, const ShapeAnchors& pair, const T* blocks) const {
        points.save(state, pair.first, blocks ? blocks + block_size : nullptr);
    }

    // Marks the anchors after a step as zero, before the evaluation that computes them.
    LANES_MEMBER void reset_next(const ShapeAnchors& pair, int step) const { at(pair, step + 1)[0] = 0; }
    // The anchors of a pair that may be in contact, in one evaluation of the forces.
    LANES_MEMBER Anchors<T> in_stage(const ShapeAnchors& pair, const Matrix<S>& R, int step, int stage, T dt) const {
        const T* now = at(pair, step);
        T* next = nullptr;
        if (stage == Tableau::anchor_stage) {
            next = at(pair, step + 1);
            clear(next);
            next[0] = 1;
            next += block_size;
        }
        const T h = stage_time(stage) * dt;
        return {now[0] != 0 ? now + block_size : nullptr, next, nullptr, nullptr, h, dt, {broadcast(R)}};
    }
    LANES_MEMBER Anchors<T> in_stage_adjoint(ShapeAnchors& pair, const Matrix<S>& R, int step, int stage, T dt) const {
        const T* now = at(pair, step);
        T* now_adj = adjoints(pair, side);
        if (!pair.used[side]) clear(now_adj);
        pair.used[side] = true;
        const T* next_adj = stage == Tableau::anchor_stage && pair.used[!side] ? adjoints(pair, !side) : nullptr;
        return {now[0] != 0 ? now + block_size : nullptr, nullptr, next_adj ? next_adj + block_size : nullptr,
                now_adj + block_size, stage_time(stage) * dt, dt, {broadcast(R)}};
    }
    static LANES_MEMBER T stage_time(int stage) { return T(Tableau::anchor_time[stage]); }
};

}  // namespace gradsim
