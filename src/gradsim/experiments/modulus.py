"""Young's modulus from video: how much of the error is that of the mesh.

The recorded bars are computed by `hexahedra.py` on meshes three times finer than the largest fitted one. A clamped beam
starts to swing under its weight by 2 % of its length; a hanging bar of silicone is stretched by a load. Everything but
Young's modulus is known, and frames have no noise, so that an error is due to elements, mesh and time steps.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch

from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.hexahedra import Bar
from gradsim.render.render import render
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Region, Soft
from gradsim.scene.camera import Camera
from gradsim.scene.damping import Rayleigh
from gradsim.scene.elements import LinearTet, SmoothedTet
from gradsim.scene.integrators import Verlet
from gradsim.scene.looks import Look
from gradsim.scene.materials import NeoHookean
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import PerElement
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.simulate.simulate import initial_trajectory, simulate
from gradsim.simulate.stability import stable_dt

ELEMENTS = {"SmoothedTet": SmoothedTet(), "LinearTet": LinearTet()}
REFINEMENT, BAR_REFINEMENT = 3, 2  # of the recorded beam and bar, relative to the largest fitted mesh
HIGH, START = 1.3, 0.6  # largest modulus for which steps are stable, and start of the fit, relative to the truth
ITERATIONS, TOLERANCE, DIFFERENCE, LARGEST_CHANGE = 12, 1e-5, 1e-4, 0.5  # of the logarithm of the modulus
STEP_MARGIN = 1.15  # of the steps that are stable at the largest modulus of the search
LOOK, BACKGROUND = Look(color=(0.75, 0.7, 0.65)), (0.05, 0.08, 0.12)
ERROR = "error [%]"

# The beam: cells of the fitted meshes, and by Poisson's ratio the allowed error with SmoothedTet on the larger one [%].
BEAM_SIZE, BEAM_CELLS = (1.0, 0.2, 0.2), ((20, 4, 4), (30, 6, 6))  # [m]
BEAM_YOUNG, BEAM_DENSITY = 4e7, 1000.0  # [Pa], [kg/m^3]
BEAM_FRAMES, BEAM_FPS = 19, 300.0
ALLOWED = {0.3: 2.0, 0.45: 2.0, 0.49: 5.0, 0.499: 5.0}

# The bar of silicone.
BAR_SIZE, BAR_CELLS = (0.1, 0.02, 0.02), (30, 6, 6)  # along x [m]; it hangs along -y
BAR_YOUNG, BAR_POISSON, BAR_DENSITY = 2.5e5, 0.49, 1070.0  # [Pa], [1], [kg/m^3]
LOADS, LOAD_STEPS = (2.0, 5.0, 10.0), 6  # [N], and steps in which the recorded bar is loaded
SETTLING, DAMPING = (
    0.06,
    480.0,
)  # time until the bar is at rest [s], and damping that is critical for its slowest mode [1/s]
ALLOWED_SPREAD = 5.0  # of the moduli from the loads and meshes [%]


def video(surface: np.ndarray, triangles: np.ndarray, camera: Camera, size: tuple[int, int]) -> torch.Tensor:
    """Returns images of surfaces [T, S, 3], [T, H, W, 3]."""
    mesh = TriMesh(surface[0], triangles)
    body = Cloth("bar", mesh, density=1.0, vertices=torch.as_tensor(surface), look=LOOK)
    scene = Scene([body], camera=camera, background=BACKGROUND)
    return render(scene, initial_trajectory(scene), size)[:, 0]


def neo_hookean(young: Any, poisson: float) -> Any:
    return NeoHookean.from_young(young, poisson)


def substeps(scene: Callable[[Any], Scene], young: float, fps: float) -> int:
    """Returns the steps per frame that are stable for every modulus up to a largest one."""
    return math.ceil(STEP_MARGIN / (fps * stable_dt(scene(HIGH * young), Verlet())))


def fitted_young(
    scene: Callable[[Any], Scene], recorded: torch.Tensor, time: Time, start: float, progress: Progress
) -> float:
    """Returns the modulus [Pa] of least squared differences from a recording [T, H, W, 3], by Gauss-Newton steps.

    Every step simulates two worlds, whose moduli differ slightly.
    """
    z = math.log(start)
    for step in range(ITERATIONS):
        young = torch.exp(z + DIFFERENCE * torch.arange(2, dtype=torch.float64))
        with torch.no_grad():
            worlds = scene(young)
            options: dict[str, Any] = {"frames": time.frames, "fps": time.fps, "substeps": time.steps_per_frame}
            motion = simulate(worlds, integrator=time.integrator, **options)
            images = render(worlds, motion, tuple(recorded.shape[1:3]))  # type: ignore[arg-type]
        residual, slope = images[0] - recorded, (images[1] - images[0]) / DIFFERENCE
        change = -float((slope * residual).sum() / slope.square().sum())
        z += min(max(change, -LARGEST_CHANGE), LARGEST_CHANGE)
        progress(f"step {step + 1}: {math.exp(z):.5g} Pa")
        if abs(change) < TOLERANCE:
            return math.exp(z)
    raise ArithmeticError(f"no minimum after {ITERATIONS} steps of Gauss and Newton's method")


def six_tet_box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> TetMesh:
    """Returns a box with six tetrahedra per cell around its main diagonal."""
    vertices = meshes.tet_box(size, cells).vertices
    index = np.arange(len(vertices)).reshape([n + 1 for n in cells])
    found = []
    for order in itertools.permutations(range(3)):
        corners = np.zeros((4, 3), dtype=int)
        for k, axis in enumerate(order):
            corners[k + 1 :, axis] = 1
        own = [index[a : a + cells[0], b : b + cells[1], c : c + cells[2]].ravel() for a, b, c in corners]
        odd = np.linalg.det(corners[1:].astype(float)) < 0
        found.append(np.stack([own[0], own[2], own[1], own[3]] if odd else own, 1))
    tets = np.stack(found, 1).reshape(-1, 4)  # those of a cell next to each other
    return TetMesh(vertices, tets)


PATTERNS: dict[str, Callable[..., TetMesh]] = {"five per cell": meshes.tet_box, "six per cell": six_tet_box}


# --- the swinging beam ------------------------------------------------------------------------------------------------

BEAM_CAMERA, BEAM_IMAGE = Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0), fov=4.4), (32, 128)


@functools.lru_cache(maxsize=len(ALLOWED))
def beam_video(poisson: float) -> torch.Tensor:
    """Returns the recording of the beam of hexahedra."""
    material = neo_hookean(BEAM_YOUNG, poisson)
    bar = Bar(BEAM_SIZE, tuple(REFINEMENT * n for n in BEAM_CELLS[-1]))  # type: ignore[arg-type]
    times = np.arange(BEAM_FRAMES) / BEAM_FPS
    moved = bar.vibration(np.array([0.0, -9.81, 0.0]), BEAM_DENSITY, float(material.mu), float(material.lam), times)
    return video(*bar.surface(moved), BEAM_CAMERA, BEAM_IMAGE)


def beam(young: Any, mesh: TetMesh, poisson: float, element: Any) -> Scene:
    """Returns the scene that is fitted to it."""
    body = Soft(
        "bar",
        mesh,
        density=BEAM_DENSITY,
        material=neo_hookean(young, poisson),
        pinned=Region(high=(1e-6 - 0.5 * BEAM_SIZE[0], None, None)),
        element=element,
        look=LOOK,
    )
    return Scene([body], camera=BEAM_CAMERA, background=BACKGROUND)


def beam_case(poisson: float, cells: tuple[int, int, int], element: str, pattern: str) -> Case:
    def run(progress: Progress) -> Row:
        mesh = PATTERNS[pattern](BEAM_SIZE, cells)
        progress("recording")
        recorded = beam_video(poisson)
        scene = functools.partial(beam, mesh=mesh, poisson=poisson, element=ELEMENTS[element])
        steps = substeps(scene, BEAM_YOUNG, BEAM_FPS)
        begin = perf_counter()
        time = Time(BEAM_FRAMES, BEAM_FPS, steps, Verlet())
        young = fitted_young(scene, recorded, time, START * BEAM_YOUNG, progress)
        error, seconds = 100.0 * (young / BEAM_YOUNG - 1.0), perf_counter() - begin
        row = {"element": element, "pattern": pattern, "nodes": len(mesh.vertices), "poisson": poisson}
        return row | {ERROR: error, "steps": steps * (BEAM_FRAMES - 1), "seconds": seconds}

    return Case(f"beam, nu {poisson:g}, {cells[0]} cells, {pattern}, {element}", run)


def beam_claims(rows: Sequence[Row]) -> list[Claim]:
    largest = max((row["nodes"] for row in rows), default=0)
    own = [row for row in rows if row["element"] == "SmoothedTet" and row["nodes"] == largest]
    return [
        Claim(
            f"error of Young's modulus at nu = {row['poisson']:g}, {row['pattern']} [%]",
            abs(row[ERROR]),
            at_most=ALLOWED[row["poisson"]],
        )
        for row in own
    ]


# --- the hanging bar --------------------------------------------------------------------------------------------------

BAR_CAMERA, BAR_IMAGE = Camera(eye=(0.0, -0.006, 1.0), target=(0.0, -0.006, 0.0), fov=7.4), (128, 48)


def hanging(points: np.ndarray) -> np.ndarray:
    """Turns a bar along x to hang along -y."""
    return np.stack([points[..., 1], -points[..., 0], points[..., 2]], -1)


@functools.lru_cache(maxsize=len(LOADS))
def bar_video(load: float) -> torch.Tensor:
    """Returns two images of the bar of hexahedra: without and with the load."""
    material = neo_hookean(BAR_YOUNG, BAR_POISSON)
    bar = Bar(BAR_SIZE, tuple(BAR_REFINEMENT * n for n in BAR_CELLS))  # type: ignore[arg-type]
    total = np.zeros_like(bar.vertices)
    total[:, 0] = BAR_DENSITY * 9.81 * bar.node_volume + load * bar.end_share
    moved = bar.equilibrium(total, float(material.mu), float(material.lam), LOAD_STEPS)
    surface, triangles = bar.surface(np.stack([np.zeros_like(moved), moved]))
    return video(hanging(surface), triangles, BAR_CAMERA, BAR_IMAGE)


def uneven_box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> TetMesh:
    """Returns a box whose inner vertices are displaced at random by up to a quarter of the spacing."""
    mesh = meshes.tet_box(size, cells)
    inside = np.all(np.abs(mesh.vertices) < 0.5 * np.array(size) - 1e-9, axis=1)
    shift = np.random.default_rng(0).uniform(-0.25, 0.25, mesh.vertices.shape) * size / np.array(cells)
    return TetMesh(mesh.vertices + shift * inside[:, None], mesh.tets)


BAR_MESHES = PATTERNS | {"uneven": uneven_box}


def end_forces(mesh: TetMesh, load: float) -> np.ndarray:
    """Returns the forces of a uniform traction on the lowest face [N], [N, 3]."""
    corners = mesh.vertices[mesh.surface]
    lowest = (corners[..., 1] < mesh.vertices[:, 1].min() + 1e-9).all(1)
    own = mesh.surface[lowest]
    edges = corners[lowest][:, 1:] - corners[lowest][:, :1]
    areas = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
    share = np.bincount(own.ravel(), np.repeat(areas, 3), len(mesh.vertices))
    return np.outer(-load * share / share.sum(), (0.0, 1.0, 0.0))


def hanging_bar(young: Any, mesh: TetMesh, load: float, element: Any) -> Scene:
    """Returns the scene that is fitted to it."""
    body = Soft(
        "bar",
        mesh,
        density=BAR_DENSITY,
        material=neo_hookean(young, BAR_POISSON),
        pinned=Region(low=(None, 0.5 * BAR_SIZE[0] - 1e-6, None)),
        force=PerElement(end_forces(mesh, load)),
        rayleigh=Rayleigh(mass=DAMPING),
        element=element,
        look=LOOK,
    )
    return Scene([body], camera=BAR_CAMERA, background=BACKGROUND)


@dataclass(frozen=True)
class BarFit:
    """One load on one mesh."""

    load: float
    pattern: str
    element: str

    def run(self, progress: Progress) -> Row:
        across, along = (BAR_SIZE[1], BAR_SIZE[0], BAR_SIZE[2]), (BAR_CELLS[1], BAR_CELLS[0], BAR_CELLS[2])
        mesh = BAR_MESHES[self.pattern](across, along)
        progress("recording")
        recorded = bar_video(self.load)
        scene = functools.partial(hanging_bar, mesh=mesh, load=self.load, element=ELEMENTS[self.element])
        fps, begin = 1.0 / SETTLING, perf_counter()
        time = Time(2, fps, substeps(scene, BAR_YOUNG, fps), Verlet())
        young = fitted_young(scene, recorded, time, START * BAR_YOUNG, progress)
        row = {"element": self.element, "pattern": self.pattern, "nodes": len(mesh.vertices), "load": self.load}
        return row | {"young": young, ERROR: 100.0 * (young / BAR_YOUNG - 1.0), "seconds": perf_counter() - begin}

    def case(self) -> Case:
        return Case(f"bar, {self.load:g} N, {self.pattern}, {self.element}", self.run)


def spread(rows: Sequence[Row]) -> float:
    """Returns the difference of the largest and the smallest modulus, relative to their mean [%]."""
    found = [row["young"] for row in rows]
    return 100.0 * (max(found) - min(found)) / float(np.mean(found)) if found else math.nan


def bar_claims(rows: Sequence[Row]) -> list[Claim]:
    own = [row for row in rows if row["element"] == "SmoothedTet"]
    return [
        Claim("spread of the moduli from all loads and meshes, SmoothedTet [%]", spread(own), at_most=ALLOWED_SPREAD)
    ]


BEAM_COLUMNS = (
    Column("element", "", 12),
    Column("pattern", "", 14),
    Column("nodes", "d", 6),
    Column("poisson", "g", 8, "nu"),
    Column(ERROR, "+.2f", 10),
    Column("steps", "d", 6),
    Column("seconds", ".0f", 8),
)
BAR_COLUMNS = (
    Column("element", "", 12),
    Column("pattern", "", 14),
    Column("nodes", "d", 6),
    Column("load", ".0f", 9, "load [N]"),
    Column("young", ".0f", 9, "E [Pa]"),
    Column(ERROR, "+.2f", 10),
    Column("seconds", ".0f", 8),
)


def beam_experiment() -> Experiment:
    """Young's modulus of the swinging beam, for every Poisson's ratio, mesh and element."""
    grid = itertools.product(ELEMENTS, PATTERNS, ALLOWED, BEAM_CELLS)
    cases = tuple(beam_case(poisson, cells, element, pattern) for element, pattern, poisson, cells in grid)
    title = "Young's modulus of a swinging beam from video, by element and mesh"
    return Experiment("modulus", title, BEAM_COLUMNS, cases, beam_claims)


def bar_experiment() -> Experiment:
    """Young's modulus of a hanging bar of silicone, from three loads on three meshes."""
    grid = itertools.product(ELEMENTS, BAR_MESHES, LOADS)
    cases = tuple(BarFit(load, pattern, element).case() for element, pattern, load in grid)
    title = f"Young's modulus of a hanging bar, {BAR_YOUNG:g} Pa, nu {BAR_POISSON:g}, from video"
    return Experiment("modulus-bar", title, BAR_COLUMNS, cases, bar_claims)
