// The image by exact visible area, and the kind of each pixel.
#pragma once
#include "exact_front.h"
#include "sample_lanes.h"

namespace gradsim {

// Pixels of a tile that a triangle covers partly.
struct TileEntry {
    int triangle, x, y;
    unsigned lanes;  // one bit each
};

template <class T, int A> struct ExactForward : ExactFront<T, A> {
    using Base = ExactFront<T, A>;
    using Base::job; using Base::frame; using Base::height; using Base::width; using Base::pixel_count;
    using Base::window;
    using Base::background_at; using Base::saved_front; using Base::planes; using Base::stride; using Base::front;
    using Base::silhouette_edges; using Base::front_at; using Base::intersecting;
    using Base::left; using Base::right; using Base::top; using Base::bottom;
    enum { lanes = LaneTypes<T>::width, rows = TileShape<T>::rows, columns = TileShape<T>::columns };
    int* number;          // of each ambiguous pixel; of each multi-layer pixel later the number of its triangles
    int *pixels, *begin;  // ambiguous pixels, ~ if no silhouette crosses; where their triangles begin in `members`
    int* members;         // triangles in ambiguous pixels
    int ambiguous_count;
    Int list_length;      // of the frame's list
    TileEntry* entries;
    int entry_count, entry_capacity;

    ExactForward(RasterJob<T>& job, Frame<T, A>& frame, Arena& arena) : Base(job, frame, arena) {
        number = arena.template allocate<int>((height + rows - 1) * stride);
        pixels = arena.template allocate<int>(pixel_count);
        begin = arena.template allocate<int>(pixel_count + 2);
        entry_capacity = 4 * frame.triangle_count + 2 * (height + width) + pixel_count / 4;
        int spare = (int)smaller((job.scratch_size - arena.used) / 32, (Int)1 << 26);  // half of the scratch left
        if (spare > entry_capacity) entry_capacity = spare;
        entries = arena.template allocate<TileEntry>(entry_capacity);
        entry_count = ambiguous_count = 0;
    }

    // Draws the frame. Returns false if its entries or its list need more memory, which the job then requests.
    bool draw(Arena& arena) {
        Base::find_front_triangles();
        if (!add_single_layers()) {
            job.scratch_needed = 2 * job.scratch_size;
            return false;
        }
        classify();
        int member_count = count_members(), max_fragments = 0;
        members = arena.template allocate<int>(member_count);
        if (arena.fits()) {
            fill_members();
            if (!resolve_ambiguous(max_fragments)) return false;
        } else {
            max_fragments = member_count;
        }
        PixelVisibility<T> visibility(arena, max_fragments);
        if (!arena.fits()) {
            job.scratch_needed = arena.used;
            return false;
        }
        draw_multi_layer(visibility);
        store_image();
        job.list += list_length;
        job.list_size -= list_length;
        return true;
    }

    inline T* plane(int which, int j) const { return planes.at(which, j % stride, j / stride); }
    inline int image_index(int j) const { return j / stride * width + j % stride; }

    // Adds colour and coverage of partly covered pixels as if there were a single layer, and an entry for each triangle
    // that covers a part of a pixel. Returns false if the entries do not fit.
    bool add_single_layers() {
        using namespace exact_plane;
        const Lanes<T> column = lane_columns<T>(), row = lane_rows<T>();
        for (int i = 0; i < frame.triangle_count; i++) {
            const Triangle<T>& t = frame.triangles[i];
            const ShadedTriangle<T, A> shaded(frame, t);
            const TriangleEdges<T> edges(t);
            auto visit = [&](int x, int y, const int* from, const int* to) LANES_LAMBDA {
                TileCoverage<T> tile;
                tile.compute(edges, x, y);
                const int j = y * stride + x;
                Index<T> at = __builtin_convertvector(column, Index<T>) + x;
                Index<T> codes = load_tile<Index<T>>(front + j, stride);
                Mask<T> full = widened<T>((at >= splat_rows<T>(from)) & (at <= splat_rows<T>(to)));
                Mask<T> inside = (column >= T(window.left - x)) & (column < T(window.right - x)) &
                                 (row >= T(window.top - y)) & (row < T(window.bottom - y));
                Mask<T> part = (tile.area > Epsilon<T>::area) & ~full & inside;
                const unsigned parts = bits<T>(part);
                unsigned listed = parts, added = parts;
                if (parts && any(codes >> FRONT_SHIFT)) drop_hidden_lanes(t, i, x, y, listed, added);
                if (intersecting) listed |= bits<T>(full & inside & widened<T>((codes & INTERSECTING_FRONT) != 0));
                if (!listed) return;
                if (entry_count < entry_capacity) entries[entry_count] = {i, x, y, listed};
                entry_count++;
                if (!added) return;
                for (int l = 0; added != parts && l < lanes; l++) part[l] = added >> l & 1 ? -1 : 0;
                const Lanes<T> area = part ? tile.area : Lanes<T>{};
                SampleLanes<T, A> sample;
                sample.evaluate(shaded, frame, x, y, column + tile.u, row + tile.v, part);
                const Int next = COUNT * planes.stride;
                for (int k = 0; k < 4; k++) {
                    T* sum = planes.at(k, x, y);
                    const Lanes<T> term = k < 3 ? area * sample.color[k % 3] : area;
                    store_tile(sum, next, load_tile<Lanes<T>>(sum, next) + term);
                }
            };
            for_each_tile(t, edges, height, width, window, intersecting, visit);
        }
        return entry_count <= entry_capacity;
    }

    // Removes lanes where the front triangle hides t from both sets, and from `added` also those of multi-layer pixels:
    // the front triangle intersects t, or a silhouette crosses.
    void drop_hidden_lanes(const Triangle<T>& t, int i, int x, int y, unsigned& listed, unsigned& added) {
        for (unsigned rest = listed; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest), px = x + l % columns, py = y + l / columns, j = py * stride + px;
            if (!(front[j] >> FRONT_SHIFT)) continue;
            const Triangle<T>* nearest = front_at(j);
            const DepthOrder o = nearest ? depth_order_in_pixel(t, i, *nearest, px, py) : INTERSECTING;
            if (o == INTERSECTING) front[j] |= SILHOUETTE;
            if (o == IN_FRONT || o == EQUAL) listed &= ~(1u << l);
            if (o != BEHIND || front[j] & SILHOUETTE) added &= ~(1u << l);
        }
    }

