"""Equilibria: the hanging chain, the bent strip, the bar in tension."""

from __future__ import annotations

import math

import numpy as np

from gradsim.check.physics.measure import NO_GRAVITY, PhysicsCheck, expect_convergence, relax
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Region, Soft, Springs
from gradsim.scene.materials import Bending, Membrane, NeoHookean
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import per_element
from gradsim.scene.scene import Scene

CATENARY, SAG = 0.469542, 0.292344  # [m], span 1 m and length 1.2 m
# q = rho g A L^3 / EI -> deflection w/L and shortening u/L of the tip.
ELASTICA = {5.0: (0.49591, 0.15334), 25.0: (0.85590, 0.61384)}


def hanging_chain() -> list[CheckResult]:
    """Checks a chain of 1.2 m between pins 1 m apart, started as a parabola; it stretches by less than 1e-4."""
    n, mass, stretch_force = 32, 1.0, 1e5  # kg, N
    stiffness = stretch_force * n / 1.2
    x = np.linspace(-0.5, 0.5, n + 1)
    points = np.stack([x, -0.27 * (1.0 - 4.0 * x * x), np.zeros_like(x)], axis=1)
    chain = Springs(
        "chain",
        points,
        meshes.chain(1.2, n)[1],
        mass=mass / n,
        stiffness=stiffness,
        damping=0.5 * math.sqrt(stiffness * mass / n),  # of the fast axial modes; it does not affect the swinging
        rest_length=1.2 / n,
        pinned=[0, n],
    )
    rest = relax(Scene([chain]), period=1.0).numpy()
    curve = CATENARY * (np.cosh(rest[:, 0] / CATENARY) - math.cosh(0.5 / CATENARY))
    distance = np.abs(rest[:, 1] - curve).max()
    return [
        expect_close("hanging chain", "sag [m]", SAG, -float(rest[:, 1].min()), 0.005),
        expect_zero("hanging chain", "largest distance from the catenary / span", distance, 0.005),
    ]


def tip_of_strip(load: float, cells: tuple[int, int], width: float) -> tuple[float, float]:
    """Returns deflection w and shortening u of the tip of a clamped strip of 1 m under its own weight [m]."""
    # Bending acts on the edges between cells: a clamped cell stays straight, so the slope is zero at its middle.
    h = 1.0 / (cells[0] - 0.5)
    grid = meshes.grid((cells[0] * h, width), cells)
    mesh = TriMesh(grid.vertices + np.array([(cells[0] - 1) * h / 2, 0.0, 0.0]), grid.faces)
    stretch = 1e4  # [N/m], against a weight of `load` [N/m]: strains below 0.1 %
    damping = 0.25 * math.sqrt(stretch) * min(h, width / cells[1])  # of the fast in-plane modes
    strip = Cloth(
        "strip",
        mesh,
        density=1.0,
        material=Membrane.from_young(stretch, 0.0, damping=damping),
        bending=Bending(1.0),
        pinned=Region(high=(0.51 * h, None, None)),
    )
    rest = relax(Scene([strip], gravity=(0.0, -load, 0.0)), period=1.8)
    tip = rest[-cells[1] - 1 :].mean(0).tolist()
    return -tip[1], 1.0 - tip[0]


def _elastica(
    topic: str, load: float, counts: tuple[int, ...], width: float, square: bool, last: float
) -> list[CheckResult]:
    tips = [tip_of_strip(load, (n, round(width * n) if square else 1), width) for n in counts]
    results = []
    for k, name in enumerate(("w/L", "u/L")):
        names = [f"{name}, {n} cells" for n in counts]
        got = [tip[k] for tip in tips]
        results += expect_convergence(f"{topic}, q = {load:g}", names, ELASTICA[load][k], got, first=0.1, last=last)
    return results


def narrow_strip() -> list[CheckResult]:
    """Checks a strip of one row of long cells, whose diagonals are nearly parallel to it and hardly bend."""
    return [
        *_elastica("narrow strip", 5.0, (5, 10, 20), 0.01, False, 0.005),
        *_elastica("narrow strip", 25.0, (5, 10, 20), 0.01, False, 0.02),
    ]


def square_strip() -> list[CheckResult]:
    """Checks a strip of square cells, which also bend along their diagonals."""
    return _elastica("strip of square cells", 5.0, (5, 10, 20), 0.2, True, 0.02)


def bar_in_tension() -> list[CheckResult]:
    """Checks a free bar with opposite forces at its ends: extension F L / (E A), contraction by Poisson's ratio."""
    size, young, poisson, strain = np.array([1.0, 0.3, 0.2]), 1e6, 0.3, 1e-4
    mesh = meshes.tet_box(size, (4, 2, 2))
    end = np.abs(mesh.vertices[mesh.surface][:, :, 0]).min(axis=1) > 0.49 * size[0]
    faces = mesh.surface[end]
    loads = np.zeros_like(mesh.vertices)
    thirds = np.repeat(meshes.triangle_areas(mesh.vertices, faces) / 3, 3)
    np.add.at(loads[:, 0], faces.ravel(), young * strain * thirds)
    loads[:, 0] *= np.sign(mesh.vertices[:, 0])
    bar = Soft("bar", mesh, density=1000.0, material=NeoHookean.from_young(young, poisson), force=per_element(loads))
    rest = relax(Scene([bar], gravity=NO_GRAVITY), period=0.07).numpy()
    strains = np.ptp(rest, axis=0) / size - 1.0
    return [
        expect_close("bar in tension", "strain / (F / E A)", 1.0, strains[0] / strain, 1e-3),
        expect_close("bar in tension", "contraction / extension, y", poisson, -strains[1] / strains[0], 1e-3),
        expect_close("bar in tension", "contraction / extension, z", poisson, -strains[2] / strains[0], 1e-3),
    ]


CHECKS = (
    PhysicsCheck("hanging chain", hanging_chain),
    PhysicsCheck("strip under its own weight, long cells", narrow_strip),
    PhysicsCheck("strip under its own weight, square cells", square_strip),
    PhysicsCheck("bar in tension", bar_in_tension),
)
