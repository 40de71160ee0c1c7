// The picture by exact visible area, and which pixels are drawn how.
#pragma once
#include "exact_owners.h"
#include "paint.h"

namespace gradsim {

// Pixels of a tile that a triangle covers in part.
struct TileEntry {
    int triangle, x, y;
    unsigned lanes;
};

template <class T, int A> struct ExactForward : ExactOwners<T, A> {
    using Base = ExactOwners<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::pixels; using Base::behind;
    using Base::kept_owner; using Base::planes; using Base::stride; using Base::owner; using Base::outlined;
    using Base::covering;
    using Base::left; using Base::right; using Base::top; using Base::bottom; using Base::pierced;
    enum { lanes = LaneTypes<T>::width, rows = TileShape<T>::rows, columns = TileShape<T>::columns };
    int* number;         // of each pixel in doubt
    int *doubt, *begin;  // pixels in doubt, ~ where no outline explains it; where their triangles begin in `member`
    int* member;
    int doubt_count;
    Int list_length;     // of the frame's list
    TileEntry* entry;
    int entry_count, entry_room;

    ExactForward(Job<T>& job, Frame<T, A>& frame, Arena& arena) : Base(job, frame, arena) {
        number = arena.template take<int>((height + rows - 1) * stride);
        doubt = arena.template take<int>(pixels);
        begin = arena.template take<int>(pixels + 2);
        entry_room = 4 * frame.triangle_count + 2 * (height + width) + pixels / 4;
        int spare = (int)smaller((job.scratch_size - arena.used) / 32, (Int)1 << 26);  // grows with what there is
        if (spare > entry_room) entry_room = spare;
        entry = arena.template take<TileEntry>(entry_room);
        entry_count = doubt_count = 0;
    }

    // The frame, unless its entries or its list do not fit: then job says what is needed.
    bool draw(Arena& arena) {
        Base::find_owners();
        if (!scatter()) {
            job.scratch_need = 2 * job.scratch_size;
            return false;
        }
        classify();
        int members = count_members(), most_fragments = 0;
        member = arena.template take<int>(members);
        if (arena.fits()) {
            fill_members();
            if (!enlist(most_fragments)) return false;
        } else {
            most_fragments = members;
        }
        Pixel<T> pixel(arena, most_fragments);
        if (!arena.fits()) {
            job.scratch_need = arena.used;
            return false;
        }
        layers(pixel);
        store_image();
        job.list += list_length;
        job.list_size -= list_length;
        return true;
    }

    inline T* plane(int which, int j) const { return planes.at(which, j % stride, j / stride); }
    inline int image_index(int j) const { return j / stride * width + j % stride; }

    // Adds what single layers show; notes every triangle that covers a part of a pixel.
    bool scatter() {
        using namespace exact_planes;
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            const Surface<T, A> surface(frame, t);
            const Sides<T> sides(t);
            tiles(t, sides, height, width, pierced, [&](int x, int y, const int* from, const int* to) LANES_LAMBDA {
                Tile<T> tile;
                tile.cut(sides, x, y);
                const int j = y * stride + x;
                Index<T> at = __builtin_convertvector(column, Index<T>) + x;
                Index<T> mine = load_tile<Index<T>>(owner + j, stride);
                Mask<T> whole = widened<T>((at >= of_rows<T>(from)) & (at <= of_rows<T>(to)));
                Mask<T> inside = (column < T(width - x)) & (row < T(height - y));
                Mask<T> part = (tile.area > Tiny<T>::area) & ~whole & inside;
                const unsigned parts = bits<T>(part);
                unsigned noted = parts, added = parts;
                if (parts && any(mine >> 3)) before_owners(t, i, x, y, noted, added);
                if (pierced) noted |= bits<T>(whole & inside & widened<T>((mine & UNOWNED) != 0));
                if (!noted) return;
                if (entry_count < entry_room) entry[entry_count] = {i, x, y, noted};
                entry_count++;
                if (!added) return;
                for (int l = 0; added != parts && l < lanes; l++) part[l] = added >> l & 1 ? -1 : 0;
                const Lanes<T> area = part ? tile.area : Lanes<T>{};
                SeenRow<T, A> seen;
                seen.look(surface, frame, x, y, column + tile.u, row + tile.v, part);
                const Int next = COUNT * planes.stride;
                for (int k = 0; k < 4; k++) {
                    T* sum = planes.at(k, x, y);
                    store_tile(sum, next, load_tile<Lanes<T>>(sum, next) + (k < 3 ? area * seen.color[k % 3] : area));
                }
            });
        }
        return entry_count <= entry_room;
    }

