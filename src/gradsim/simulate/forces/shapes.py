"""Static shapes as signed distances, with their gradients (the normals) and Hessians.

The distance g to a shape is negative inside. Its gradient is the outward normal, whose derivative is the Hessian of g;
the depth is -g. A shape may move: its parameters then follow a `gs.Motion`, and its surface has the velocity of a rigid
body, plus a surface velocity such as that of a conveyor belt. Gradients with respect to the parameters follow from
those with respect to the point: moving a shape is moving the point the other way.
"""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from gradsim.native.structures import Constants, Enumeration, Rows
from gradsim.scene.materials import Ground
from gradsim.scene.motion import motion_samples, moved_samples, rotation_samples, unit
from gradsim.scene.quantity import Signal, component, is_zero, unwrap
from gradsim.scene.rotation import multiply
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import GEOMETRY, SHAPES, StaticBox, StaticCapsule, StaticShape, StaticSphere
from gradsim.simulate.forces.family import Elements, MotionRows, ParameterFamily, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Topology

KINDS = Enumeration("shape_kind", ("plane", "sphere", "capsule", "box"))
KIND_OF = {Ground: KINDS.plane, StaticSphere: KINDS.sphere, StaticCapsule: KINDS.capsule, StaticBox: KINDS.box}

# plane: normal, offset; sphere: centre, radius; capsule: an end, radius, the other end; box: centre, -, half sizes.
# Then rotation as a quaternion (x, y, z, w), not necessarily of unit length; velocity of the first point, rate of the
# quaternion, and further velocity of the surface.
ROWS = Rows(
    "shape",
    *("x", "y", "z", "radius", "bx", "by", "bz"),
    *("qx", "qy", "qz", "qw"),
    *("vx", "vy", "vz"),
    *("rx", "ry", "rz", "rw"),
    *("sx", "sy", "sz"),
)
FLAGS = Constants("shape_flag", moves=1, varies=2)  # whether it has a velocity, and gradients of its place and size


def shape_flags(shape: StaticShape) -> int:
    """Returns what native kernels need to know of a shape beside its kind."""
    moves = shape.motion is not None or not is_zero(shape.surface_velocity)
    values = [unwrap(getattr(shape, name, None)) for name in GEOMETRY]
    varies = any(value is not None and not isinstance(value, np.ndarray) for value in values)  # a tensor
    return FLAGS.moves * moves + FLAGS.varies * varies


