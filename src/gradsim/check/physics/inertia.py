"""Mass, centre of mass and inertia of bodies against closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gradsim.check.fact import Fact, relative, small
from gradsim.check.physics.measure import Check, fitted_order
from gradsim.scene import surfaces
from gradsim.scene.inertia import MassProperties, point_masses, solid
from gradsim.scene.meshes import TriMesh

ROUNDING = 1e-12
DENSITY = 700.0  # [kg/m^3]

# Mass [kg], height of the centre of mass [m], moments of inertia about the centre, across and along the axis [kg m^2].
Form = tuple[float, float, float, float]


def sphere_form(r: float) -> Form:
    m = DENSITY * 4 / 3 * math.pi * r**3
    return m, 0.0, 0.4 * m * r**2, 0.4 * m * r**2


def cylinder_form(r: float, h: float) -> Form:
    m = DENSITY * math.pi * r**2 * h
    return m, 0.0, m * (3 * r**2 + h**2) / 12, m * r**2 / 2


def cone_form(r: float, h: float) -> Form:
    m = DENSITY * math.pi * r**2 * h / 3
    return m, -h / 4, m * (3 / 20 * r**2 + 3 / 80 * h**2), 0.3 * m * r**2


def capsule_form(r: float, h: float) -> Form:
    m, _, across, along = cylinder_form(r, h)
    ends, _, ball, _ = sphere_form(r)
    return m + ends, 0.0, across + ball + ends * (h**2 / 4 + 3 / 8 * h * r), along + ball


def torus_form(R: float, r: float) -> Form:
    m = DENSITY * 2 * math.pi**2 * R * r**2
    return m, 0.0, m * (R**2 / 2 + 5 / 8 * r**2), m * (R**2 + 3 / 4 * r**2)


# Name, surface at a level of refinement, closed form. Sizes are unequal, so that no two lengths can be confused.
ROUND_SHAPES: tuple[tuple[str, Callable[[int], TriMesh], Form], ...] = (
    ("sphere", lambda level: surfaces.sphere(0.3, 8 * 2**level, 16 * 2**level), sphere_form(0.3)),
    ("icosphere", lambda level: surfaces.icosphere(0.3, 2 + level), sphere_form(0.3)),
    ("cylinder", lambda level: surfaces.cylinder(0.3, 0.8, 16 * 2**level), cylinder_form(0.3, 0.8)),
    ("cone", lambda level: surfaces.cone(0.3, 0.8, 16 * 2**level), cone_form(0.3, 0.8)),
    ("capsule", lambda level: surfaces.capsule(0.3, 0.8, 16 * 2**level), capsule_form(0.3, 0.8)),
    ("torus", lambda level: surfaces.torus(0.7, 0.2, 16 * 2**level, 32 * 2**level), torus_form(0.7, 0.2)),
)


def mass_facts(topic: str, got: MassProperties, mass: float, center: np.ndarray, inertia: np.ndarray) -> list[Fact]:
    """Mass, centre and inertia to rounding; the centre against the radius of gyration."""
    radius = math.sqrt(np.trace(inertia) / mass)
    return [
        relative(topic, "mass [kg]", mass, float(got.mass), ROUNDING),
        small(topic, "error of the centre / size", np.abs(got.center.numpy() - center).max() / radius, ROUNDING),
        small(
            topic, "error of the inertia", np.abs(got.inertia.numpy() - inertia).max() / np.abs(inertia).max(), ROUNDING
        ),
    ]


def box_inertia(mass: float, size: np.ndarray) -> np.ndarray:
    return mass / 12 * np.diag((size**2).sum() - size**2)


def exact_solids() -> list[Fact]:
    """Polyhedra have their answers to rounding: a box, the same turned and moved, two as one body, a tetrahedron."""
    size, center = np.array([0.2, 0.5, 0.9]), np.zeros(3)
    box = surfaces.box(size)
    mass = DENSITY * float(size.prod())
    facts = mass_facts("box", solid(box.vertices, box.faces, DENSITY), mass, center, box_inertia(mass, size))

    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    shift = np.array([3.0, -5.0, 7.0])
    moved = solid(box.vertices @ turn.T + shift, box.faces, DENSITY)
    facts += mass_facts("box turned and moved", moved, mass, shift, turn @ box_inertia(mass, size) @ turn.T)

    other = np.array([0.4, 0.1, 0.3])
    second, apart = surfaces.box(other), np.array([1.0, 0.6, -0.8])
    pair = solid(
        np.concatenate([box.vertices, second.vertices + apart]),
        np.concatenate([box.faces, second.faces + 8]),
        DENSITY,
    )
    light = DENSITY * float(other.prod())
    reduced = mass * light / (mass + light)
    steiner = reduced * (apart @ apart * np.eye(3) - np.outer(apart, apart))
    inertia = box_inertia(mass, size) + box_inertia(light, other) + steiner
    facts += mass_facts("two boxes, one body", pair, mass + light, light / (mass + light) * apart, inertia)

    corner = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    tet = solid(corner, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    # The integrals of 1, x, x^2 and xy over the corner x + y + z < 1 are 1/6, 1/24, 1/60 and 1/120.
    by_hand = np.full((3, 3), 1 / 480) + np.diag(np.full(3, 1 / 80 - 1 / 480))
    return facts + mass_facts("tetrahedron x + y + z < 1", tet, 1 / 6, np.full(3, 0.25), by_hand)


def point_model() -> list[Fact]:
    """Masses at the corners of a box, equal ones, and a dumbbell of unequal ones off the origin."""
    size = np.array([0.2, 0.5, 0.9])
    corners = surfaces.box(size).vertices
    facts = mass_facts(
        "masses at the corners of a box",
        point_masses(corners, np.full(8, 0.25)),
        2.0,
        np.zeros(3),
        2.0 / 4 * np.diag((size**2).sum() - size**2),
    )
    ends = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 4.5]])
    dumbbell = point_masses(ends, np.array([2.0, 1.0]))
    return facts + mass_facts("dumbbell", dumbbell, 3.0, np.array([1.0, 2.0, 3.5]), np.diag([1.5, 1.5, 0.0]))


def round_solids() -> list[Fact]:
    """Bodies with round surfaces, their meshes refined twice: errors fall with the square, and to nothing."""
    facts = []
    for name, surface, form in ROUND_SHAPES:
        meshes = [surface(level) for level in range(3)]
        errors = np.array([form_errors(mesh, form) for mesh in meshes])  # [levels, quantities]
        worst = np.abs(errors).max(axis=1)
        for mesh, error, bound in zip(meshes, worst.tolist(), (0.15, 0.04, 0.01), strict=True):
            facts.append(small(name, f"worst error of mass, centre, inertia, {len(mesh.faces)} faces", error, bound))
        order = fitted_order(np.array([1.0, 0.5, 0.25]), worst)
        facts.append(relative(name, "order of convergence", 2.0, order, 0.05))
        # What is left of every single error when its second-order part is taken out.
        limit = np.abs((4 * errors[2] - errors[1]) / 3).max()
        facts.append(small(name, "worst error in the limit of fine meshes", float(limit), 2e-4))
    return facts


def form_errors(mesh: TriMesh, form: Form) -> list[float]:
    """Errors of the mass, the three moments, the centre over the size, and the products of inertia, each relative."""
    mass, height, across, along = form
    got = solid(mesh.vertices, mesh.faces, DENSITY)
    moments = got.inertia.numpy()
    radius = math.sqrt((2 * across + along) / mass)
    return [
        float(got.mass) / mass - 1,
        *(np.diag(moments) / (across, along, across) - 1),
        *((got.center.numpy() - (0.0, height, 0.0)) / radius),
        *(moments[[0, 0, 1], [1, 2, 2]] / across),
    ]


CHECKS = (
    Check("inertia of polyhedra", exact_solids),
    Check("inertia of points", point_model),
    Check("inertia of round bodies", round_solids),
)
