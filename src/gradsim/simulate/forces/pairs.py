"""Contact between rigid bodies, with the laws of `contact_law.py` and `restitution.py`.

Samples of each body's surface touch the other body, whose signed distance phi gives the overlap and the normal
(`colliders.py`). With the overlap c_i = r_A + r_B - phi(x_i) and the elastic energy U_i of the contact law at c_i, the
energy of a pair is a 2-norm over the samples of both bodies,

    E = sqrt(sum a_i U_i^2)

where a_i are half the areas of the samples. The force at a sample is w_i = a_i U_i / E times that of the contact law,
opposite on both bodies at one point, in the middle of the overlap. Momentum and angular momentum are conserved, flat
contact does not depend on the number of samples, and a single corner or edge has a force too. Restitution uses E and
the reduced mass of the pair.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.colliders import KINDS
from gradsim.simulate.forces.colliders import ROWS as COLLIDER_ROWS
from gradsim.simulate.forces.contact_law import contact_law_functions
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, types_of
from gradsim.simulate.forces.pair_laws import law_columns, pair_laws
from gradsim.simulate.forces.restitution import ROWS as LAW_ROWS
from gradsim.simulate.forces.restitution import restitution_functions
from gradsim.simulate.state.kernels.rigid import ROWS as RIGID_ROWS
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("pair", *LAW_ROWS)

FAR = 1.0e6  # distance outside a grid [m]
TINY_ENERGY = {"float": 1.0e-36, "double": 1.0e-60}  # squared [J^2]


def pair_elements(body: Rigid, place: "Placement") -> Elements:
    """Returns the laws of all pairs; the first rigid body of the scene owns them."""
    laws = pair_laws(place.scene)
    return Elements(len(laws.laws), {"groups": laws.groups, "numbers": laws.numbers.ravel()})


def pair_columns(body: Rigid, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    return law_columns(pair_laws(scene), batcher)


def touching(topology: "Topology") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the bodies of all pairs that may touch, and the numbers of their laws."""

    def build() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        groups = topology.arrays["pair.groups"]
        numbers = topology.arrays["pair.numbers"].reshape(groups.max() + 1, -1)
        first, second = (index.astype(np.int32) for index in np.triu_indices(len(groups), 1))
        laws = numbers[groups[first], groups[second]]
        return first[laws >= 0], second[laws >= 0], laws[laws >= 0]

    return topology.constant("pairs that may touch", build)


def pair_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns bodies and laws of the pairs, the shape of each body, and the shapes with samples and grids."""
    arrays, elements = layout.topology.arrays, layout.topology.elements
    first, second, laws = touching(layout.topology)
    own = {name: arrays[f"collider.{name}"] for name in ("kinds", "sizes", "grid_shapes", "reach", "grid_places")}
    nodes = own["grid_shapes"].prod(1)
    grids = np.column_stack([own["grid_shapes"], np.cumsum(nodes) - nodes]).astype(np.int32)
    return (
        *(layout.constant(layout.spread(bodies, elements["rigid"])) for bodies in (first, second)),
        layout.constant(layout.spread(laws, elements["pair"])),
        layout.shared("collider.shapes"),
        layout.constant(own["kinds"]),
        layout.constant(np.concatenate([[0], np.cumsum(own["sizes"])]).astype(np.int32)),
        layout.constant(arrays["collider.samples"], "vector"),
        layout.constant(arrays["collider.weights"]),
        layout.constant(own["reach"]),
        layout.constant(grids.ravel()),
        layout.constant(own["grid_places"].ravel()),
        layout.constant(arrays["collider.coefficients"]),
    )


def pair_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate of the law with the largest one, for the lightest bodies of its groups.

    A body between two others is held by two springs, hence twice the rate of a pair in scenes of three bodies or more.
    """
    ke, kd, kf, loss = (np.asarray(view.row(row)) for row in ("ke", "kd", "kf", "loss"))  # [B, laws], or one number
    normal, slip = view.pair_compliances()
    stiffness = ke * normal * (1.0 + loss)
    rates = np.maximum(np.maximum(kd * normal, kf * slip), loss * np.sqrt(ke * normal))
    several = 2.0 if view.compiled.topology.elements["rigid"] > 2 else 1.0
    return float(several * stiffness.max()), float(several * rates.max())


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


