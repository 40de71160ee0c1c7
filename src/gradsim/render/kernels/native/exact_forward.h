// The picture by exact visible area, and which pixels are drawn how.
#pragma once
#include "coverage.h"
#include "exact_common.h"
#include "paint.h"
#include "tile.h"

namespace gradsim {

namespace exact_planes {
enum { RED, GREEN, BLUE, COVER, COUNT };  // the owner's 1 / w in COVER meanwhile
}

// Pixels of a tile that a triangle covers in part.
struct TileEntry {
    int triangle, x, y;
    unsigned lanes;
};

template <class T, int A> struct ExactForward : Exact<T, A> {
    using Base = Exact<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::pixels; using Base::behind;
    enum { lanes = PixelTypes<T>::width, columns = TileShape<T>::columns };
    Planes<T, exact_planes::COUNT> planes;
    const int stride;          // of the integers of pixels, as of the planes
    int* owner;                // of each pixel
    int* number;               // of each pixel in doubt
    int *doubt, *begin;        // pixels in doubt, and where their triangles begin in `member`
    int* member;
    int doubt_count;
    TileEntry* entry;
    int entry_count, entry_room;
    unsigned char* outlined;   // a bit for each edge of each face that is an outline
    int left, right, top, bottom;  // of all triangles on the image, in pixels
    bool pierced;

    ExactForward(Job<T>& job, Frame<T, A>& frame, Arena& arena)
        : Base(job, frame), planes(height + 1, width, arena), stride((int)planes.stride) {
        owner = arena.template take<int>((height + 1) * stride);
        number = arena.template take<int>((height + 1) * stride);
        doubt = arena.template take<int>(pixels);
        begin = arena.template take<int>(pixels + 2);
        outlined = arena.template take<unsigned char>(job.face_count);
        entry_room = 4 * frame.triangle_count + 2 * (height + width) + pixels / 4;
        int spare = (int)least((job.scratch_size - arena.used) / 32, (Int)1 << 26);  // grows with what there is
        if (spare > entry_room) entry_room = spare;
        entry = arena.template take<TileEntry>(entry_room);
        entry_count = doubt_count = 0;
        pierced = false;
    }

    // The frame, unless its entries or its list do not fit: then job says what is needed.
    bool draw(Arena& arena) {
        bound();
        cover();
        clear();
        trace();
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
        return true;
    }

    inline T* plane(int which, int j) const { return planes.at(which, j % stride, j / stride); }
    inline int image_index(int j) const { return j / stride * width + j % stride; }
    inline const Triangle<T>* covering(int j) const { return Base::covering(owner[j]); }

    void bound() {
        T l = T(width), r = 0, t = T(height), b = 0;
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& s = frame.triangles[i];
            l = least(l, s.left); r = most(r, s.right); t = least(t, s.top); b = most(b, s.bottom);
        }
        left = l > 0 ? (int)l : 0;
        top = t > 0 ? (int)t : 0;
        right = r < width ? (int)r + 1 : width;
        bottom = b < height ? (int)b + 1 : height;
        for (int y = top; y <= bottom; y++)
            for (int x = left; x < right + columns; x += lanes) {
                store(owner + y * stride + x, Index<T>{});
                store(planes.at(exact_planes::COVER, x, y), Row<T>{});
            }
    }

