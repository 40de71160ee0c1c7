"""SoftRas in plain Warp kernels: one thread a pixel, which loops over the faces of its tile.

A reference for the speed of the native implementation, with restrictions: colours at vertices, front faces only, all
beyond the near plane. The adjoint is written by hand and loops over the faces once more. A test verifies that images
and gradients agree with the native ones.
"""

# mypy: disable-error-code="attr-defined, index, name-defined, no-untyped-def, operator, valid-type"

import functools
import math
from typing import Any

import numpy as np
import warp as wp

from gradsim import bridge
from gradsim.render.softras import SoftRas

TILE = 16  # pixels


class PlainSoftRas:
    """Images of a mesh in float32, on one thread.

    `forward()` returns the images [B, H, W, 4]; `backward(image_adj)` the gradients of vertices and colours.

    Args:
        vertices: Homogeneous pixels (x w, y w, w), all in front of the camera, [B, V, 3].
        faces: Vertices of the faces, [F, 3].
        colors: Of the vertices, [B, V, 3].
        size: Height and width of the image [px].
        softras: The options of the renderer.
        near: Depth of the near plane [m].
        background: Colour of the background.
    """

    def __init__(
        self,
        vertices: np.ndarray,
        faces: np.ndarray,
        colors: np.ndarray,
        size: tuple[int, int],
        *,
        softras: SoftRas,
        near: float,
        background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ):
        bridge.initialize()
        height, width = size
        batch, count = vertices.shape[:2]
        sigma, reach = softras.sigma * (0.5 * height) ** 2, math.log(1.0 / softras.cut - 1.0)
        self._tiles = (batch, -(-height // TILE), -(-width // TILE))
        self._pixels, self._faces = (batch, height, width), faces.shape[0]
        self._kernels = _kernels()
        self._vertices, self._colors = _vectors(vertices), _vectors(colors)
        self._mesh = wp.array(faces.astype(np.int32), dtype=wp.vec3i, device="cpu")
        self._screen, self._screen_adj = _vectors(np.zeros((batch, count, 3))), _vectors(np.zeros((batch, count, 3)))
        self._vertices_adj, self._colors_adj = _vectors(np.zeros_like(vertices)), _vectors(np.zeros_like(colors))
        self._image = wp.zeros(self._pixels, dtype=wp.vec4, device="cpu")
        self._image_adj = wp.zeros(self._pixels, dtype=wp.vec4, device="cpu")
        self._saved = wp.zeros(self._pixels, dtype=wp.vec2, device="cpu")
        self._counts = wp.zeros(self._tiles, dtype=wp.int32, device="cpu")
        self._starts = wp.zeros(math.prod(self._tiles) + 1, dtype=wp.int32, device="cpu")
        self._list = wp.zeros(1, dtype=wp.int32, device="cpu")
        self._options = _Options()
        self._options.sharpness = 1.0 / sigma
        self._options.margin = math.sqrt(sigma * reach)
        self._options.cut = softras.cut
        self._options.scale = 1.0 / (softras.gamma * (softras.far - near))
        self._options.background_depth = softras.far - 1e-3 * (softras.far - near)
        self._options.background = wp.vec3(*background)

    def _launch(self, name: str, threads: Any, *arguments: Any) -> None:
        wp.launch(self._kernels[name], threads, inputs=[self._options, *arguments], device="cpu")

    def forward(self) -> np.ndarray:
        batch = self._pixels[0]
        self._launch("project", self._vertices.shape, self._vertices, self._screen)
        self._counts.zero_()
        self._launch("count", (batch, self._faces), self._mesh, self._screen, self._image, self._counts)
        total = self._scan()
        if total > self._list.shape[0]:
            self._list = wp.zeros(total + total // 2, dtype=wp.int32, device="cpu")
        arrays = (self._mesh, self._screen, self._image, self._counts, self._list)
        self._launch("fill", (batch, self._faces), *arrays)
        tiles = (self._starts, self._list, self._mesh, self._screen, self._colors)
        self._launch("shade", self._pixels, *tiles, self._image, self._saved)
        return self._image.numpy()

    def _scan(self) -> int:
        """Computes the start of each tile's faces in the list; returns the length of the list."""
        counts, starts = self._counts.numpy().reshape(-1), self._starts.numpy()
        np.cumsum(counts, out=starts[1:])
        counts[:] = starts[:-1]
        return int(starts[-1])

    def backward(self, image_adj: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self._image_adj.numpy()[...] = image_adj
        self._screen_adj.zero_()
        self._colors_adj.zero_()
        tiles = (self._starts, self._list, self._mesh, self._screen, self._colors)
        results = (self._image, self._saved, self._image_adj, self._screen_adj, self._colors_adj)
        self._launch("shade_adjoint", self._pixels, *tiles, *results)
        arrays = (self._screen, self._screen_adj, self._vertices_adj)
        self._launch("project_adjoint", self._vertices.shape, *arrays)
        return self._vertices_adj.numpy(), self._colors_adj.numpy()


def _vectors(values: np.ndarray) -> Any:
    return wp.array(values.astype(np.float32), dtype=wp.vec3, device="cpu")


@wp.struct
class _Options:
    sharpness: wp.float32  # 1 / sigma [1/px^2]
    margin: wp.float32  # [px]
    cut: wp.float32
    scale: wp.float32  # 1 / (gamma (far - near)) [1/m]
    background_depth: wp.float32  # depth of the background [m]
    background: wp.vec3


@wp.struct
class _Fragment:
    """A face at a pixel."""

    visible: wp.bool
    inside: wp.bool
    barycentric: wp.vec3  # screen-space barycentric coordinates
    slope_x: wp.vec3  # their derivatives in the pixel's x and y
    slope_y: wp.vec3
    offset: wp.vec2  # from the closest point of the face's outline to the pixel
    closest: wp.vec3  # barycentric coordinates of the closest point
    sigmoid: wp.float32
    coverage: wp.float32
    weights: wp.vec3  # barycentric coordinates, clamped and perspective-correct
    inverse: wp.float32  # normalization of the weights
    depth: wp.float32


@functools.cache
def _kernels() -> dict[str, Any]:
    vec3s, vec4s, ints = wp.array2d(dtype=wp.vec3), wp.array3d(dtype=wp.vec4), wp.array(dtype=wp.int32)
    mesh_type, counts_type, saved_type = wp.array(dtype=wp.vec3i), wp.array3d(dtype=wp.int32), wp.array3d(dtype=wp.vec2)
    module = wp.get_module("benchmarks.plain_softras")

    @wp.func
    def area_of(p: wp.vec3, q: wp.vec3, r: wp.vec3):
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    @wp.func
    def tiles_of(options: _Options, p: wp.vec3, q: wp.vec3, r: wp.vec3, height: int, width: int):
        """Returns the first and last column and the first and last row of the tiles that a face covers."""
        left = wp.min(p[0], wp.min(q[0], r[0])) - options.margin
        right = wp.max(p[0], wp.max(q[0], r[0])) + options.margin
        top = wp.min(p[1], wp.min(q[1], r[1])) - options.margin
        bottom = wp.max(p[1], wp.max(q[1], r[1])) + options.margin
        box = wp.vec4i(1, 0, 1, 0)
        on_image = right > 0.0 and bottom > 0.0 and left < float(width) and top < float(height)
        if on_image and area_of(p, q, r) < 0.0:
            box = wp.vec4i(
                wp.max(int(left), 0) // TILE,
                wp.min(int(right), width - 1) // TILE,
                wp.max(int(top), 0) // TILE,
                wp.min(int(bottom), height - 1) // TILE,
            )
        return box

    @wp.func
    def fragment_at(options: _Options, p: wp.vec3, q: wp.vec3, r: wp.vec3, x: float, y: float):
        m = _Fragment()
        m.visible = False
        left = wp.min(p[0], wp.min(q[0], r[0])) - options.margin
        right = wp.max(p[0], wp.max(q[0], r[0])) + options.margin
        top = wp.min(p[1], wp.min(q[1], r[1])) - options.margin
        bottom = wp.max(p[1], wp.max(q[1], r[1])) + options.margin
        if x < left or x > right or y < top or y > bottom:
            return m
        inverse = 1.0 / area_of(p, q, r)
        m.slope_x = wp.vec3(q[1] - r[1], r[1] - p[1], p[1] - q[1]) * inverse
        m.slope_y = wp.vec3(r[0] - q[0], p[0] - r[0], q[0] - p[0]) * inverse
        w1 = (x - q[0]) * m.slope_x[1] + (y - q[1]) * m.slope_y[1] + 1.0
        w2 = (x - r[0]) * m.slope_x[2] + (y - r[1]) * m.slope_y[2] + 1.0
        m.barycentric = wp.vec3(1.0 - w1 - w2, w1, w2)
        m.inside = m.barycentric[0] > 0.0 and m.barycentric[1] > 0.0 and m.barycentric[2] > 0.0
        pixel_center = wp.vec2(x, y)
        a = wp.vec2(p[0], p[1])
        b = wp.vec2(q[0], q[1])
        c = wp.vec2(r[0], r[1])
        u = wp.clamp(wp.dot(pixel_center - a, b - a) / wp.dot(b - a, b - a), 0.0, 1.0)
        m.offset = pixel_center - a - u * (b - a)
        m.closest = wp.vec3(1.0 - u, u, 0.0)
        square = wp.dot(m.offset, m.offset)
        u = wp.clamp(wp.dot(pixel_center - b, c - b) / wp.dot(c - b, c - b), 0.0, 1.0)
        other = pixel_center - b - u * (c - b)
        if wp.dot(other, other) < square:
            square = wp.dot(other, other)
            m.offset = other
            m.closest = wp.vec3(0.0, 1.0 - u, u)
        u = wp.clamp(wp.dot(pixel_center - c, a - c) / wp.dot(a - c, a - c), 0.0, 1.0)
        other = pixel_center - c - u * (a - c)
        if wp.dot(other, other) < square:
            square = wp.dot(other, other)
            m.offset = other
            m.closest = wp.vec3(u, 0.0, 1.0 - u)
        s = -square * options.sharpness
        if m.inside:
            s = -s
        m.sigmoid = 1.0 / (1.0 + wp.exp(-s))
        m.coverage = (m.sigmoid - options.cut) / (1.0 - options.cut)
        if m.coverage <= 0.0:
            return m
        clamped = wp.vec3(wp.max(m.barycentric[0], 0.0), wp.max(m.barycentric[1], 0.0), wp.max(m.barycentric[2], 0.0))
        m.weights = wp.vec3(clamped[0] / p[2], clamped[1] / q[2], clamped[2] / r[2])
        m.inverse = 1.0 / (m.weights[0] + m.weights[1] + m.weights[2])
        m.weights = m.weights * m.inverse
        m.depth = (clamped[0] + clamped[1] + clamped[2]) * m.inverse
        m.visible = True
        return m

    @wp.kernel(enable_backward=False, module=module)
    def project(options: _Options, vertices: vec3s, screen: vec3s):
        b, v = wp.tid()
        p = vertices[b, v]
        screen[b, v] = wp.vec3(p[0] / p[2], p[1] / p[2], p[2])

    @wp.kernel(enable_backward=False, module=module)
    def project_adjoint(options: _Options, screen: vec3s, screen_adj: vec3s, vertices_adj: vec3s):
        b, v = wp.tid()
        p = screen[b, v]
        g = screen_adj[b, v]
        vertices_adj[b, v] = wp.vec3(g[0] / p[2], g[1] / p[2], g[2] - (g[0] * p[0] + g[1] * p[1]) / p[2])

    @wp.kernel(enable_backward=False, module=module)
    def count(options: _Options, mesh: mesh_type, screen: vec3s, image: vec4s, counts: counts_type):
        b, f = wp.tid()
        v = mesh[f]
        box = tiles_of(options, screen[b, v[0]], screen[b, v[1]], screen[b, v[2]], image.shape[1], image.shape[2])
        for i in range(box[2], box[3] + 1):
            for j in range(box[0], box[1] + 1):
                wp.atomic_add(counts, b, i, j, 1)

    @wp.kernel(enable_backward=False, module=module)
    def fill(options: _Options, mesh: mesh_type, screen: vec3s, image: vec4s, counts: counts_type, list: ints):
        b, f = wp.tid()
        v = mesh[f]
        box = tiles_of(options, screen[b, v[0]], screen[b, v[1]], screen[b, v[2]], image.shape[1], image.shape[2])
        for i in range(box[2], box[3] + 1):
            for j in range(box[0], box[1] + 1):
                list[wp.atomic_add(counts, b, i, j, 1)] = f

    @wp.func
    def tile_of(b: int, y: int, x: int, image: vec4s):
        rows = (image.shape[1] + TILE - 1) // TILE
        columns = (image.shape[2] + TILE - 1) // TILE
        return (b * rows + y // TILE) * columns + x // TILE

    @wp.kernel(enable_backward=False, module=module)
    def shade(
        options: _Options,
        starts: ints,
        list: ints,
        mesh: mesh_type,
        screen: vec3s,
        colors: vec3s,
        image: vec4s,
        saved: saved_type,
    ):
        b, y, x = wp.tid()
        tile = tile_of(b, y, x, image)
        total = wp.float32(1.0)
        nearest = wp.float32(options.background_depth)
        color = wp.vec3(options.background)
        transmittance = wp.float32(1.0)
        for i in range(starts[tile], starts[tile + 1]):
            v = mesh[list[i]]
            p = screen[b, v[0]]
            q = screen[b, v[1]]
            r = screen[b, v[2]]
            m = fragment_at(options, p, q, r, float(x) + 0.5, float(y) + 0.5)
            if m.visible:
                transmittance *= 1.0 - m.coverage
                if m.depth < nearest:
                    fade = wp.exp((m.depth - nearest) * options.scale)
                    total *= fade
                    color *= fade
                    nearest = m.depth
                weight = m.coverage * wp.exp((nearest - m.depth) * options.scale)
                w = m.weights
                face_color = w[0] * colors[b, v[0]] + w[1] * colors[b, v[1]] + w[2] * colors[b, v[2]]
                total += weight
                color += weight * face_color
        color /= total
        image[b, y, x] = wp.vec4(color[0], color[1], color[2], 1.0 - transmittance)
        saved[b, y, x] = wp.vec2(nearest, total)

    @wp.kernel(enable_backward=False, module=module)
    def shade_adjoint(
        options: _Options,
        starts: ints,
        list: ints,
        mesh: mesh_type,
        screen: vec3s,
        colors: vec3s,
        image: vec4s,
        saved: saved_type,
        image_adj: vec4s,
        screen_adj: vec3s,
        colors_adj: vec3s,
    ):
        b, y, x = wp.tid()
        tile = tile_of(b, y, x, image)
        pixel = image[b, y, x]
        adj = image_adj[b, y, x]
        color_adj = wp.vec3(adj[0], adj[1], adj[2])
        pixel_product = wp.dot(color_adj, wp.vec3(pixel[0], pixel[1], pixel[2]))
        transmittance_adj = adj[3] * (1.0 - pixel[3])
        nearest = saved[b, y, x][0]
        total = saved[b, y, x][1]
        for i in range(starts[tile], starts[tile + 1]):
            v = mesh[list[i]]
            p = screen[b, v[0]]
            q = screen[b, v[1]]
            r = screen[b, v[2]]
            m = fragment_at(options, p, q, r, float(x) + 0.5, float(y) + 0.5)
            if m.visible:
                fade = wp.exp((nearest - m.depth) * options.scale) / total
                weight = fade * m.coverage
                color_products = wp.vec3(
                    wp.dot(color_adj, colors[b, v[0]]),
                    wp.dot(color_adj, colors[b, v[1]]),
                    wp.dot(color_adj, colors[b, v[2]]),
                )
                mean = wp.dot(m.weights, color_products)
                gain = mean - pixel_product
                slope = m.sigmoid * (1.0 - m.sigmoid) / (1.0 - options.cut)
                distance_adj = 2.0 * options.sharpness * (transmittance_adj * m.sigmoid + fade * gain * slope)
                if m.inside:
                    distance_adj = -distance_adj
                depth_slope = gain * options.scale
                depths = wp.vec3(p[2], q[2], r[2])
                barycentric_adj = wp.vec3()
                depth_adj = wp.vec3()
                for k in range(3):
                    rise = color_products[k] - mean + depth_slope * m.depth
                    if m.barycentric[k] > 0.0:
                        barycentric_adj[k] = weight * m.inverse * (rise / depths[k] - depth_slope)
                        depth_adj[k] = -weight * m.inverse * rise * m.barycentric[k] / (depths[k] * depths[k])
                x_adj = wp.dot(barycentric_adj, m.slope_x)
                y_adj = wp.dot(barycentric_adj, m.slope_y)
                for k in range(3):
                    outline_adj = distance_adj * m.closest[k]
                    g = wp.vec3(
                        outline_adj * m.offset[0] - m.barycentric[k] * x_adj,
                        outline_adj * m.offset[1] - m.barycentric[k] * y_adj,
                        depth_adj[k],
                    )
                    wp.atomic_add(screen_adj, b, v[k], g)
                    wp.atomic_add(colors_adj, b, v[k], color_adj * (weight * m.weights[k]))

    kernels = (project, project_adjoint, count, fill, shade, shade_adjoint)
    wp.load_module(module, device="cpu")
    return {kernel.func.__name__: kernel for kernel in kernels}
