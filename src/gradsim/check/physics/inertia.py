"""Mass, centre of mass and inertia of bodies, compared with closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gradsim.check.physics.measure import PhysicsCheck, convergence_order
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import surfaces
from gradsim.scene.inertia import MassProperties, point_masses, solid
from gradsim.scene.meshes import TriMesh

ROUNDING = 1e-12
DENSITY = 700.0  # [kg/m^3]

# Mass [kg], height of the centre of mass [m], moments of inertia about the centre across and along the axis [kg m^2].
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


# Name, surface at a refinement level, closed form. All lengths differ, so that a swapped one is detected.
CURVED_SHAPES: tuple[tuple[str, Callable[[int], TriMesh], Form], ...] = (
    ("sphere", lambda level: surfaces.sphere(0.3, 8 * 2**level, 16 * 2**level), sphere_form(0.3)),
    ("icosphere", lambda level: surfaces.icosphere(0.3, 2 + level), sphere_form(0.3)),
    ("cylinder", lambda level: surfaces.cylinder(0.3, 0.8, 16 * 2**level), cylinder_form(0.3, 0.8)),
    ("cone", lambda level: surfaces.cone(0.3, 0.8, 16 * 2**level), cone_form(0.3, 0.8)),
    ("capsule", lambda level: surfaces.capsule(0.3, 0.8, 16 * 2**level), capsule_form(0.3, 0.8)),
    ("torus", lambda level: surfaces.torus(0.7, 0.2, 16 * 2**level, 32 * 2**level), torus_form(0.7, 0.2)),
)


def mass_property_results(
    topic: str, got: MassProperties, mass: float, center: np.ndarray, inertia: np.ndarray
) -> list[CheckResult]:
    """Compares mass, centre and inertia to rounding; the error of the centre is relative to the radius of gyration."""
    radius = math.sqrt(np.trace(inertia) / mass)
    return [
        expect_close(topic, "mass [kg]", mass, float(got.mass), ROUNDING),
        expect_zero(topic, "error of the centre / size", np.abs(got.center.numpy() - center).max() / radius, ROUNDING),
        expect_zero(
            topic, "error of the inertia", np.abs(got.inertia.numpy() - inertia).max() / np.abs(inertia).max(), ROUNDING
        ),
    ]


def box_inertia(mass: float, size: np.ndarray) -> np.ndarray:
    return mass / 12 * np.diag((size**2).sum() - size**2)


def polyhedra() -> list[CheckResult]:
    """Checks polyhedra: a box, the same rotated and translated, two boxes as one body, a tetrahedron."""
    size, center = np.array([0.2, 0.5, 0.9]), np.zeros(3)
    box = surfaces.box(size)
    mass = DENSITY * float(size.prod())
    results = mass_property_results(
        "box", solid(box.vertices, box.faces, DENSITY), mass, center, box_inertia(mass, size)
    )

    rotation = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    rotation *= np.linalg.det(rotation)
    shift = np.array([3.0, -5.0, 7.0])
    moved = solid(box.vertices @ rotation.T + shift, box.faces, DENSITY)
    results += mass_property_results(
        "box, rotated and translated", moved, mass, shift, rotation @ box_inertia(mass, size) @ rotation.T
    )

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
    results += mass_property_results(
        "two boxes as one body", pair, mass + light, light / (mass + light) * apart, inertia
    )

    corner = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    tet = solid(corner, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    # The integrals of 1, x, x^2 and xy over the corner x + y + z < 1 are 1/6, 1/24, 1/60 and 1/120.
    closed_form = np.full((3, 3), 1 / 480) + np.diag(np.full(3, 1 / 80 - 1 / 480))
    return results + mass_property_results("tetrahedron x + y + z < 1", tet, 1 / 6, np.full(3, 0.25), closed_form)


def point_mass_bodies() -> list[CheckResult]:
    """Checks equal point masses at the corners of a box, and unequal ones at the ends of a dumbbell."""
    size = np.array([0.2, 0.5, 0.9])
    corners = surfaces.box(size).vertices
    results = mass_property_results(
        "point masses at the corners of a box",
        point_masses(corners, np.full(8, 0.25)),
        2.0,
        np.zeros(3),
        2.0 / 4 * np.diag((size**2).sum() - size**2),
    )
    ends = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 4.5]])
    dumbbell = point_masses(ends, np.array([2.0, 1.0]))
    return results + mass_property_results(
        "dumbbell", dumbbell, 3.0, np.array([1.0, 2.0, 3.5]), np.diag([1.5, 1.5, 0.0])
    )


def curved_solids() -> list[CheckResult]:
    """Checks bodies with curved surfaces on three refinement levels: second-order convergence to the closed form."""
    results = []
    for name, surface, form in CURVED_SHAPES:
        meshes = [surface(level) for level in range(3)]
        errors = np.array([form_errors(mesh, form) for mesh in meshes])  # [levels, quantities]
        worst = np.abs(errors).max(axis=1)
        for mesh, error, bound in zip(meshes, worst.tolist(), (0.15, 0.04, 0.01), strict=True):
            results.append(
                expect_zero(name, f"worst error of mass, centre, inertia, {len(mesh.faces)} faces", error, bound)
            )
        order = convergence_order(np.array([1.0, 0.5, 0.25]), worst)
        results.append(expect_close(name, "order of convergence", 2.0, order, 0.05))
        # Richardson extrapolation removes the second-order part of every error.
        limit = np.abs((4 * errors[2] - errors[1]) / 3).max()
        results.append(expect_zero(name, "worst error, extrapolated to infinite refinement", float(limit), 2e-4))
    return results


def form_errors(mesh: TriMesh, form: Form) -> list[float]:
    """Returns the relative errors of the mass, the moments, the centre and the products of inertia."""
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
    PhysicsCheck("inertia of polyhedra", polyhedra),
    PhysicsCheck("inertia of point masses", point_mass_bodies),
    PhysicsCheck("inertia of curved bodies", curved_solids),
)
