"""Contact between rigid bodies, with the laws of `contact_law.py`, `restitution.py` and `sticking.py`.

Samples of each body's surface touch the other body, whose signed distance phi gives the overlap and the normal
(`colliders.py`). With the overlap c_i = r_A + r_B - phi(x_i) and the elastic energy U_i of the contact law at c_i, the
energy of a pair is a 2-norm over the samples of both bodies,

    E = sqrt(sum a_i U_i^2)

where a_i are half the areas of the samples. The force at a sample is w_i = a_i U_i / E times that of the contact law,
opposite on both bodies at one point, in the middle of the overlap. Momentum and angular momentum are conserved, flat
contact does not depend on the number of samples, and a single corner or edge has a force too. Restitution uses E and
the reduced mass of the pair. So does the damping of sticking friction; the anchor of a sample is a vector in the axes
of the body that the sample touches, and turns with it.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.collider_distance import distance_functions, grid_constants
from gradsim.simulate.forces.colliders import KINDS
from gradsim.simulate.forces.colliders import ROWS as COLLIDER_ROWS
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, types_of
from gradsim.simulate.forces.pair_laws import first_rigid, law_columns, pair_laws, touching_pairs
from gradsim.simulate.forces.point_law import point_law_functions
from gradsim.simulate.forces.restitution import ROWS as LAW_ROWS
from gradsim.simulate.forces.restitution import restitution_functions
from gradsim.simulate.forces.sticking import STICKING_ROWS
from gradsim.simulate.state.kernels.rigid import ROWS as RIGID_ROWS
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("pair", *LAW_ROWS, *STICKING_ROWS)

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
        return touching_pairs(groups, topology.arrays["pair.numbers"].reshape(groups.max() + 1, -1))

    return topology.constant("pairs that may touch", build)


def pair_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns bodies, laws and first anchors of the pairs, the shapes of bodies, and their samples and grids."""
    arrays, elements = layout.topology.arrays, layout.topology.elements
    first, second, laws = touching(layout.topology)
    own = {name: arrays[f"collider.{name}"] for name in ("kinds", "sizes", "reach")}
    anchors = arrays.get("pair_anchor.firsts", np.full((len(first), 2), -1, np.int32))
    return (
        *(layout.constant(layout.spread(bodies, elements["rigid"])) for bodies in (first, second)),
        layout.constant(layout.spread(laws, elements["pair"])),
        layout.constant(layout.spread(anchors, elements.get("pair_anchor", 0)).ravel()),
        layout.shared("collider.shapes"),
        layout.constant(own["kinds"]),
        layout.constant(np.concatenate([[0], np.cumsum(own["sizes"])]).astype(np.int32)),
        layout.constant(arrays["collider.samples"], "vector"),
        layout.constant(arrays["collider.weights"]),
        layout.constant(own["reach"]),
        *grid_constants(layout, "collider"),
    )


def pair_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate of the law with the largest one, for the lightest bodies of its groups.

    A body between two others is held by two springs, hence twice the rate of a pair in scenes of three bodies or more.
    """
    rows = ("ke", "kd", "kf", "loss", "stick_stiffness")
    ke, kd, kf, loss, stick = (np.asarray(view.row(row)) for row in rows)  # [B, laws], or one number
    normal, slip = view.pair_compliances()
    stiffness = np.maximum(ke * normal * (1.0 + loss), stick * ke * slip)
    friction = np.where(stick > 0.0, 0.0, kf * slip)  # the damping of sticking friction is tied to the step
    rates = np.maximum(np.maximum(kd * normal, friction), loss * np.sqrt(ke * normal))
    several = 2.0 if view.compiled.topology.elements["rigid"] > 2 else 1.0
    return float(several * stiffness.max()), float(several * rates.max())


@functools.cache
def pair_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, quats, ints, reals = (
        types.vec3, types.vec3s, types.table, types.quats, types.ints, types.reals
    )  # fmt: skip
    functions = rotation_functions(real)
    inverse_inertia, spin = functions.inverse_inertia, functions.spin
    contact_law, energy_lever = restitution_functions(real)[:2]
    point_force = point_law_functions(real).force
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
    def anchor_of(xi: vec3s, at: int, ratio: real):
        """Zero for regularized friction, which has no anchors."""
        anchor = vec3()
        if ratio > zero:
            anchor = xi[at]
        return anchor

    @wp.func
    def sample_forces(
        a: int, b: int, share: real, law: column, energy: real, stored: real, shapes: ints, kinds: ints, first: ints,
        samples: vec3s, weights: reals, grids: ints, places: reals, coefficients: reals, collider: table,
        p: vec3s, q: quats, slide: vec3, turn: vec3,
        anchors: int, ratio: real, kf: real, h: real, dt: real, commit: int, xi: vec3s, next: vec3s,
    ):  # fmt: skip
        """Force on body a and its torque about the centre of mass of b, in the axes of b.

        The velocity of a relative to b is slide + turn x z at a point z relative to b. Anchors advance by h for the
        force; if `commit` is 1, those after the whole step dt are written.
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
                u = slide + wp.cross(turn, z)
                at = anchors + k - first[shapes[a]]
                anchor = anchor_of(xi, at, ratio)
                push, reached = point_force(c, n, u, stored, law, ratio, anchor, kf, h)
                force += push * weight
                torque += wp.cross(z, push * weight)
                if ratio > zero and commit == 1:
                    other, moved = point_force(c, n, u, stored, law, ratio, anchor, kf, dt)
                    next[at] = moved
        return force, torque

    @wp.kernel(module=kernel_module("pairs", real))
    def pair_force(
        advance: real, commit: int, dt: reals,
        firsts: ints, seconds: ints, laws: ints, anchors: ints, shapes: ints, kinds: ints, first: ints, samples: vec3s,
        weights: reals, reach: reals, grids: ints, places: reals, coefficients: reals,
        contact: table, collider: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, xi: vec3s, f: vec3s, t: vec3s, next: vec3s,
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
                ratio = contact[wp.static(ROWS.stick_stiffness), laws[e]]
                kf = contact[wp.static(ROWS.stick_damping), laws[e]] / (masses * dt[0])
                wa = spin(q[a], l[a], inverse_inertia(body, a))
                wb = spin(q[b], l[b], inverse_inertia(body, b))
                if share_a > zero:
                    force_a, torque_a = sample_forces(
                        a, b, share_a, law, energy, stored, shapes, kinds, first, samples, weights, grids, places,
                        coefficients, collider, p, q, wp.quat_rotate_inv(q[b], v[a] - v[b] - wp.cross(wa, apart)),
                        wp.quat_rotate_inv(q[b], wa - wb),
                        anchors[2 * e + 0], ratio, kf, advance * dt[0], dt[0], commit, xi, next,
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
                        anchors[2 * e + 1], ratio, kf, advance * dt[0], dt[0], commit, xi, next,
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
    anchors="pair_anchor",
    kernels=pair_kernels,
    arrays=pair_arrays,
    threads=lambda topology: len(touching(topology)[0]),
    uses=("collider",),
    native="pairs.h",
    stable_rate=pair_rate,
    reason="contact between bodies",
)
