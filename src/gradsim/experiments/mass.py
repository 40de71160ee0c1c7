"""Table 1 of the paper: the mass of an object that receives a known impulse, from a video of its flight.

The objects fly under lunar gravity, which keeps two seconds of flight in view. Only the density is unknown. Videos are
exact frames, PNG images, and H.264 files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.datasets.objects import KINDS, random_look, random_rotation, random_shape, volume
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row, largest
from gradsim.experiments.protocol import fit_video, record_video, relative_errors
from gradsim.scene.camera import Camera
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown
from gradsim.video.load import load_video
from gradsim.video.save import save_video

FRAMES, FPS, SIZE, SUBSTEPS = 60, 30.0, 128, 8
MOON = (0.0, -1.62, 0.0)  # [m/s^2]
RANGE = (2.0, 12.0)  # of true and initial densities [kg/m^3]
LOW, HIGH = 1.0, 20.0  # bounds of the search
LARGE = 512  # [px], size of the video that is downsampled
ALLOWED = {"float": 5e-9, "png": 1e-5, "h264 128": 1e-2, "h264 512": 2e-3}
PAPER = "9.0e-5 from video, 5.2e-9 from 3D states (mean relative errors)"
COLUMNS = (
    Column("object", "", 9),
    Column("truth", ".3f", 7),
    Column("start", ".3f", 7),
    *(Column(source, ".1e", 9) for source in ALLOWED),
    Column("seconds", ".1f", 8),
)


def scene(kind: str, rng: np.random.Generator, density: Any, impulse_density: float) -> Scene:
    """Returns a scene with an object in flight.

    The impulse scales with `impulse_density`, so that the change of velocity does not depend on the true density.
    """
    shape = random_shape(kind, rng)
    momentum = impulse_density * volume(shape)
    body = Rigid(
        "body",
        shape,
        density=density,
        position=(rng.uniform(-1.4, -1.0), rng.uniform(-0.9, -0.5), rng.uniform(-0.3, 0.3)),
        rotation=random_rotation(rng),
        velocity=(rng.uniform(-0.2, 0.2), rng.uniform(1.2, 1.6), 0.0),
        angular_velocity=rng.uniform(-1.0, 1.0, 3),
        pushes=[
            Push(
                impulse=momentum * np.array([rng.uniform(0.8, 1.3), rng.uniform(0.0, 0.4), rng.uniform(-0.3, 0.3)]),
                point=rng.uniform(-0.1, 0.1, 3),
            )
        ],
        look=random_look(shape, rng),
    )
    camera = Camera(eye=(0.0, 0.0, 5.5), target=(0.0, 0.0, 0.0), fov=40.0)
    return Scene([body], gravity=MOON, camera=camera, background=(0.05, 0.08, 0.12))


def case(number: int, seed: int, sources: Sequence[str] = tuple(ALLOWED)) -> Case:
    """Returns the case of one object, estimated from each of the given kinds of video."""
    kind = KINDS[number % len(KINDS)]

    def run(progress: Progress) -> Row:
        truth, start = np.random.default_rng([seed, number, 1]).uniform(*RANGE, 2)
        scene_seed = [seed, number, 0]
        true = scene(kind, np.random.default_rng(scene_seed), truth, truth)
        guess = scene(kind, np.random.default_rng(scene_seed), unknown(start, low=LOW, high=HIGH), truth)
        errors = {}
        seconds = 0.0
        for source, video in _videos(true, sources).items():
            fit = fit_video(guess, video, progress, source, fps=FPS, substeps=SUBSTEPS, bootstrap=False)
            errors[source] = relative_errors(fit, {"body.density": truth})["body.density"]
            seconds = seconds or fit.seconds
        return {"object": kind, "truth": truth, "start": start, **errors, "seconds": seconds}

    return Case(f"seed {seed}, object {number}", run)


def experiment(objects: int, seed: int) -> Experiment:
    """Relative errors of density, hence of mass, from four kinds of video; `seconds` is the fit to exact frames."""

    def claims(rows: Sequence[Row]) -> list[Claim]:
        return [Claim(f"largest relative error, {name}", largest(rows, name), most) for name, most in ALLOWED.items()]

    cases = tuple(case(number, seed) for number in range(objects))
    return Experiment("mass", f"Mass of {objects} objects from video", COLUMNS, cases, claims, PAPER)


def _videos(true: Scene, sources: Sequence[str]) -> dict[str, Any]:
    """Returns the videos of a scene by source."""
    exact, large = record_video(true, Time(FRAMES, FPS, SUBSTEPS), SIZE, LARGE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        videos: dict[str, Any] = {"float": exact}
        if "png" in sources:
            save_video(folder / "png", exact)
            videos["png"] = load_video(folder / "png", fps=FPS)
        if "h264 128" in sources:
            save_video(folder / "small.mp4", exact, FPS, quality=18)
            videos["h264 128"] = load_video(folder / "small.mp4")
        if "h264 512" in sources:
            save_video(folder / "large.mp4", large, FPS, quality=18)
            videos["h264 512"] = load_video(folder / "large.mp4", size=(SIZE, SIZE))
    return {source: videos[source] for source in sources}