    // Triangles that cover whole pixels: the closest owns the pixel. Where two come near each other they may pierce.
    void cover() {
        Spans<T> spans;
        Row<T> ramp;
        for (int l = 0; l < lanes; l++) ramp[l] = T(l);
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            if (!(t.right - t.left > 1 && t.bottom - t.top > 1)) continue;
            const Sides<T> sides(t);
            const int first = t.top > 0 ? (int)t.top : 0, last = t.bottom < height ? (int)t.bottom : height - 1;
            const T slope = t.depth_slope_x();
            for (int y = first; y <= last; y++) {
                const int r = (y - first) % Spans<T>::count;
                if (r == 0) find_spans(t, sides, y, width, spans);
                for (int x = spans.from[r]; x <= spans.to[r]; x += lanes)
                    own(i, x, y, spans.to[r] - x + 1, t.depth_at(x + T(0.5), y + T(0.5)) + ramp * slope, ramp);
            }
        }
    }

    RENDER_MEMBER void own(int i, int x, int y, int count, Row<T> depth, Row<T> ramp) {
        int* now = owner + y * stride + x;
        T* closest = planes.at(exact_planes::COVER, x, y);
        const Mask<T> inside = ramp < T(count);
        const Index<T> before = load<Index<T>>(now), chosen = __builtin_convertvector(inside, Index<T>);
        if (!any(before & chosen)) {
            store(now, chosen ? Index<T>{} + 8 * (i + 1) : before);
            store(closest, inside ? depth : load<Row<T>>(closest));
            return;
        }
        const T reach = half_reach(frame.triangles[i]);
        for (int l = 0; l < lanes && l < count; l++) {
            const T d = depth[l];
            if (now[l] && __builtin_fabs(d - closest[l]) <= reach + half_reach(frame.triangles[(now[l] >> 3) - 1])) {
                now[l] |= OUTLINE | UNOWNED;
                pierced = true;
            }
            if (d > closest[l]) {
                closest[l] = d;
                now[l] = 8 * (i + 1) + (now[l] & 7);
            }
        }
    }

    void clear() {
        for (int y = top; y <= bottom; y++)
            for (int k = 0; k < exact_planes::COUNT; k++)
                for (int x = left; x < right + columns; x += lanes) store(planes.at(k, x, y), Row<T>{});
        for (Int f = 0; f < job.face_count; f++) outlined[f] = 0;
    }

    // Outlines: edges whose two faces do not both show the same side. A pixel without one holds whole layers.
    void trace() {
        for (int e = 0; e < (int)job.edge_count; e++) {
            const int* edge = job.edges + 4 * e;
            if (frame.facing[edge[2]] == (edge[3] >= 0 ? frame.facing[edge[3]] : (int)HIDDEN)) continue;
            for (int k = 2; k < 4; k++)
                if (edge[k] >= 0) outlined[edge[k]] |= (unsigned char)(1 << side_of(job.faces + 3 * edge[k], edge));
            if (!frame.is_behind(edge[0]) && !frame.is_behind(edge[1]))
                trace(frame.screen + 3 * edge[0], frame.screen + 3 * edge[1]);
        }
        if (frame.between_count == 0) return;
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            for (int k = 0; t.opened && k < 3; k++)
                trace(frame.screen + 3 * t.vertex[k], frame.screen + 3 * t.vertex[(k + 1) % 3]);
        }
    }
    static int side_of(const int* face, const int* edge) {
        for (int k = 0; k < 2; k++)
            if ((face[k] == edge[0] && face[k + 1] == edge[1]) || (face[k] == edge[1] && face[k + 1] == edge[0])) return k;
        return 2;
    }

    void trace(const T* p, const T* q) {
        const T pad = T(1e-4);  // [px], more than rounding can move an edge
        if (p[1] > q[1]) { const T* s = p; p = q; q = s; }
        if (!(q[1] + pad >= top) || !(p[1] - pad < bottom)) return;
        T slope = q[1] > p[1] ? (q[0] - p[0]) / (q[1] - p[1]) : 0;
        int first = p[1] - pad > top ? (int)(p[1] - pad) : top, last = q[1] + pad < bottom ? (int)(q[1] + pad) : bottom - 1;
        for (int y = first; y <= last; y++) {
            T above = most(p[1], T(y) - pad), below = least(q[1], T(y + 1) + pad);
            T u = p[0] + (above - p[1]) * slope, v = p[0] + (below - p[1]) * slope;
            if (q[1] - p[1] < 2 * pad) { u = p[0]; v = q[0]; }
            if (u > v) { T s = u; u = v; v = s; }
            u -= pad;
            v += pad;
            if (!(v >= left) || !(u < right)) continue;
            int from = u > left ? (int)u : left, to = v < right ? (int)v : right - 1;
            for (int x = from; x <= to; x++) owner[y * stride + x] |= OUTLINE;
        }
    }

    // Adds what single layers show; notes every triangle that covers a part of a pixel.
    bool scatter() {
        using namespace exact_planes;
        const Row<T> column = lane_columns<T>(), row = lane_rows<T>();
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            const Surface<T, A> surface(frame, t);
            const Sides<T> sides(t);
            tiles(t, sides, height, width, pierced, [&](int x, int y, const int* from, const int* to) RENDER_LAMBDA {
                Tile<T> tile;
                tile.cut(sides, x, y);
                const int j = y * stride + x;
                Index<T> at = __builtin_convertvector(column, Index<T>) + x, mine = load_tile<Index<T>>(owner + j, stride);
                Mask<T> whole = widened<T>((at >= of_rows<T>(from)) & (at <= of_rows<T>(to)));
                Mask<T> inside = (column < T(width - x)) & (row < T(height - y));
                Mask<T> part = (tile.area > Tiny<T>::area) & ~whole & inside;
                unsigned noted = bits<T>(part), added = noted;
                if (pierced) noted |= bits<T>(whole & inside & widened<T>((mine & UNOWNED) != 0));
                if (!noted) return;
                if (entry_count < entry_room) entry[entry_count] = {i, x, y, noted};
                entry_count++;
                if (!added) return;
                if (any(mine >> 3)) {
                    added = before_owners(t, i, x, y, added);
                    if (!added) return;
                    for (int l = 0; l < lanes; l++) part[l] = added >> l & 1 ? -1 : 0;
                }
                const Row<T> area = part ? tile.area : Row<T>{};
                SeenRow<T, A> seen;
                seen.look(surface, frame, x, y, column + tile.u, row + tile.v, part);
                const Int next = COUNT * planes.stride;
                for (int k = 0; k < 4; k++) {
                    T* sum = planes.at(k, x, y);
                    store_tile(sum, next, load_tile<Row<T>>(sum, next) + (k < 3 ? area * seen.color[k % 3] : area));
                }
            });
        }
        return entry_count <= entry_room;
    }

    // Of some lanes of a tile those that a triangle's owner does not hide or pierce; outlines leave that to `layers`.
    unsigned before_owners(const Triangle<T>& t, int i, int x, int y, unsigned some) {
        for (unsigned rest = some; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest), px = x + l % columns, py = y + l / columns, j = py * stride + px;
            if (!(owner[j] >> 3)) continue;
            const Triangle<T>* back = covering(j);
            Order o = !back || owner[j] & OUTLINE ? CLOSER : order_in_pixel(t, i, *back, px, py);
            if (o == PIERCED) owner[j] |= OUTLINE;
            if (o != BEHIND) some &= ~(1u << l);
        }
        return some;
    }

    // How each pixel is drawn. Where no outline passes coverage is none or whole; anything else is in doubt.
    void classify() {
        const T slack = T(1e-3);
        for (int y = top; y < bottom; y++)
            for (int x = left; x < right; x += lanes) {
                int* mine = owner + y * stride + x;
                Index<T> now = load<Index<T>>(mine);
                Row<T> covered = load<Row<T>>(planes.at(exact_planes::COVER, x, y));
                Mask<T> outline = widened<T>((now & OUTLINE) != 0), bare = covered < slack;
                Mask<T> full = __builtin_elementwise_abs(covered - 1) < slack, layered = outline | ~(bare | full);
                Index<T> drawn = __builtin_convertvector(layered ? Mask<T>{} + LAYERED : full ? Mask<T>{} + MOSAIC : Mask<T>{},
                                                         Index<T>);
                store(mine, (now & ~3) | drawn);
                for (unsigned rest = bits<T>(layered); rest; rest &= rest - 1) {
                    const int l = __builtin_ctz(rest);
                    if (x + l >= right) break;
                    number[y * stride + x + l] = doubt_count;
                    doubt[doubt_count++] = y * stride + x + l;
                }
            }
    }

    // Calls note(number of the pixel, triangle) for every triangle in a pixel in doubt.
    template <class Note> RENDER_MEMBER void members(Note&& note) const {
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
        members([&](int pixel, int) RENDER_LAMBDA { begin[pixel + 2]++; });
        for (int i = 2; i < doubt_count + 2; i++) begin[i] += begin[i - 1];
        return begin[doubt_count + 1];
    }
    void fill_members() {
        members([&](int pixel, int triangle) RENDER_LAMBDA { member[begin[pixel + 1]++] = triangle; });
    }

    // Settles what is in doubt. The list of a frame: how many pixels are layered; each and where its triangles begin;
    // the triangles.
    bool enlist(int& most_fragments) {
        int layered = 0, entries = 0;
        for (int i = 0; i < doubt_count; i++) {
            const int j = doubt[i], n = begin[i + 1] - begin[i];
            if (n == 0) {
                owner[j] &= ~7;
            } else if (owner[j] == LAYERED && side_by_side(i)) {
                owner[j] = EDGED;
                const T *b = behind(image_index(j)), rest = 1 - *plane(exact_planes::COVER, j);
                for (int k = 0; k < 3; k++) *plane(k, j) += rest * b[k];
            } else {
                doubt[layered] = j;
                begin[layered] = begin[i];  // never ahead of what is still to be read
                number[j] = n;
                layered++;
                entries += n;
                most_fragments = most(most_fragments, n);
            }
        }
        Int at = frame.frame - job.first, start = at ? job.starts[at] : 0, end = start + 2 + 2 * layered + entries;
        if (end > job.list_size) {
            job.list_need = end;
            return false;
        }
        job.starts[at] = start;
        job.starts[at + 1] = end;
        int *list = job.list + start, *out = list + 1, to = 2 + 2 * layered;
        list[0] = layered;
        for (int i = 0; i < layered; i++) {
            *out++ = image_index(doubt[i]);
            *out++ = to;
            for (int k = 0; k < number[doubt[i]]; k++) list[to++] = member[begin[i] + k];
        }
        *out = to;
        return true;
    }

    bool side_by_side(int i) const {
        const int j = doubt[i];
        if (*plane(exact_planes::COVER, j) > 1 + T(1e-6)) return false;
        return lie_apart(frame, outlined, member + begin[i], begin[i + 1] - begin[i], j % stride, j / stride);
    }

    // Pixels with layers: what lies behind, and signed visible pieces of (triangle - behind).
    void layers(Pixel<T>& pixel) {
        const int* list = job.list + job.starts[frame.frame - job.first];
        Seen<T, A> seen;
        for (int i = 0; i < list[0]; i++) {
            const int j = list[1 + 2 * i], from = list[2 + 2 * i], to = i + 1 < list[0] ? list[4 + 2 * i] : list[3 + 2 * i];
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
            pixel.resolve(n, x, y, [&](Fragment<T>& g, T sign, Large<T>& p) {
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
                const int j = y * width + x, count = least((int)lanes, width - x);
                Row<T> value[4];
                if (some && x < right && x + lanes > left) shown(x, y, value);
                else empty(j, count, value);
                write_pixels(job.image + (frame.frame * pixels + j) * job.channels, (int)job.channels, count, value);
            }
        }
    }

    RENDER_MEMBER void empty(int j, int count, Row<T>* value) {
        for (int k = 0; k < 3; k++) value[k] = fill(behind(j)[k]);
        value[3] = Row<T>{};
        if (job.background_pixel_stride)
            for (int l = 0; l < count; l++)
                for (int k = 0; k < 3; k++) value[k][l] = behind(j + l)[k];
        for (int l = 0; l < count; l++) Base::owner[j + l] = 0;
        keep(j, count, value[3]);
    }

    RENDER_MEMBER void shown(int x, int y, Row<T>* value) {
        const int j = y * width + x, count = least((int)lanes, width - x);
        Row<T> ramp;
        for (int l = 0; l < lanes; l++) ramp[l] = T(l);
        Mask<T> inside = (ramp >= T(left - x)) & (ramp < T(right - x));
        Index<T> mine = __builtin_convertvector(inside, Index<T>) & load<Index<T>>(owner + y * stride + x);
        empty(j, count, value);
        const Mask<T> summed = widened<T>((mine & 3) != 0);
        for (int k = 0; k < 4; k++) value[k] = summed ? load<Row<T>>(planes.at(k, x, y)) : value[k];
        for (unsigned rest = bits<T>(widened<T>(mine >> 3) != 0) & ~bits<T>(summed); rest;) {
            const int own = mine[__builtin_ctz(rest)];
            const Mask<T> same = widened<T>(mine == own);
            SeenRow<T, A> seen;
            seen.look(Surface<T, A>(frame, frame.triangles[(own >> 3) - 1]), frame, x, y, ramp + T(0.5), fill(T(0.5)), same);
            for (int k = 0; k < 3; k++) value[k] = same ? seen.color[k] : value[k];
            value[3] = same ? fill(T(1)) : value[3];
            rest &= ~bits<T>(same);
        }
        if (count == lanes) store(Base::owner + j, mine);
        else
            for (int l = 0; l < count; l++) Base::owner[j + l] = mine[l];
        keep(j, count, value[3]);
    }

    // How much of the background is seen, where its gradient is wanted.
    RENDER_MEMBER void keep(int j, int count, Row<T> coverage) {
        if (job.kept)
            for (int l = 0; l < count; l++) job.kept[frame.frame * pixels + j + l] = 1 - coverage[l];
    }
};

}  // namespace gradsim
