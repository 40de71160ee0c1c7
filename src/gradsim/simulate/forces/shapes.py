"""Static shapes as signed distances, with their gradients (the normals) and Hessians.

The distance g to a shape is negative inside. Its gradient is the outward normal, whose derivative is the Hessian of g;
the depth is -g. Only planes have gradients with respect to their own parameters.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native.structures import Enumeration, Rows
from gradsim.scene.materials import Ground
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import SHAPES, StaticBox, StaticCapsule, StaticShape, StaticSphere
from gradsim.simulate.forces.family import Elements, ParameterFamily, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Topology

KINDS = Enumeration("shape_kind", ("plane", "sphere", "capsule", "box"))
KIND_OF = {Ground: KINDS.plane, StaticSphere: KINDS.sphere, StaticCapsule: KINDS.capsule, StaticBox: KINDS.box}

# plane: normal, offset; sphere: centre, radius; capsule: an end, radius, the other end; box: centre, -, half sizes,
# rotation as a quaternion (x, y, z, w)
ROWS = Rows("shape", "x", "y", "z", "radius", "bx", "by", "bz", "qx", "qy", "qz", "qw")


def shape_columns(shape: StaticShape, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    """Returns the geometry of a shape, [B, rows, 1]."""
    if isinstance(shape, Ground):
        normal = batcher(shape.normal, 1, (3,))
        normal = normal / normal.norm(dim=-1, keepdim=True)
        rest = batcher(np.zeros(7), 1, (7,))
        return batcher.concatenate([normal, batcher(shape.offset, 1)[..., None], rest], -1).transpose(1, 2)
    column = np.zeros(len(ROWS))
    if isinstance(shape, StaticSphere):
        column[:3], column[3] = shape.position, shape.radius
    elif isinstance(shape, StaticCapsule):
        column[:3], column[3], column[4:7] = shape.start, shape.radius, shape.end
    elif isinstance(shape, StaticBox):
        column[:3], column[4:7], column[7:] = shape.position, shape.size / 2, shape.rotation
    return batcher(column, 1, (len(column),)).transpose(1, 2)


STATIC_SHAPES = ParameterFamily(
    name="shape",
    rows=ROWS,
    owners=SHAPES,
    elements=lambda shape, place: Elements(1, {"kinds": np.array([KIND_OF[type(shape)]], dtype=np.int32)}),
    columns=shape_columns,
    key=lambda shape: type(shape).__name__,
    present=lambda shape, scene: any(hasattr(body, "contact") for body in scene.bodies),
)


@functools.cache
def shape_functions(real: Any) -> tuple[Any, Any]:
    """Returns Warp functions for the signed distance and normal at a point, and for the Hessian times a vector."""
    types = types_of(real)
    vec3, table, quat = types.vec3, types.table, types.quat
    zero, one, tiny = (real(a) for a in (0.0, 1.0, 1.0e-30))

    @wp.func
    def first_vector(shape: table, j: int):
        """Normal of a plane, centre, or first end of a capsule."""
        x = shape[wp.static(ROWS.x), j]
        return vec3(x, shape[wp.static(ROWS.y), j], shape[wp.static(ROWS.z), j])

    @wp.func
    def second_vector(shape: table, j: int):
        """Second end of a capsule, or half sizes of a box."""
        x = shape[wp.static(ROWS.bx), j]
        return vec3(x, shape[wp.static(ROWS.by), j], shape[wp.static(ROWS.bz), j])

    @wp.func
    def rotation_of(shape: table, j: int):
        x = shape[wp.static(ROWS.qx), j]
        y = shape[wp.static(ROWS.qy), j]
        return quat(x, y, shape[wp.static(ROWS.qz), j], shape[wp.static(ROWS.qw), j])

    @wp.func
    def nearest_on_segment(a: vec3, b: vec3, x: vec3):
        axis = b - a
        return wp.clamp(wp.dot(x - a, axis) / (wp.dot(axis, axis) + tiny), zero, one)

    @wp.func
    def box_local(shape: table, j: int, x: vec3):
        """A point in the axes of a box."""
        return wp.quat_rotate_inv(rotation_of(shape, j), x - first_vector(shape, j))

    @wp.func
    def shape_distance(kind: int, shape: table, j: int, x: vec3):
        first = first_vector(shape, j)
        gap = zero
        normal = first
        if kind == wp.static(KINDS.plane):
            gap = wp.dot(first, x) - shape[wp.static(ROWS.radius), j]
        elif kind == wp.static(KINDS.box):
            p = box_local(shape, j, x)
            half = second_vector(shape, j)
            qx = wp.abs(p[0]) - half[0]
            qy = wp.abs(p[1]) - half[1]
            qz = wp.abs(p[2]) - half[2]
            out = vec3(wp.max(qx, zero), wp.max(qy, zero), wp.max(qz, zero))
            distance = wp.length(out)
            local = vec3()
            if distance > zero:
                gap = distance
                local = vec3(out[0] * wp.sign(p[0]), out[1] * wp.sign(p[1]), out[2] * wp.sign(p[2])) / distance
            elif qx >= qy and qx >= qz:
                gap = qx
                local = vec3(wp.sign(p[0]), zero, zero)
            elif qy >= qz:
                gap = qy
                local = vec3(zero, wp.sign(p[1]), zero)
            else:
                gap = qz
                local = vec3(zero, zero, wp.sign(p[2]))
            normal = wp.quat_rotate(rotation_of(shape, j), local)
        else:
            center = first
            if kind == wp.static(KINDS.capsule):
                second = second_vector(shape, j)
                center = first + (second - first) * nearest_on_segment(first, second, x)
            away = x - center
            distance = wp.length(away)
            gap = distance - shape[wp.static(ROWS.radius), j]
            normal = away / (distance + tiny)
        return gap, normal

    @wp.func
    def shape_hessian(kind: int, shape: table, j: int, x: vec3, n: vec3, a: vec3):
        """Hessian of the distance times a."""
        first = first_vector(shape, j)
        result = vec3()
        if kind == wp.static(KINDS.box):
            p = box_local(shape, j, x)
            half = second_vector(shape, j)
            out = vec3(
                wp.max(wp.abs(p[0]) - half[0], zero),
                wp.max(wp.abs(p[1]) - half[1], zero),
                wp.max(wp.abs(p[2]) - half[2], zero),
            )
            distance = wp.length(out)
            if distance > zero:
                q = rotation_of(shape, j)
                local = wp.quat_rotate_inv(q, a)
                outward = vec3(
                    wp.where(out[0] > zero, local[0], zero),
                    wp.where(out[1] > zero, local[1], zero),
                    wp.where(out[2] > zero, local[2], zero),
                )
                result = (wp.quat_rotate(q, outward) - n * wp.dot(n, a)) / distance
        elif kind != wp.static(KINDS.plane):
            center = first
            flat = n * wp.dot(n, a)
            if kind == wp.static(KINDS.capsule):
                second = second_vector(shape, j)
                t = nearest_on_segment(first, second, x)
                center = first + (second - first) * t
                if t > zero and t < one:
                    axis = wp.normalize(second - first)
                    flat += axis * wp.dot(axis, a)
            result = (a - flat) / (wp.length(x - center) + tiny)
        return result

    return shape_distance, shape_hessian
