"""Signed distance of a point from the shape of a rigid body, `colliders.py`."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.simulate.forces.colliders import KINDS
from gradsim.simulate.forces.family import types_of

if TYPE_CHECKING:
    from gradsim.simulate.engine.layout import Layout

FAR = 1.0e6  # distance outside a grid [m]


def grid_constants(layout: "Layout", family: str) -> tuple[Any, ...]:
    """Returns nodes and first coefficients of the distance grids of a family's shapes, places, and coefficients."""
    shapes, places, coefficients = (
        layout.topology.arrays[f"{family}.{name}"] for name in ("grid_shapes", "grid_places", "coefficients")
    )
    nodes = shapes.prod(1)
    grids = np.column_stack([shapes, np.cumsum(nodes) - nodes]).astype(np.int32)
    return tuple(layout.constant(array) for array in (grids.ravel(), places.ravel(), coefficients))


@functools.cache
def distance_functions(real: Any) -> Any:
    """Returns the Warp function for the distance of a point from a shape, and its gradient."""
    types = types_of(real)
    vec3, ints, reals = types.vec3, types.ints, types.reals
    vec4 = wp.types.vector(4, real)
    zero, half, one, two, three, four, six, far = (real(a) for a in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, FAR))

    @wp.func
    def spline_weights(t: real):
        m = one - t
        second = (t * t * (three * t - six) + four) / six
        return vec4(m * m * m / six, second, (t * (three + t * (three - three * t)) + one) / six, t * t * t / six)

    @wp.func
    def spline_slopes(t: real):
        m = one - t
        return vec4(-half * m * m, half * t * (three * t - four), half * (one + t * (two - three * t)), half * t * t)

    @wp.func
    def core_distance(a: vec3, extent: vec3):
        """Distance from the box of half sizes `extent` about the origin."""
        qx = wp.abs(a[0]) - extent[0]
        qy = wp.abs(a[1]) - extent[1]
        qz = wp.abs(a[2]) - extent[2]
        gap = zero
        n = vec3()
        out = vec3(wp.max(qx, zero), wp.max(qy, zero), wp.max(qz, zero))
        if wp.dot(out, out) > zero:
            gap = wp.length(out)
            n = vec3(out[0] * wp.sign(a[0]), out[1] * wp.sign(a[1]), out[2] * wp.sign(a[2])) / gap
        elif qx >= qy and qx >= qz:
            gap = qx
            n = vec3(wp.sign(a[0]), zero, zero)
        elif qy >= qz:
            gap = qy
            n = vec3(zero, wp.sign(a[1]), zero)
        else:
            gap = qz
            n = vec3(zero, zero, wp.sign(a[2]))
        return gap, n

    @wp.func
    def grid_distance(x: vec3, shape: int, grids: ints, places: reals, coefficients: reals):
        """Spline of a mesh at a point in mesh coordinates."""
        per_spacing = places[5 * shape + 3]
        ux = (x[0] - places[5 * shape]) * per_spacing
        uy = (x[1] - places[5 * shape + 1]) * per_spacing
        uz = (x[2] - places[5 * shape + 2]) * per_spacing
        i = int(wp.floor(ux))
        j = int(wp.floor(uy))
        k = int(wp.floor(uz))
        ny = grids[4 * shape + 1]
        nz = grids[4 * shape + 2]
        value = zero
        n = vec3()
        if i >= 1 and j >= 1 and k >= 1 and i + 2 < grids[4 * shape] and j + 2 < ny and k + 2 < nz:
            wx = spline_weights(ux - real(i))
            wy = spline_weights(uy - real(j))
            wz = spline_weights(uz - real(k))
            dx = spline_slopes(ux - real(i))
            dy = spline_slopes(uy - real(j))
            dz = spline_slopes(uz - real(k))
            count = wp.int32(4)  # a variable: unrolled loops would take long to compile
            for a in range(count):
                for b in range(count):
                    at = grids[4 * shape + 3] + ((i + a - 1) * ny + j + b - 1) * nz + k - 1
                    line = vec4(coefficients[at], coefficients[at + 1], coefficients[at + 2], coefficients[at + 3])
                    along = wp.dot(wz, line)
                    value += wx[a] * wy[b] * along
                    n += vec3(dx[a] * wy[b] * along, wx[a] * dy[b] * along, wx[a] * wy[b] * wp.dot(dz, line))
        else:
            value = far
        return value, n * per_spacing

    @wp.func
    def shape_distance(kind: int, y: vec3, extent: vec3, shape: int, grids: ints, places: reals, coefficients: reals):
        """Distance from a shape at a point relative to its centre, and the gradient."""
        gap = zero
        n = vec3()
        if kind == wp.static(KINDS.core):
            core_gap, core_n = core_distance(y, extent)
            gap = core_gap
            n = core_n
        else:
            x = vec3(y[0] / extent[0], y[1] / extent[1], y[2] / extent[2])
            grid_gap, grid_n = grid_distance(x, shape, grids, places, coefficients)
            size = wp.pow(extent[0] * extent[1] * extent[2], one / three)
            gap = grid_gap * size
            n = vec3(grid_n[0] / extent[0], grid_n[1] / extent[1], grid_n[2] / extent[2]) * size
        return gap, n

    return shape_distance