    // Determines the kind of each pixel. Without a silhouette the coverage is 0 or 1; all other pixels are ambiguous.
    void classify() {
        const T slack = T(1e-3);
        for (int y = top; y < bottom; y++)
            for (int x = left; x < right; x += lanes) {
                int* codes = front + y * stride + x;
                Index<T> now = load_as<Index<T>>(codes);
                Lanes<T> coverage = load(planes.at(exact_plane::COVERAGE, x, y));
                Mask<T> silhouette = widened<T>((now & SILHOUETTE) != 0), empty = coverage < slack;
                Mask<T> full = __builtin_elementwise_abs(coverage - 1) < slack;
                Mask<T> ambiguous = silhouette | ~(empty | full);
                Mask<T> kind = ambiguous ? Mask<T>{} + MULTI_LAYER : full ? Mask<T>{} + SINGLE_LAYER : Mask<T>{};
                store(codes, (now & ~KIND) | __builtin_convertvector(kind, Index<T>));
                const unsigned silhouettes = bits<T>(silhouette);
                for (unsigned rest = bits<T>(ambiguous); rest; rest &= rest - 1) {
                    const int l = __builtin_ctz(rest), j = y * stride + x + l;
                    if (x + l >= right) break;
                    number[j] = ambiguous_count;
                    pixels[ambiguous_count++] = silhouettes >> l & 1 ? j : ~j;
                }
            }
    }

    // Calls visit(number of the pixel, triangle) for every triangle in an ambiguous pixel.
    template <class Visit> LANES_MEMBER void for_each_member(Visit&& visit) const {
        if (!ambiguous_count) return;
        for (int e = 0; e < entry_count; e++) {
            const int at = entries[e].y * stride + entries[e].x;
            const Index<T> codes = load_tile<Index<T>>(front + at, stride);
            unsigned rest = entries[e].lanes & bits<T>(widened<T>((codes & KIND) == MULTI_LAYER));
            for (; rest; rest &= rest - 1) {
                const int l = __builtin_ctz(rest);
                visit(number[at + l / columns * stride + l % columns], entries[e].triangle);
            }
        }
    }
    int count_members() {
        for (int i = 0; i < ambiguous_count + 2; i++) begin[i] = 0;
        for_each_member([&](int pixel, int) LANES_LAMBDA { begin[pixel + 2]++; });
        for (int i = 2; i < ambiguous_count + 2; i++) begin[i] += begin[i - 1];
        return begin[ambiguous_count + 1];
    }
    void fill_members() {
        for_each_member([&](int pixel, int triangle) LANES_LAMBDA { members[begin[pixel + 1]++] = triangle; });
    }