def shape_columns(shape: StaticShape, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    """Returns the geometry of a shape, [B, rows, 1]."""
    place = _place(shape, batcher)
    zero = batcher(np.zeros(3), 1, (3,))
    belt = zero if isinstance(shape.surface_velocity, Signal) else batcher(shape.surface_velocity, 1, (3,))
    rest = [zero, batcher(np.zeros(4), 1, (4,)), belt]
    return batcher.concatenate([*place, *rest], -1).transpose(1, 2)


def _place(shape: StaticShape, batcher: "SceneBatcher") -> list[Any]:
    """Returns first vector, radius, second vector and rotation, [B, 1, width] each."""
    zero, turn = batcher(np.zeros(3), 1, (3,)), batcher(np.array([0.0, 0.0, 0.0, 1.0]), 1, (4,))
    if isinstance(shape, Ground):
        normal = batcher(shape.normal, 1, (3,))
        normal = normal / normal.norm(dim=-1, keepdim=True)
        return [normal, batcher(shape.offset, 1)[..., None], zero, turn]
    if isinstance(shape, StaticBox):
        half = batcher(shape.size, 1, (3,)) / 2
        return [batcher(shape.position, 1, (3,)), zero[..., :1], half, unit(batcher(shape.rotation, 1, (4,)))]
    radius = batcher(shape.radius, 1)[..., None]
    if isinstance(shape, StaticSphere):
        return [batcher(shape.position, 1, (3,)), radius, zero, turn]
    return [batcher(shape.start, 1, (3,)), radius, batcher(shape.end, 1, (3,)), turn]


def shape_motion_samples(
    shape: StaticShape, scene: Scene, topology: "Topology", batcher: "SceneBatcher"
) -> dict[str, Any]:
    """Returns the samples of all rows that follow the motion of a shape, [B, samples, 1] each."""
    motion = shape.motion
    assert motion is not None
    count = motion.sample_count
    first, radius, second, turn = (value[:, None].expand(-1, count, -1, -1) for value in _place(shape, batcher))
    if isinstance(shape, Ground):
        path = motion_samples(motion.displacement, 1, (3,), batcher, count)
        radius = radius + (first * path).sum(-1, keepdim=True)
    else:
        turns, is_capsule = rotation_samples(motion, batcher), isinstance(shape, StaticCapsule)
        center = (first[:, 0] + second[:, 0]) / 2 if is_capsule else first[:, 0]
        second = moved_samples(second, motion, turns, center, batcher) if is_capsule else second
        path = first = moved_samples(first, motion, turns, center, batcher)
        turn = turn if turns is None else multiply(turns.expand_as(turn), turn)
    values = batcher.concatenate([first, radius, second, turn, path, turn], -1).unbind(-1)
    return dict(zip(MOTION_ROWS, values, strict=True))


MOTION_ROWS = {row: "rate" if row[0] in "vr" and row != "radius" else "cubic" for row in list(ROWS)[: ROWS.sx]}


def _belt(axis: int, shape: StaticShape) -> Any:
    return component(shape.surface_velocity, axis)


STATIC_SHAPES = ParameterFamily(
    name="shape",
    rows=ROWS,
    owners=SHAPES,
    elements=lambda shape, place: Elements(
        1, {"kinds": np.array([KIND_OF[type(shape)]], np.int32), "flags": np.array([shape_flags(shape)], np.int32)}
    ),
    columns=shape_columns,
    parameters={row: functools.partial(_belt, axis) for axis, row in enumerate(("sx", "sy", "sz"))},
    signals=("sx", "sy", "sz"),
    key=lambda shape: (type(shape).__name__, shape_flags(shape)),
    present=lambda shape, scene: any(hasattr(body, "contact") for body in (*scene.bodies, *scene.link_bodies)),
    prescribed=MotionRows(
        MOTION_ROWS,
        lambda shape: 0 if shape.motion is None else shape.motion.sample_count,
        shape_motion_samples,
    ),
)


class ShapeFunctions(NamedTuple):
    """Warp functions of static shapes."""

    distance: Any  # signed, and normal
    hessian: Any  # times a vector
    velocity: Any  # of the surface
    add_adjoint: Any  # adds the adjoints of place and size
    add_velocity_adjoint: Any  # adds those of the motion, and returns that of the point


@functools.cache
def shape_functions(real: Any) -> ShapeFunctions:
    """Returns the Warp functions of static shapes in one precision."""
    types = types_of(real)
    vec3, table, quat = types.vec3, types.table, types.quat
    zero, one, two, tiny = (real(a) for a in (0.0, 1.0, 2.0, 1.0e-30))

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
    def four(shape: table, row: int, j: int):
        return quat(shape[row, j], shape[row + 1, j], shape[row + 2, j], shape[row + 3, j])

    @wp.func
    def rotation_of(shape: table, j: int):
        return wp.normalize(four(shape, wp.static(ROWS.qx), j))

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

    @wp.func
    def pure(a: vec3):
        return quat(a[0], a[1], a[2], zero)

    @wp.func
    def shape_spin(shape: table, j: int):
        """Angular velocity."""
        q = four(shape, wp.static(ROWS.qx), j)
        a = four(shape, wp.static(ROWS.rx), j) * wp.quat_inverse(q)  # the inverse is the conjugate
        return vec3(a[0], a[1], a[2]) * (two / wp.dot(q, q))

    @wp.func
    def shape_velocity(flags: int, shape: table, j: int, x: vec3):
        velocity = vec3()
        if (flags & wp.static(FLAGS.moves)) != 0:
            for k in range(3):
                velocity[k] = shape[wp.static(ROWS.vx) + k, j] + shape[wp.static(ROWS.sx) + k, j]
            velocity = velocity + wp.cross(shape_spin(shape, j), x - first_vector(shape, j))
        return velocity

    @wp.func
    def add3(table_adj: table, row: int, j: int, a: vec3):
        for k in range(3):
            wp.atomic_add(table_adj, row + k, j, a[k])

    @wp.func
    def add4(table_adj: table, row: int, j: int, a: quat):
        for k in range(4):
            wp.atomic_add(table_adj, row + k, j, a[k])

    @wp.func
    def add_motion_adjoint(shape: table, j: int, x: vec3, a: vec3, shape_adj: table):
        w = shape_spin(shape, j)
        q = four(shape, wp.static(ROWS.qx), j)
        r = four(shape, wp.static(ROWS.rx), j)
        w_adj = wp.cross(x - first_vector(shape, j), a)
        per = two / wp.dot(q, q)
        add3(shape_adj, wp.static(ROWS.vx), j, a)
        add3(shape_adj, wp.static(ROWS.sx), j, a)
        add3(shape_adj, wp.static(ROWS.x), j, -wp.cross(a, w))
        add4(shape_adj, wp.static(ROWS.rx), j, (pure(w_adj) * q) * per)
        add4(shape_adj, wp.static(ROWS.qx), j, (pure(w_adj) * r + q * wp.dot(w, w_adj)) * (-per))
        return wp.cross(a, w)

    @wp.func
    def add_box_adjoint(shape: table, j: int, x: vec3, n: vec3, n_adj: vec3, x_adj: vec3, shape_adj: table):
        q = four(shape, wp.static(ROWS.qx), j)
        at = box_local(shape, j, x)
        local = wp.quat_rotate_inv(rotation_of(shape, j), x_adj)
        half_adj = vec3()
        for k in range(3):
            half_adj[k] = wp.where(at[k] < zero, local[k], -local[k])
        turn = wp.cross(n, n_adj) - wp.cross(x - first_vector(shape, j), x_adj)
        add3(shape_adj, wp.static(ROWS.x), j, -x_adj)
        add3(shape_adj, wp.static(ROWS.bx), j, half_adj)
        add4(shape_adj, wp.static(ROWS.qx), j, (pure(turn) * q) * (two / wp.dot(q, q)))

    @wp.func
    def add_capsule_adjoint(
        kind: int, shape: table, j: int, x: vec3, n: vec3, c_adj: real, n_adj: vec3, x_adj: vec3, shape_adj: table
    ):
        t = zero
        lever = vec3()
        if kind == wp.static(KINDS.capsule):
            first = first_vector(shape, j)
            axis = second_vector(shape, j) - first
            t = nearest_on_segment(first, first + axis, x)
            if t > zero and t < one:
                lever = n * (wp.dot(axis, n_adj) / wp.dot(axis, axis))
            add3(shape_adj, wp.static(ROWS.bx), j, -lever - x_adj * t)
        add3(shape_adj, wp.static(ROWS.x), j, lever - x_adj * (one - t))
        wp.atomic_add(shape_adj, wp.static(ROWS.radius), j, c_adj)

    @wp.func
    def add_velocity_adjoint(flags: int, shape: table, j: int, x: vec3, a: vec3, shape_adj: table):
        """Adds the adjoints of the motion, for the adjoint a of the velocity at x; returns the adjoint of x."""
        x_adj = vec3()
        if (flags & wp.static(FLAGS.moves)) != 0:
            x_adj = add_motion_adjoint(shape, j, x, a, shape_adj)
        return x_adj

    @wp.func
    def add_shape_adjoint(
        kind: int, flags: int, shape: table, j: int, x: vec3, n: vec3, c_adj: real, n_adj: vec3, x_adj: vec3,
        shape_adj: table,
    ):  # fmt: skip
        """Adds the adjoints of place and size, for those of depth, normal and point."""
        if flags != 0:
            if kind == wp.static(KINDS.plane):
                add3(shape_adj, wp.static(ROWS.x), j, n_adj - x * c_adj)
                wp.atomic_add(shape_adj, wp.static(ROWS.radius), j, c_adj)
            elif kind == wp.static(KINDS.box):
                add_box_adjoint(shape, j, x, n, n_adj, x_adj, shape_adj)
            else:
                add_capsule_adjoint(kind, shape, j, x, n, c_adj, n_adj, x_adj, shape_adj)

    return ShapeFunctions(shape_distance, shape_hessian, shape_velocity, add_shape_adjoint, add_velocity_adjoint)