    // Takes from some lanes of a tile those that an owner hides, and from those that are added at once also those that
    // `layers` will see to: it pierces them, or an outline passes.
    void before_owners(const Triangle<T>& t, int i, int x, int y, unsigned& noted, unsigned& added) {
        for (unsigned rest = noted; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest), px = x + l % columns, py = y + l / columns, j = py * stride + px;
            if (!(owner[j] >> 3)) continue;
            const Triangle<T>* back = covering(j);
            const Order o = back ? order_in_pixel(t, i, *back, px, py) : PIERCED;
            if (o == PIERCED) owner[j] |= OUTLINE;
            if (o == CLOSER || o == EQUAL) noted &= ~(1u << l);
            if (o != BEHIND || owner[j] & OUTLINE) added &= ~(1u << l);
        }
    }

    // How each pixel is drawn. Where no outline passes coverage is none or whole; anything else is in doubt.
    void classify() {
        const T slack = T(1e-3);
        for (int y = top; y < bottom; y++)
            for (int x = left; x < right; x += lanes) {
                int* mine = owner + y * stride + x;
                Index<T> now = load_as<Index<T>>(mine);
                Lanes<T> covered = load(planes.at(exact_planes::COVER, x, y));
                Mask<T> outline = widened<T>((now & OUTLINE) != 0), bare = covered < slack;
                Mask<T> full = __builtin_elementwise_abs(covered - 1) < slack, layered = outline | ~(bare | full);
                Mask<T> drawn = layered ? Mask<T>{} + LAYERED : full ? Mask<T>{} + MOSAIC : Mask<T>{};
                store(mine, (now & ~3) | __builtin_convertvector(drawn, Index<T>));
                const unsigned outlines = bits<T>(outline);
                for (unsigned rest = bits<T>(layered); rest; rest &= rest - 1) {
                    const int l = __builtin_ctz(rest), j = y * stride + x + l;
                    if (x + l >= right) break;
                    number[j] = doubt_count;
                    doubt[doubt_count++] = outlines >> l & 1 ? j : ~j;
                }
            }
    }

    // Calls note(number of the pixel, triangle) for every triangle in a pixel in doubt.
    template <class Note> LANES_MEMBER void members(Note&& note) const {
        if (!doubt_count) return;
        for (int e = 0; e < entry_count; e++) {
            const int at = entry[e].y * stride + entry[e].x;
            const Index<T> mine = load_tile<Index<T>>(owner + at, stride);
            unsigned rest = entry[e].lanes & bits<T>(widened<T>((mine & 3) == LAYERED));
            for (; rest; rest &= rest - 1) {
                const int l = __builtin_ctz(rest);
                note(number[at + l / columns * stride + l % columns], entry[e].triangle);
            }
        }
    }
    int count_members() {
        for (int i = 0; i < doubt_count + 2; i++) begin[i] = 0;
        members([&](int pixel, int) LANES_LAMBDA { begin[pixel + 2]++; });
        for (int i = 2; i < doubt_count + 2; i++) begin[i] += begin[i - 1];
        return begin[doubt_count + 1];
    }
    void fill_members() {
        members([&](int pixel, int triangle) LANES_LAMBDA { member[begin[pixel + 1]++] = triangle; });
    }

    // Settles what is in doubt. The list of a frame: how many pixels are layered; each, ~ where it holds whole sheets,
    // and where its triangles begin; the triangles.
    bool enlist(int& most_fragments) {
        int layered = 0, entries = 0;
        for (int i = 0; i < doubt_count; i++) {
            const int j = larger(doubt[i], ~doubt[i]);
            int n = begin[i + 1] - begin[i];
            if (n == 0) {
                owner[j] &= ~7;
            } else if (owner[j] == LAYERED && side_by_side(i)) {
                owner[j] = EDGED;
                const T *b = behind(image_index(j)), rest = 1 - *plane(exact_planes::COVER, j);
                for (int k = 0; k < 3; k++) *plane(k, j) += rest * b[k];
            } else {
                const bool sheets = drop_hidden(doubt[i], member + begin[i], n);
                doubt[layered] = sheets ? ~j : j;
                begin[layered] = begin[i];  // never ahead of what is still to be read
                number[j] = n;
                layered++;
                entries += n;
                most_fragments = larger(most_fragments, n);
            }
        }
        list_length = 2 + 2 * layered + entries;
        if (list_length > job.list_size) {
            job.list_need = list_length;
            return false;
        }
        int *list = job.lists[frame.frame] = job.list, *out = list + 1, to = 2 + 2 * layered;
        list[0] = layered;
        for (int i = 0; i < layered; i++) {
            const int j = larger(doubt[i], ~doubt[i]), at_image = image_index(j);
            *out++ = doubt[i] < 0 ? ~at_image : at_image;
            *out++ = to;
            for (int k = 0; k < number[j]; k++) list[to++] = member[begin[i] + k];
        }
        *out = to;
        return true;
    }

    bool side_by_side(int i) const {
        const int j = doubt[i];
        if (j < 0 || *plane(exact_planes::COVER, j) > 1 + T(1e-6)) return false;
        return lie_apart(frame, outlined, member + begin[i], begin[i + 1] - begin[i], j % stride, j / stride);
    }

    // Keeps of the triangles in a pixel only those before a gap in depth, if they hide all others. Returns whether
    // those left are whole sheets: layers that each cover the pixel.
    bool drop_hidden(int where, int* list, int& count) const {
        const int j = larger(where, ~where), x = j % stride, y = j / stride;
        int kept[MOST_SORTED], n = 0;
        const unsigned long long front = count <= MOST_SORTED ? before_gap(frame.triangles, list, count, x, y) : 0;
        for (int k = 0; front && k < count; k++)
            if (front >> k & 1) kept[n++] = list[k];
        if (n == 0 || n == count) return where < 0;
        if (where >= 0 && !lie_apart(frame, outlined, kept, n, x, y)) return false;
        T area = 0, mx, my;
        Small<T> p;
        for (int k = 0; k < n; k++)
            if (cut_to_pixel(frame.triangles[kept[k]], kept[k], x, y, p)) area += centroid(p, mx, my);
        if (__builtin_fabs(area - 1) > Margin<T>::length) return where < 0;
        for (int k = 0; k < n; k++) list[k] = kept[k];
        count = n;
        return true;
    }

    // Pixels with layers: what lies behind, and signed visible pieces of (triangle - behind).
    void layers(Pixel<T>& pixel) {
        const int* list = job.lists[frame.frame];
        Seen<T, A> seen;
        for (int i = 0; i < list[0]; i++) {
            const int place = list[1 + 2 * i], j = larger(place, ~place), from = list[2 + 2 * i];
            const int to = i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i];
            const int x = j % width, y = j / width;
            const Triangle<T>* back = covering(y * stride + x);
            int n = pixel.gather(frame.triangles, list + from, to - from, x, y, back);
            const T* b = behind(j);
            T total[4] = {b[0], b[1], b[2], 0};
            if (back) {
                seen.look(Surface<T, A>(frame, *back), x + T(0.5), y + T(0.5));
                for (int k = 0; k < 3; k++) total[k] = seen.color[k];
                total[3] = 1;
            }
            pixel.resolve(place < 0, n, x, y, [&](Fragment<T>& g, T sign, Large<T>& p) {
                T mx, my, area = sign * centroid(p, mx, my);
                seen.look(Surface<T, A>(frame, *g.t), mx, my);
                for (int k = 0; k < 3; k++) total[k] += area * seen.color[k];
                if (back) {
                    seen.look(Surface<T, A>(frame, *back), mx, my);
                    for (int k = 0; k < 3; k++) total[k] -= area * seen.color[k];
                } else {
                    for (int k = 0; k < 3; k++) total[k] -= area * b[k];
                    total[3] += area;
                }
            });
            for (int k = 0; k < 4; k++) *planes.at(k, x, y) = total[k];
        }
    }

    void store_image() {
        for (int y = 0; y < height; y++) {
            const bool some = y >= top && y < bottom;
            for (int x = 0; x < width; x += lanes) {
                const int j = y * width + x, count = smaller((int)lanes, width - x);
                Lanes<T> value[4];
                if (some && x < right && x + lanes > left) shown(x, y, value);
                else empty(j, count, value);
                write_pixels(job.image + (frame.frame * pixels + j) * job.channels, (int)job.channels, count, value);
            }
        }
    }

    LANES_MEMBER void empty(int j, int count, Lanes<T>* value) {
        for (int k = 0; k < 3; k++) value[k] = splat(behind(j)[k]);
        value[3] = Lanes<T>{};
        if (job.background_pixel_stride)
            for (int l = 0; l < count; l++)
                for (int k = 0; k < 3; k++) value[k][l] = behind(j + l)[k];
        for (int l = 0; l < count; l++) kept_owner[j + l] = 0;
        keep(j, count, value[3]);
    }

    LANES_MEMBER void shown(int x, int y, Lanes<T>* value) {
        const int j = y * width + x, count = smaller((int)lanes, width - x);
        Lanes<T> ramp;
        for (int l = 0; l < lanes; l++) ramp[l] = T(l);
        Mask<T> inside = (ramp >= T(left - x)) & (ramp < T(right - x));
        Index<T> mine = __builtin_convertvector(inside, Index<T>) & load_as<Index<T>>(owner + y * stride + x);
        empty(j, count, value);
        const Mask<T> summed = widened<T>((mine & 3) != 0);
        for (int k = 0; k < 4; k++) value[k] = summed ? load(planes.at(k, x, y)) : value[k];
        for (unsigned rest = bits<T>(widened<T>(mine >> 3) != 0) & ~bits<T>(summed); rest;) {
            const int own = mine[__builtin_ctz(rest)];
            const Mask<T> same = widened<T>(mine == own);
            SeenRow<T, A> seen;
            const Surface<T, A> surface(frame, frame.triangles[(own >> 3) - 1]);
            seen.look(surface, frame, x, y, ramp + T(0.5), splat(T(0.5)), same);
            for (int k = 0; k < 3; k++) value[k] = same ? seen.color[k] : value[k];
            value[3] = same ? splat(T(1)) : value[3];
            rest &= ~bits<T>(same);
        }
        if (count == lanes) store(kept_owner + j, mine);
        else
            for (int l = 0; l < count; l++) kept_owner[j + l] = mine[l];
        keep(j, count, value[3]);
    }

    // How much of the background is seen, where its gradient is wanted.
    LANES_MEMBER void keep(int j, int count, Lanes<T> coverage) {
        if (job.kept)
            for (int l = 0; l < count; l++) job.kept[frame.frame * pixels + j + l] = 1 - coverage[l];
    }
};

}  // namespace gradsim
