"""How often a 95 % interval contains the truth: mass and friction of a box that bounces and slides.

Each video has values, a motion and noise of its own. Searches start 20 % off, for this asks what the intervals are
worth, not whether the answer is found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.experiments.objects import depth, painted, turned
from gradsim.experiments.table import Case, Claim, Column, Experiment, Row, Told, filmed, fitted
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
OFF = 0.2  # of the start, relative
MASSES, FRICTIONS = (2.0, 6.0), (0.15, 0.4)  # true values [kg], [1]
BOUNDS = {"mass": (0.5, 20.0), "mu": (0.05, 1.0)}
NOISY, COMPRESSED = "noisy", "h264"
BARS = {NOISY: (0.90, 0.98), COMPRESSED: (0.80, None)}  # least and largest share of intervals that contain the truth
ENOUGH = 100  # videos, for a share that is too large to mean something
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
    """A box that falls a little, bounces, and slides over the ground to rest."""
    shape = box((0.8, 0.5, 0.6))
    rotation = turned(rng)
    body = Rigid(
        "box",
        shape,
        mass=mass,
        position=(rng.uniform(-1.2, -0.8), depth(shape, rotation) + rng.uniform(0.05, 0.3), rng.uniform(-0.3, 0.3)),
        rotation=rotation,
        velocity=(rng.uniform(0.8, 1.2), 0.0, rng.uniform(-0.2, 0.2)),
        angular_velocity=rng.uniform(-1.0, 1.0, 3),
        pushes=[Push(impulse=(rng.uniform(4.0, 6.0), 0.0, rng.uniform(-1.0, 1.0)))],
        look=painted(shape, rng),
    )
    ground = Ground(ke=400.0, kd=20.0, kf=100.0, mu=mu, delta=0.02)
    camera = Camera(eye=(0.3, 1.8, 4.5), target=(0.3, 0.2, 0.0), fov=40.0)
    return Scene([body], ground=ground, camera=camera, background=(0.05, 0.08, 0.12))


def case(kind: str, number: int, seed: int) -> Case:
    def run(told: Told) -> Row:
        key = [seed, number, kind == COMPRESSED]
        rng = np.random.default_rng([*key, 1])
        truth = {"mass": rng.uniform(*MASSES), "mu": rng.uniform(*FRICTIONS)}
        start = {
            name: unknown(value * (1 + OFF * rng.choice((-1, 1))), low=BOUNDS[name][0], high=BOUNDS[name][1])
            for name, value in truth.items()
        }
        true = scene(np.random.default_rng([*key, 0]), **truth)
        (exact,) = filmed(true, Time(FRAMES, FPS, SUBSTEPS), SIZE)
        if kind == NOISY:
            video: Any = exact + NOISE * torch.tensor(rng.normal(size=tuple(exact.shape)))
        else:
            with tempfile.TemporaryDirectory() as folder:
                save_video(Path(folder) / "video.mp4", exact, FPS, quality=18)
                video = load_video(Path(folder) / "video.mp4")
        guess = scene(np.random.default_rng([*key, 0]), **start)
        fit = fitted(guess, video, told, fps=FPS, substeps=SUBSTEPS, seed=number)
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
        found = []
        for kind, (least, most) in BARS.items():
            chosen = [row for row in rows if row["video"].endswith(kind)]
            limit = most if len(chosen) >= ENOUGH else None
            for name in QUANTITIES if chosen else ():
                share = sum(row[f"{name} inside"] == "yes" for row in chosen) / len(chosen)
                found.append(Claim(f"coverage of {name}, {len(chosen)} {kind} videos", share, limit, least))
        return found

    cases = [case(kind, n, seed) for kind, count in ((NOISY, noisy), (COMPRESSED, compressed)) for n in range(count)]
    return Experiment("coverage", "How often 95 % intervals contain the truth", COLUMNS, tuple(cases), claims)
