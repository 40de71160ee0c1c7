"""Table 1 of the paper: the mass of an object that gets a known push, from a video of its flight.

The objects fly under the Moon's gravity, which keeps two seconds of flight within view. All of their motion but the
density is known. Videos come as exact frames, as PNG pictures, and as H.264 files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.experiments.objects import KINDS, painted, stretched, turned, volume
from gradsim.experiments.table import Case, Claim, Column, Experiment, Row, Told, errors, filmed, fitted, largest
from gradsim.scene.camera import Camera
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown
from gradsim.video.load import load_video
from gradsim.video.save import save_video

FRAMES, FPS, SIZE, SUBSTEPS = 60, 30.0, 128, 8
MOON = (0.0, -1.62, 0.0)  # [m/s^2]
RANGE = (2.0, 12.0)  # of true densities and of starts [kg/m^3]
LOW, HIGH = 1.0, 20.0  # bounds of the search
LARGE = 512  # [px], of the video that is reduced
ALLOWED = {"float": 5e-9, "png": 1e-5, "h264 128": 1e-2, "h264 512": 2e-3}
PAPER = "9.0e-5 from video, 5.2e-9 from 3D states (means of relative errors)"
COLUMNS = (
    Column("object", "", 9),
    Column("truth", ".3f", 7),
    Column("start", ".3f", 7),
    *(Column(source, ".1e", 9) for source in ALLOWED),
    Column("seconds", ".1f", 8),
)


def scene(kind: str, rng: np.random.Generator, density: Any, impulse_density: float) -> Scene:
    """An object that flies; its push gives it the same velocity whatever its mass, through `impulse_density`."""
    shape = stretched(kind, rng)
    momentum = impulse_density * volume(shape)
    body = Rigid(
        "body",
        shape,
        density=density,
        position=(rng.uniform(-1.4, -1.0), rng.uniform(-0.9, -0.5), rng.uniform(-0.3, 0.3)),
        rotation=turned(rng),
        velocity=(rng.uniform(-0.2, 0.2), rng.uniform(1.2, 1.6), 0.0),
        angular_velocity=rng.uniform(-1.0, 1.0, 3),
        pushes=[
            Push(
                impulse=momentum * np.array([rng.uniform(0.8, 1.3), rng.uniform(0.0, 0.4), rng.uniform(-0.3, 0.3)]),
                point=rng.uniform(-0.1, 0.1, 3),
            )
        ],
        look=painted(shape, rng),
    )
    camera = Camera(eye=(0.0, 0.0, 5.5), target=(0.0, 0.0, 0.0), fov=40.0)
    return Scene([body], gravity=MOON, camera=camera, background=(0.05, 0.08, 0.12))


def case(number: int, seed: int, sources: Sequence[str] = tuple(ALLOWED)) -> Case:
    """One object, from some kinds of videos."""
    kind = KINDS[number % len(KINDS)]

    def run(told: Told) -> Row:
        truth, start = np.random.default_rng([seed, number, 1]).uniform(*RANGE, 2)
        drawn = [seed, number, 0]
        true = scene(kind, np.random.default_rng(drawn), truth, truth)
        guess = scene(kind, np.random.default_rng(drawn), unknown(start, low=LOW, high=HIGH), truth)
        found = {}
        seconds = 0.0
        for source, video in _videos(true, sources).items():
            fit = fitted(guess, video, told, source, fps=FPS, substeps=SUBSTEPS, bootstrap=False)
            found[source] = errors(fit, {"body.density": truth})["body.density"]
            seconds = seconds or fit.seconds
        return {"object": kind, "truth": truth, "start": start, **found, "seconds": seconds}

    return Case(f"seed {seed}, object {number}", run)


def experiment(objects: int, seed: int) -> Experiment:
    """Errors of the density, hence of the mass, from four kinds of videos; seconds are those from exact frames."""

    def claims(rows: Sequence[Row]) -> list[Claim]:
        return [Claim(f"largest relative error, {name}", largest(rows, name), most) for name, most in ALLOWED.items()]

    cases = tuple(case(number, seed) for number in range(objects))
    return Experiment("mass", f"Mass of {objects} objects from video", COLUMNS, cases, claims, PAPER)


def _videos(true: Scene, sources: Sequence[str]) -> dict[str, Any]:
    exact, large = filmed(true, Time(FRAMES, FPS, SUBSTEPS), SIZE, LARGE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, Any] = {"float": exact}
        if "png" in sources:
            save_video(folder / "png", exact)
            found["png"] = load_video(folder / "png", fps=FPS)
        if "h264 128" in sources:
            save_video(folder / "small.mp4", exact, FPS, quality=18)
            found["h264 128"] = load_video(folder / "small.mp4")
        if "h264 512" in sources:
            save_video(folder / "large.mp4", large, FPS, quality=18)
            found["h264 512"] = load_video(folder / "large.mp4", size=(SIZE, SIZE))
    return {source: found[source] for source in sources}
