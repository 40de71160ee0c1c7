"""Coverage of 95 % intervals: mass and friction of a box that bounces and slides.

Each video has its own values, motion and noise. Searches start 20 % off the truth, because this experiment tests the
intervals and not the search.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.datasets.objects import extent_below_origin, random_look, random_rotation
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.protocol import fit_video, record_video
from gradsim.fit.result import Fit
from gradsim.scene.camera import Camera
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown
from gradsim.video.load import load_video
from gradsim.video.save import save_video

FRAMES, FPS, SIZE, SUBSTEPS = 30, 30.0, 64, 32
NOISE = 0.01  # standard deviation of a pixel
START_ERROR = 0.2  # relative
MASSES, FRICTIONS = (2.0, 6.0), (0.15, 0.4)  # ranges of true values [kg], [1]
BOUNDS = {"mass": (0.5, 20.0), "mu": (0.05, 1.0)}
NOISY, COMPRESSED = "noisy", "h264"
COVERAGE_BOUNDS = {NOISY: (0.90, 0.98), COMPRESSED: (0.80, None)}  # fraction of intervals that contain the truth
MIN_VIDEOS = 100  # needed before the upper bound on coverage is tested
QUANTITIES = {"mass": "box.mass", "mu": "ground.mu"}
COLUMNS = (
    Column("video", "", 10),
    *(
        column
        for name in QUANTITIES
        for column in (
            Column(name, ".4f", 8),
            Column(f"{name} error", "+.1e", 9, "error"),
            Column(f"{name} half width", ".1e", 10, "half width"),
            Column(f"{name} inside", "", 7, "inside"),
        )
    ),
    Column("status", "", 16),
    Column("seconds", ".1f", 8),
)


def scene(rng: np.random.Generator, mass: Any, mu: Any) -> Scene:
    """Returns a scene with a box that drops from a small height, bounces, and slides to rest."""
    shape = box((0.8, 0.5, 0.6))
    rotation = random_rotation(rng)
    x = rng.uniform(-1.2, -0.8)
    height = extent_below_origin(shape, rotation) + rng.uniform(0.05, 0.3)
    body = Rigid(
        "box",
        shape,
        mass=mass,
        position=(x, height, rng.uniform(-0.3, 0.3)),
        rotation=rotation,
        velocity=(rng.uniform(0.8, 1.2), 0.0, rng.uniform(-0.2, 0.2)),
        angular_velocity=rng.uniform(-1.0, 1.0, 3),
        pushes=[Push(impulse=(rng.uniform(4.0, 6.0), 0.0, rng.uniform(-1.0, 1.0)))],
        look=random_look(shape, rng),
    )
    ground = Ground(ke=400.0, kd=20.0, kf=100.0, mu=mu, delta=0.02)
    camera = Camera(eye=(0.3, 1.8, 4.5), target=(0.3, 0.2, 0.0), fov=40.0)
    return Scene([body], ground=ground, camera=camera, background=(0.05, 0.08, 0.12))


def case(kind: str, number: int, seed: int) -> Case:
    """Returns the case of one video, with Gaussian noise or compressed with H.264."""

    def run(progress: Progress) -> Row:
        key = [seed, number, kind == COMPRESSED]
        rng = np.random.default_rng([*key, 1])
        truth = {"mass": rng.uniform(*MASSES), "mu": rng.uniform(*FRICTIONS)}
        start = {
            name: unknown(value * (1 + START_ERROR * rng.choice((-1, 1))), low=BOUNDS[name][0], high=BOUNDS[name][1])
            for name, value in truth.items()
        }
        true = scene(np.random.default_rng([*key, 0]), **truth)
        (exact,) = record_video(true, Time(FRAMES, FPS, SUBSTEPS), SIZE)
        if kind == NOISY:
            video: Any = exact + NOISE * torch.tensor(rng.normal(size=tuple(exact.shape)))
        else:
            with tempfile.TemporaryDirectory() as folder:
                save_video(Path(folder) / "video.mp4", exact, FPS, quality=18)
                video = load_video(Path(folder) / "video.mp4")
        guess = scene(np.random.default_rng([*key, 0]), **start)
        fit = fit_video(guess, video, progress, fps=FPS, substeps=SUBSTEPS, seed=number)
        return {"video": f"{number} {kind}", **_row(fit, truth), "status": fit.status, "seconds": fit.seconds}

    return Case(f"seed {seed}, {kind} {number}", run)


def _row(fit: Fit, truth: dict[str, float]) -> Row:
    row: Row = {}
    for name, path in QUANTITIES.items():
        low, high = (float(side) for side in fit.intervals[path])
        row[name] = truth[name]
        row[f"{name} error"] = float(fit.values[path]) - truth[name]
        row[f"{name} half width"] = (high - low) / 2
        row[f"{name} inside"] = "yes" if low <= truth[name] <= high else "no"
    return row


def experiment(noisy: int, compressed: int, seed: int) -> Experiment:
    """Intervals from residuals for noisy videos, and from the bootstrap for compressed ones."""

    def claims(rows: Sequence[Row]) -> list[Claim]:
        results = []
        for kind, (low, high) in COVERAGE_BOUNDS.items():
            selected = [row for row in rows if row["video"].endswith(kind)]
            at_most = high if len(selected) >= MIN_VIDEOS else None
            for name in QUANTITIES if selected else ():
                fraction = sum(row[f"{name} inside"] == "yes" for row in selected) / len(selected)
                results.append(Claim(f"coverage of {name}, {len(selected)} {kind} videos", fraction, at_most, low))
        return results

    cases = [case(kind, n, seed) for kind, count in ((NOISY, noisy), (COMPRESSED, compressed)) for n in range(count)]
    return Experiment("coverage", "Coverage of 95 % intervals", COLUMNS, tuple(cases), claims)
