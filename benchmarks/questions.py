"""Questions of the benchmark of whole estimates: what is observed, what is asked, and how long an answer may take.

Recordings are made with another integrator or a finer step than the fit uses, with noise, or are real.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradsim as gs
from gradsim.datasets.deformable import beam, cloth
from gradsim.datasets.objects import KINDS
from gradsim.datasets.recording import soft_ground
from gradsim.experiments import arm, contact, demo, footage, pendula, tosses

NOISE = 0.01  # of pixels, relative to white
TOSSES = 16


@dataclass(frozen=True)
class Asked:
    """What a question asks, ready to be estimated."""

    estimate: Callable[[], gs.Fit]
    truth: Mapping[str, Any]  # by path; empty for real recordings without a known value
    scene: gs.Scene | None = None  # with unknowns, for peers
    video: torch.Tensor | None = None
    time: tuple[float, int] = (30.0, 64)  # frames per second, substeps of a peer


@dataclass(frozen=True)
class Question:
    """A question, and the seconds that its answer may take."""

    ask: Callable[[Path | None], Asked]
    max_seconds: float | None = None
    needs_data: bool = False  # real recordings
    has_peers: bool = False


def _record(scene: gs.Scene, frames: int, fps: float, substeps: int, side: int) -> torch.Tensor:
    """Returns a video with noise, simulated by another integrator than that of the fit."""
    with torch.no_grad(), soft_ground():
        motion = gs.simulate(scene, frames=frames, fps=fps, substeps=substeps, integrator=gs.RungeKutta4())
        video = gs.render(scene, motion, size=(side, side))
    generator = torch.Generator().manual_seed(0)
    return video + NOISE * torch.randn(video.shape, generator=generator, dtype=video.dtype)


def _pixels(guess: gs.Scene, truth: Mapping[str, Any], frames: int, fine: int, side: int, peer: int = 64) -> Asked:
    """Asks for the unknowns of a scene from a noisy video of the scene with the true values."""
    video = _record(guess.with_values(truth), frames, 30.0, fine, side)
    return Asked(lambda: gs.estimate(guess, video, fps=30.0), truth, guess, video, (30.0, peer))


def bouncing_cube(_: Path | None) -> Asked:
    return _pixels(demo.guessed_scene(), demo.hidden_values(0), demo.TIME.frames, demo.RECORDED_SUBSTEPS, 128)


def compressed_cube(_: Path | None) -> Asked:
    truth = demo.hidden_values(0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cube.mp4"
        demo.record_demo(file, truth)
        video = gs.load_video(file, size=demo.COMPARED_SIZE)
    return Asked(lambda: gs.estimate(demo.guessed_scene(), video), truth)


def five_contact_parameters(_: Path | None) -> Asked:
    random = np.random.default_rng([0, 0, 1])
    truth = {path: random.uniform(*ends) for path, ends in contact.RANGES.items()}
    start = {p: gs.unknown(random.uniform(*ends), low=ends[0], high=ends[1]) for p, ends in contact.RANGES.items()}
    guess = contact.scene(KINDS[0], np.random.default_rng([0, 0, 0]), start)
    return _pixels(guess, truth, contact.FRAMES, 2 * contact.SUBSTEPS, contact.SIZE, contact.SUBSTEPS)


def hanging_beam(_: Path | None) -> Asked:
    start: dict[str, Any] = {
        name: gs.unknown(value, low=200.0, high=4000.0) for name, value in (("mu", 1400.0), ("lam", 600.0))
    }
    return _pixels(beam(**start), {"beam.material.mu": 1000.0, "beam.material.lam": 1000.0}, 30, 192, 64)


def flying_cloth(_: Path | None) -> Asked:
    guess = cloth(velocity=gs.unknown((0.8, 1.6, -0.8), low=-6.0, high=6.0))
    return _pixels(guess, {"cloth.velocity": torch.tensor((1.3, 2.6, -0.6), dtype=torch.float64)}, 24, 128, 64)


def pendulum(_: Path | None) -> Asked:
    return _pixels(pendula.single(gs.unknown(1.4, low=0.3, high=2.0)), {"pendulum.length": 1.0}, 60, 64, 64, 16)


def thrown_ball(_: Path | None) -> Asked:
    """Four tracks of a thrown ball, from its closed form."""
    times, g = np.arange(30) / 60.0, 9.81
    trials = []
    for k in range(4):
        random = np.random.default_rng(k)
        velocity = random.uniform((1.0, 3.0, -0.5), (2.0, 5.0, 0.5))
        path = times[:, None] * velocity - 0.5 * g * times[:, None] ** 2 * (0.0, 1.0, 0.0)
        points = torch.as_tensor(path + 0.002 * random.standard_normal(path.shape))[:, None]
        ball = gs.Ball(
            "ball", radius=0.05, mass=0.1, velocity=gs.unknown((1.5, 4.0, 0.0), low=-9.0, high=9.0, per_trial=True)
        )
        scene = gs.Scene([ball], gravity=(0.0, gs.unknown(-9.0, low=-20.0, high=-3.0), 0.0))
        trials.append(
            gs.Trial(scene, gs.Tracks([gs.Center("ball")], positions=points, noise=0.002), fps=60.0, name=str(k))
        )
    return Asked(lambda: gs.estimate(trials), {"scene.gravity[1]": -g})


def arm_from_telemetry(_: Path | None) -> Asked:
    measured = gs.States({"arm.angles": torch.as_tensor(arm.telemetry())}, noise=arm.NOISE)
    guess = arm.arm(arm.guesses(tuple(arm.TRUTH)), arm.FRAMES, arm.RATE)
    return Asked(lambda: gs.estimate(guess, measured, fps=arm.RATE), arm.TRUTH)


def arm_from_video(_: Path | None) -> Asked:
    images = arm.video()[..., :3]
    guess = arm.arm(arm.guesses(arm.VIDEO_UNKNOWNS), arm.VIDEO_FRAMES, arm.RATE)
    truth = {path: arm.TRUTH[path] for path in arm.VIDEO_UNKNOWNS}
    return Asked(lambda: gs.estimate(guess, images, fps=arm.RATE), truth)


def tossed_cubes(data: Path | None) -> Asked:
    assert data is not None
    trials = [tosses.trial(recording) for recording in tosses.load_tosses(data)[:TOSSES]]
    return Asked(lambda: gs.estimate(trials, substeps=tosses.SUBSTEPS, corrections=0), {})


def real_ball(name: str) -> Callable[[Path | None], Asked]:
    """Returns the question what gravity is, asked of a video and one known length."""

    def ask(data: Path | None) -> Asked:
        assert data is not None
        facts = footage.known_facts(data)[name]
        known = footage.real_choices(facts)

        def answer() -> gs.Fit:
            return gs.estimate(gs.prepare(data / name, scale=known.scale, diameter=known.diameter))

        return Asked(answer, {"scene.gravity[1]": -facts["gravity"]})

    return ask


QUESTIONS: dict[str, Question] = {
    "bouncing cube, 3 unknowns, noisy 128 px": Question(bouncing_cube, 5.0, has_peers=True),
    "the same from H.264": Question(compressed_cube, 10.0),
    "five contact parameters, noisy 128 px": Question(five_contact_parameters, 8.0, has_peers=True),
    "Lamé parameters of a beam, noisy 64 px": Question(hanging_beam, 8.0, has_peers=True),
    "velocity of a cloth, noisy 64 px": Question(flying_cloth),
    "length of a pendulum, noisy 64 px": Question(pendulum),
    "gravity from four tracks of a ball": Question(thrown_ball),
    "seven parameters of an arm, telemetry": Question(arm_from_telemetry),
    "three parameters of an arm, noisy 64 px": Question(arm_from_video),
    "friction of a cube, 16 real tosses": Question(tossed_cubes, 10.0, needs_data=True),
    "real video of a toss": Question(real_ball("ball_toss.mp4"), 30.0, True),
    "real video of a bounce": Question(real_ball("ball_bounce.mp4"), 30.0, True),
}