@functools.cache
def pair_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, quats, ints, reals = (
        types.vec3, types.vec3s, types.table, types.quats, types.ints, types.reals
    )  # fmt: skip
    functions = rotation_functions(real)
    inverse_inertia, spin = functions.inverse_inertia, functions.spin
    contact_force, friction_force = contact_law_functions(real).force, contact_law_functions(real).friction
    contact_law, energy_lever, restitution_normal = restitution_functions(real)[:3]
    shape_distance = distance_functions(real)
    column = wp.types.vector(len(LAW_ROWS), real)
    zero, half, one, two, tiny = (real(a) for a in (0.0, 0.5, 1.0, 2.0, TINY_ENERGY[types.name]))

    @wp.func
    def extent_of(collider: table, i: int):
        x = collider[wp.static(COLLIDER_ROWS.extent_x), i]
        return vec3(x, collider[wp.static(COLLIDER_ROWS.extent_y), i], collider[wp.static(COLLIDER_ROWS.extent_z), i])

    @wp.func
    def offset_of(collider: table, i: int):
        x = collider[wp.static(COLLIDER_ROWS.offset_x), i]
        return vec3(x, collider[wp.static(COLLIDER_ROWS.offset_y), i], collider[wp.static(COLLIDER_ROWS.offset_z), i])

    @wp.func
    def bound(collider: table, i: int, shape: int, kinds: ints, reach: reals):
        """Radius of a sphere about the centre of mass that contains the body."""
        extent = extent_of(collider, i)
        size = wp.length(extent)
        if kinds[shape] == wp.static(KINDS.grid):
            size = wp.max(extent) * reach[shape]
        return wp.length(offset_of(collider, i)) + size + collider[wp.static(COLLIDER_ROWS.radius), i]

    @wp.func
    def is_known(a: int, b: int, shapes: ints, kinds: ints, places: reals, collider: table):
        """Whether the distance of b is known at samples of a in contact: not if a is much larger than the mesh b."""
        shape = shapes[b]
        known = wp.int32(1)
        if kinds[shape] == wp.static(KINDS.grid):
            reach = places[5 * shape + 4] * wp.min(extent_of(collider, b))
            if collider[wp.static(COLLIDER_ROWS.radius), a] > reach:
                known = wp.int32(0)
        return known

    @wp.func
    def share(a: int, b: int, shapes: ints, kinds: ints, first: ints, places: reals, collider: table):
        """Share of the samples of body a. The one sample of a ball stands for its whole surface."""
        known_a = is_known(a, b, shapes, kinds, places, collider)
        known_b = is_known(b, a, shapes, kinds, places, collider)
        part = half
        if known_b == 0:
            part = one
        if known_a == 0 or (known_b == 1 and first[shapes[b] + 1] - first[shapes[b]] == 1):
            part = zero
        if known_a == 1 and first[shapes[a] + 1] - first[shapes[a]] == 1:
            part = one
        return part

    @wp.func
    def sample_gap(
        k: int, a: int, b: int, shapes: ints, kinds: ints, samples: vec3s, grids: ints, places: reals,
        coefficients: reals, collider: table, p: vec3s, q: quats,
    ):  # fmt: skip
        """Overlap of a sample of body a with body b, the normal, and the sample, relative to b in its axes."""
        x = offset_of(collider, a) + wp.cw_mul(extent_of(collider, a), samples[k])
        y = wp.quat_rotate_inv(q[b], p[a] - p[b] + wp.quat_rotate(q[a], x))
        gap, n = shape_distance(
            kinds[shapes[b]], y - offset_of(collider, b), extent_of(collider, b), shapes[b], grids, places, coefficients
        )
        radii = collider[wp.static(COLLIDER_ROWS.radius), a] + collider[wp.static(COLLIDER_ROWS.radius), b]
        return radii - gap, n, y

    @wp.func
    def squared_energy(
        a: int, b: int, share: real, law: column, shapes: ints, kinds: ints, first: ints, samples: vec3s,
        weights: reals, grids: ints, places: reals, coefficients: reals, collider: table, p: vec3s, q: quats,
    ):  # fmt: skip
        """Sum of a_i U_i^2 over the samples of body a in body b."""
        total = zero
        for k in range(first[shapes[a]], first[shapes[a] + 1]):
            c, n, y = sample_gap(k, a, b, shapes, kinds, samples, grids, places, coefficients, collider, p, q)
            if c > zero:
                lever, lever_delta = energy_lever(c, law[wp.static(LAW_ROWS.delta)])
                energy = law[wp.static(LAW_ROWS.ke)] * lever
                total += share * weights[k] * energy * energy
        return total

    @wp.func
    def law_force(c: real, n: vec3, v: vec3, stored: real, law: column):
        force = vec3()
        if law[wp.static(LAW_ROWS.inverse)] > zero:
            fn = restitution_normal(c, wp.dot(n, v), stored, law)
            force = n * fn + friction_force(
                n, v, fn, law[wp.static(LAW_ROWS.kf)], law[wp.static(LAW_ROWS.mu)], law[wp.static(LAW_ROWS.delta)]
            )
        else:
            force = contact_force(
                c, n, v, law[wp.static(LAW_ROWS.ke)], law[wp.static(LAW_ROWS.kd)], law[wp.static(LAW_ROWS.kf)],
                law[wp.static(LAW_ROWS.mu)], law[wp.static(LAW_ROWS.delta)],
            )  # fmt: skip
        return force

    @wp.func
    def sample_forces(
        a: int, b: int, share: real, law: column, energy: real, stored: real, shapes: ints, kinds: ints, first: ints,
        samples: vec3s, weights: reals, grids: ints, places: reals, coefficients: reals, collider: table,
        p: vec3s, q: quats, slide: vec3, turn: vec3,
    ):  # fmt: skip
        """Force on body a and its torque about the centre of mass of b, in the axes of b.

        The velocity of a relative to b is slide + turn x z at a point z relative to b.
        """
        force = vec3()
        torque = vec3()
        radius = collider[wp.static(COLLIDER_ROWS.radius), a]
        for k in range(first[shapes[a]], first[shapes[a] + 1]):
            c, n, y = sample_gap(k, a, b, shapes, kinds, samples, grids, places, coefficients, collider, p, q)
            if c > zero:
                lever, lever_delta = energy_lever(c, law[wp.static(LAW_ROWS.delta)])
                weight = share * weights[k] * law[wp.static(LAW_ROWS.ke)] * lever / energy
                z = y - n * (radius - half * c)
                push = law_force(c, n, slide + wp.cross(turn, z), stored, law) * weight
                force += push
                torque += wp.cross(z, push)
        return force, torque

    @wp.kernel(module=kernel_module("pairs", real))
    def pair_force(
        firsts: ints, seconds: ints, laws: ints, shapes: ints, kinds: ints, first: ints, samples: vec3s, weights: reals,
        reach: reals, grids: ints, places: reals, coefficients: reals,
        contact: table, collider: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        a = firsts[e]
        b = seconds[e]
        apart = p[a] - p[b]
        bounds = bound(collider, a, shapes[a], kinds, reach) + bound(collider, b, shapes[b], kinds, reach)
        if wp.dot(apart, apart) < bounds * bounds:
            law = contact_law(contact, laws[e])
            share_a = share(a, b, shapes, kinds, first, places, collider)
            share_b = one - share_a
            squared = zero
            if share_a > zero:
                squared_a = squared_energy(
                    a, b, share_a, law, shapes, kinds, first, samples, weights, grids, places, coefficients,
                    collider, p, q,
                )  # fmt: skip
                squared += squared_a
            if share_b > zero:
                squared_b = squared_energy(
                    b, a, share_b, law, shapes, kinds, first, samples, weights, grids, places, coefficients,
                    collider, p, q,
                )  # fmt: skip
                squared += squared_b
            if squared > zero:
                energy = wp.sqrt(squared + tiny)
                masses = body[wp.static(RIGID_ROWS.inverse_mass), a] + body[wp.static(RIGID_ROWS.inverse_mass), b]
                stored = two * energy * masses
                wa = spin(q[a], l[a], inverse_inertia(body, a))
                wb = spin(q[b], l[b], inverse_inertia(body, b))
                if share_a > zero:
                    force_a, torque_a = sample_forces(
                        a, b, share_a, law, energy, stored, shapes, kinds, first, samples, weights, grids, places,
                        coefficients, collider, p, q, wp.quat_rotate_inv(q[b], v[a] - v[b] - wp.cross(wa, apart)),
                        wp.quat_rotate_inv(q[b], wa - wb),
                    )  # fmt: skip
                    push_a = wp.quat_rotate(q[b], force_a)
                    turn_a = wp.quat_rotate(q[b], torque_a)
                    wp.atomic_add(f, a, push_a)
                    wp.atomic_add(t, a, turn_a - wp.cross(apart, push_a))
                    wp.atomic_sub(f, b, push_a)
                    wp.atomic_sub(t, b, turn_a)
                if share_b > zero:
                    force_b, torque_b = sample_forces(
                        b, a, share_b, law, energy, stored, shapes, kinds, first, samples, weights, grids, places,
                        coefficients, collider, p, q, wp.quat_rotate_inv(q[a], v[b] - v[a] + wp.cross(wb, apart)),
                        wp.quat_rotate_inv(q[a], wb - wa),
                    )  # fmt: skip
                    push_b = wp.quat_rotate(q[a], force_b)
                    turn_b = wp.quat_rotate(q[a], torque_b)
                    wp.atomic_add(f, b, push_b)
                    wp.atomic_add(t, b, turn_b + wp.cross(apart, push_b))
                    wp.atomic_sub(f, a, push_b)
                    wp.atomic_sub(t, a, turn_b)

    return ForceKernels(pair_force)


PAIRS = ForceFamily(
    name="pair",
    rows=ROWS,
    owners=(Rigid,),
    elements=pair_elements,
    columns=pair_columns,
    present=lambda body, scene: scene.has_pairs and body is first_rigid(scene),
    scene_key=lambda scene: pair_laws(scene).key if scene.has_pairs else None,
    acts_on=("rigid",),
    kernels=pair_kernels,
    arrays=pair_arrays,
    threads=lambda topology: len(touching(topology)[0]),
    uses=("collider",),
    native="pairs.h",
    stable_rate=pair_rate,
    reason="contact between bodies",
)


def first_rigid(scene: Scene) -> Rigid:
    """Returns the first rigid body of a scene."""
    return next(body for body in scene.bodies if isinstance(body, Rigid))