    // Decides the kind of each ambiguous pixel and writes the list of multi-layer pixels. Returns false if it does not
    // fit.
    bool resolve_ambiguous(int& max_fragments) {
        int multi_layer = 0, member_count = 0;
        for (int i = 0; i < ambiguous_count; i++) {
            const int j = larger(pixels[i], ~pixels[i]);
            int n = begin[i + 1] - begin[i];
            if (n == 0) {
                front[j] &= ~FLAGS;
            } else if (front[j] == MULTI_LAYER && is_single_layer_pixel(i)) {
                front[j] = SINGLE_LAYER_EDGE;
                const T *b = background_at(image_index(j)), rest = 1 - *plane(exact_plane::COVERAGE, j);
                for (int k = 0; k < 3; k++) *plane(k, j) += rest * b[k];
            } else {
                const bool full_layers = drop_hidden(pixels[i], members + begin[i], n);
                pixels[multi_layer] = full_layers ? ~j : j;
                begin[multi_layer] = begin[i];  // not yet read entries are never overwritten
                number[j] = n;
                multi_layer++;
                member_count += n;
                max_fragments = larger(max_fragments, n);
            }
        }
        return write_list(multi_layer, member_count);
    }

    bool write_list(int multi_layer, int member_count) {
        int to = LayerList::header_size(multi_layer);
        list_length = to + member_count;
        if (list_length > job.list_size) {
            job.list_needed = list_length;
            return false;
        }
        int *list = job.lists[frame.index] = job.list, *out = list + 1;
        list[0] = multi_layer;
        for (int i = 0; i < multi_layer; i++) {
            const int j = larger(pixels[i], ~pixels[i]), at_image = image_index(j);
            *out++ = pixels[i] < 0 ? ~at_image : at_image;
            *out++ = to;
            for (int k = 0; k < number[j]; k++) list[to++] = members[begin[i] + k];
        }
        *out = to;
        return true;
    }

    bool is_single_layer_pixel(int i) const {
        const int j = pixels[i];
        if (j < 0 || *plane(exact_plane::COVERAGE, j) > 1 + T(1e-6)) return false;
        return is_single_layer(frame, silhouette_edges, members + begin[i], begin[i + 1] - begin[i], j % stride,
                               j / stride);
    }

    // Reduces the triangles in a pixel to those before a gap in depth, if these hide all others. Returns whether the
    // remaining ones form full layers, which each cover the pixel.
    bool drop_hidden(int pixel, int* list, int& count) const {
        const int j = larger(pixel, ~pixel), x = j % stride, y = j / stride;
        int nearest[MAX_CLUSTER], n = 0;
        const unsigned long long cluster =
            count <= MAX_CLUSTER ? nearest_cluster(frame.triangles, list, count, x, y) : 0;
        for (int k = 0; cluster && k < count; k++)
            if (cluster >> k & 1) nearest[n++] = list[k];
        if (n == 0 || n == count) return pixel < 0;
        if (pixel >= 0 && !is_single_layer(frame, silhouette_edges, nearest, n, x, y)) return false;
        T area = 0, mx, my;
        SmallPolygon<T> p;
        for (int k = 0; k < n; k++)
            if (clip_to_pixel(frame.triangles[nearest[k]], nearest[k], x, y, p)) area += centroid(p, mx, my);
        if (__builtin_fabs(area - 1) > Tolerance<T>::length) return pixel < 0;
        for (int k = 0; k < n; k++) list[k] = nearest[k];
        count = n;
        return true;
    }

    // Multi-layer pixels: the front triangle or the background, plus signed visible pieces of (triangle - that).
    void draw_multi_layer(PixelVisibility<T>& visibility) {
        const LayerList list(job.lists[frame.index]);
        Sample<T, A> sample;
        for (int i = 0; i < list.pixel_count(); i++) {
            const int j = list.pixel(i), x = j % width, y = j / width;
            const Triangle<T>* nearest = front_at(y * stride + x);
            const int n = visibility.clip_fragments(frame.triangles, list.triangles(i), list.triangle_count(i), x, y,
                                                    nearest);
            const T* b = background_at(j);
            T total[4] = {b[0], b[1], b[2], 0};
            if (nearest) {
                sample.evaluate(ShadedTriangle<T, A>(frame, *nearest), x + T(0.5), y + T(0.5));
                for (int k = 0; k < 3; k++) total[k] = sample.color[k];
                total[3] = 1;
            }
            visibility.visible_pieces(list.full_layers(i), n, x, y, [&](Fragment<T>& g, T sign, LargePolygon<T>& p) {
                T mx, my, area = sign * centroid(p, mx, my);
                sample.evaluate(ShadedTriangle<T, A>(frame, *g.t), mx, my);
                for (int k = 0; k < 3; k++) total[k] += area * sample.color[k];
                if (nearest) {
                    sample.evaluate(ShadedTriangle<T, A>(frame, *nearest), mx, my);
                    for (int k = 0; k < 3; k++) total[k] -= area * sample.color[k];
                } else {
                    for (int k = 0; k < 3; k++) total[k] -= area * b[k];
                    total[3] += area;
                }
            });
            for (int k = 0; k < 4; k++) *planes.at(k, x, y) = total[k];
        }
    }

    void store_image() {
        for (int y = window.top; y < window.bottom; y++) {
            const bool in_rows = y >= top && y < bottom;
            for (int x = window.left; x < window.right; x += lanes) {
                const int j = y * width + x, count = smaller((int)lanes, width - x);
                Lanes<T> value[4];
                if (in_rows && x < right && x + lanes > left) final_values(x, y, value);
                else background_values(j, count, value);
                write_pixels(job.image + (frame.index * pixel_count + j) * job.channels, (int)job.channels, count,
                             value);
            }
        }
    }

    LANES_MEMBER void background_values(int j, int count, Lanes<T>* value) {
        for (int k = 0; k < 3; k++) value[k] = splat(background_at(j)[k]);
        value[3] = Lanes<T>{};
        if (job.background_pixel_stride)
            for (int l = 0; l < count; l++)
                for (int k = 0; k < 3; k++) value[k][l] = background_at(j + l)[k];
        for (int l = 0; l < count; l++) saved_front[j + l] = 0;
        save_background_weight(j, count, value[3]);
    }

    LANES_MEMBER void final_values(int x, int y, Lanes<T>* value) {
        const int j = y * width + x, count = smaller((int)lanes, width - x);
        Lanes<T> ramp;
        for (int l = 0; l < lanes; l++) ramp[l] = T(l);
        Mask<T> inside = (ramp >= T(left - x)) & (ramp < T(right - x));
        Index<T> codes = __builtin_convertvector(inside, Index<T>) & load_as<Index<T>>(front + y * stride + x);
        background_values(j, count, value);
        const Mask<T> summed = widened<T>((codes & KIND) != 0);
        for (int k = 0; k < 4; k++) value[k] = summed ? load(planes.at(k, x, y)) : value[k];
        for (unsigned rest = bits<T>(widened<T>(codes >> FRONT_SHIFT) != 0) & ~bits<T>(summed); rest;) {
            const int code = codes[__builtin_ctz(rest)];
            const Mask<T> same = widened<T>(codes == code);
            SampleLanes<T, A> sample;
            const ShadedTriangle<T, A> shaded(frame, frame.triangles[(code >> FRONT_SHIFT) - 1]);
            sample.evaluate(shaded, frame, x, y, ramp + T(0.5), splat(T(0.5)), same);
            for (int k = 0; k < 3; k++) value[k] = same ? sample.color[k] : value[k];
            value[3] = same ? splat(T(1)) : value[3];
            rest &= ~bits<T>(same);
        }
        if (count == lanes) store(saved_front + j, codes);
        else
            for (int l = 0; l < count; l++) saved_front[j + l] = codes[l];
        save_background_weight(j, count, value[3]);
    }

    LANES_MEMBER void save_background_weight(int j, int count, Lanes<T> coverage) {
        static_assert(exact_saved::count == 1, "one value a pixel");
        if (job.saved)
            for (int l = 0; l < count; l++) job.saved[frame.index * pixel_count + j + l] = 1 - coverage[l];
    }
};

}  // namespace gradsim
