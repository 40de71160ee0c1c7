"""Masses, restitution and friction of bodies that touch, from videos that this simulator made and from others.

A ball flies into another one, and a box slides on a plank. The motion is simulated, or computed from the closed form of
a rigid impact and of Coulomb's law, which know nothing of the compliance of contact; images are those of the fit's
renderer, or path traced, with shadows and light that is reflected between bodies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row, largest
from gradsim.experiments.protocol import fit_video, relative_errors
from gradsim.fit.identifiability import identifiability
from gradsim.fit.result import Fit
from gradsim.fit.simulation import simulate_over
from gradsim.render.exact import Exact
from gradsim.render.mitsuba import Mitsuba
from gradsim.render.render import render
from gradsim.render.renderer import Renderer
from gradsim.scene import surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.camera import Camera
from gradsim.scene.friction import Sticking
from gradsim.scene.looks import Look
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.motion import Motion
from gradsim.scene.quantity import Signal
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown

ALLOWED = 1e-6  # relative error from the simulator's own videos
OWN, CLOSED_FORM, PATH_TRACED = "own video", "closed form", "path traced"
SOURCES = (OWN, CLOSED_FORM, PATH_TRACED)
G = 9.81  # [m/s^2]
Paths = Sequence[np.ndarray]  # displacements of two bodies [m], [T, 3] each


@dataclass(frozen=True)
class Subject:
    """Two bodies that touch, and what is unknown of them."""

    name: str
    scene: Callable[..., Scene]  # of the unknowns by keyword
    moved: Callable[[Paths], Scene]  # the same bodies with prescribed displacements
    paths: Callable[[np.ndarray], Paths]  # closed form at times [s], [T]
    truth: dict[str, float]  # by path
    unknowns: dict[str, tuple[float, float, float]]  # guess and bounds by keyword, in the order of `truth`
    time: Time
    size: tuple[int, int] = (48, 64)  # of the images [px]

    def video(self, source: str) -> torch.Tensor:
        """Returns the video [T, H, W, 3] of a source."""
        if source == OWN:
            scene = self.scene(*self.truth.values())
        else:
            scene = self.moved(self.paths(np.arange(self.time.frames) / self.time.fps))
        renderer: Renderer = Mitsuba() if source == PATH_TRACED else Exact()
        return render(scene, simulate_over(scene, self.time), self.size, renderer=renderer)

    def fit(self, video: torch.Tensor, progress: Progress) -> Fit:
        """Estimates the unknowns. Errors of the scene are named, not corrected."""
        guesses = [unknown(guess, low=low, high=high) for guess, low, high in self.unknowns.values()]
        steps = {"fps": self.time.fps, "substeps": self.time.substeps}
        return fit_video(self.scene(*guesses), video, progress, corrections=0, **steps)

    def row(self, source: str, progress: Progress) -> Row:
        """Returns the row of a source."""
        fit = self.fit(self.video(source), progress)
        errors, widths = relative_errors(fit, self.truth), half_widths(fit, self.truth)
        worst = max(errors[path] / widths[path] for path in self.truth)
        return {
            "scene": self.name,
            "video": source,
            "unknowns": ", ".join(path.rsplit(".", 1)[-1] for path in self.truth),
            "errors": ", ".join(f"{errors[path]:.1e}" for path in self.truth),
            "half widths": ", ".join(f"{widths[path]:.1e}" for path in self.truth),
            "error": max(errors.values()),
            "worst": worst,
            "certain": fit.certain,
            "status": fit.status,
            "cause": fit.misfit.causes[0].path if fit.misfit.causes else "",
            "seconds": fit.seconds,
        }


def half_widths(fit: Fit, truth: dict[str, float]) -> dict[str, float]:
    """Returns half of the length of each interval, relative to the true value, by path."""
    return {path: float(fit.intervals[path][1] - fit.intervals[path][0]) / 2 / abs(truth[path]) for path in truth}


# --- colliding balls -------------------------------------------------------------------------------------------------

RADII, LEFT_MASS = (0.1, 0.12), 0.5  # [m], [kg]
BALLS = {"right.mass": 0.3, "pairs.left-right.restitution": 0.7}
FAST, OFFSET, START = 1.5, 0.06, -0.4  # speed [m/s], distance from the line of centres [m], place of the left ball [m]
STIFFNESS, DEPTH = 1e7, 1e-5  # [N/m], [m]; an impact takes 0.4 ms


def _balls(left: dict[str, Any], right: dict[str, Any], pairs: Any) -> Scene:
    looks = [Look(color=color) for color in ((0.8, 0.3, 0.2), (0.2, 0.4, 0.8))]
    camera = Camera(eye=(0.2, 2.5, 0.01), target=(0.2, 0.0, 0.0), fov=40)
    first = Ball("left", radius=RADII[0], position=(START, 0.0, OFFSET), look=looks[0], **left)
    second = Ball("right", radius=RADII[1], look=looks[1], **right)
    return Scene([first, second], gravity=(0.0, 0.0, 0.0), camera=camera, pairs=pairs)


def collision(mass: Any, restitution: Any, left_mass: Any = LEFT_MASS) -> Scene:
    """Returns a ball that flies into another one, off centre, seen from above."""
    contact = Contact(ke=STIFFNESS, delta=DEPTH, mu=0.0, restitution=restitution)
    thrown = {"mass": left_mass, "velocity": (FAST, 0.0, 0.0)}
    return _balls(thrown, {"mass": mass}, {"left-right": contact})


def _moved_balls(paths: Paths) -> Scene:
    left, right = ({"mass": 1.0, "motion": Motion(displacement=Signal(path))} for path in paths)
    return _balls(left, right, False)


def impact_paths(times: np.ndarray) -> Paths:
    """Returns the displacements of balls of which the first hits the second: an impulse at an instant."""
    mass, restitution = BALLS.values()
    along = math.sqrt(sum(RADII) ** 2 - OFFSET**2)
    normal = np.array([-along, 0.0, OFFSET]) / sum(RADII)  # from the right ball to the left one
    velocity = np.array([FAST, 0.0, 0.0])
    reduced = LEFT_MASS * mass / (LEFT_MASS + mass)
    impulse = -(1.0 + restitution) * reduced * (velocity @ normal) * normal
    hit = (-START - along) / FAST
    before, after = np.minimum(times, hit)[:, None], np.maximum(times - hit, 0.0)[:, None]
    return before * velocity + after * (velocity + impulse / LEFT_MASS), -after * impulse / mass


# --- sliding boxes ---------------------------------------------------------------------------------------------------

FRICTION = {"pairs.box-plank.mu": 0.35}
MASSES, PLANK, THROWN = (1.0, 2.0), 0.06, 1.2  # of box and plank [kg], thickness [m], speed of the box [m/s]


def _boxes(box: dict[str, Any], plank: dict[str, Any], pairs: Any) -> Scene:
    looks = [Look(color=color) for color in ((0.8, 0.4, 0.2), (0.3, 0.5, 0.7))]
    smooth = {"ground": Contact(ke=2e5, kd=150.0, mu=0.0, delta=5e-5)}
    camera = Camera(eye=(0.25, 0.9, 1.6), target=(0.25, 0.05, 0.0), fov=38)
    top = Rigid(
        "box",
        surfaces.box((0.16, 0.1, 0.16)),
        mass=MASSES[0],
        position=(0.0, PLANK + 0.049865, 0.0),
        look=looks[0],
        contact=smooth,
        **box,
    )
    low = Rigid(
        "plank",
        surfaces.box((0.8, PLANK, 0.3)),
        mass=MASSES[1],
        position=(0.2, PLANK / 2 - 6e-5, 0.0),
        look=looks[1],
        contact=smooth,
        **plank,
    )
    return Scene([top, low], Ground(mu=0.0), gravity=(0.0, -G, 0.0), camera=camera, pairs=pairs)


def sliding(mu: Any) -> Scene:
    """Returns a box that is thrown on a plank, which moves freely on smooth ground, until both move equally."""
    contact = Contact(ke=2e5, kd=250.0, mu=mu, delta=5e-5, friction=Sticking())
    return _boxes({"velocity": (THROWN, 0.0, 0.0)}, {}, {"box-plank": contact})


def _moved_boxes(paths: Paths) -> Scene:
    box, plank = ({"motion": Motion(displacement=Signal(path))} for path in paths)
    return _boxes(box, plank, False)


def coulomb_paths(times: np.ndarray) -> Paths:
    """Returns the displacements of box and plank by Coulomb's law: uniform accelerations until both speeds agree."""
    (mu,) = FRICTION.values()
    ratio = MASSES[0] / MASSES[1]
    end = THROWN / (mu * G * (1 + ratio))  # of sliding [s]
    slid, later = np.minimum(times, end), np.maximum(times - end, 0.0)
    common, zero = THROWN - mu * G * end, 0.0 * times
    slides = THROWN * slid - mu * G * slid**2 / 2, mu * G * ratio * slid**2 / 2
    box, plank = (np.stack([path + common * later, zero, zero], -1) for path in slides)
    return box, plank


SUBJECTS = (
    Subject(
        "colliding balls",
        collision,
        _moved_balls,
        impact_paths,
        BALLS,
        {"mass": (0.5, 0.05, 3.0), "restitution": (0.5, 0.2, 1.0)},
        Time(14, 20.0, 2000),
    ),
    Subject(
        "sliding boxes",
        sliding,
        _moved_boxes,
        coulomb_paths,
        FRICTION,
        {"mu": (0.2, 0.05, 1.0)},
        Time(12, 20.0, 250),
    ),
)


# --- what a collision determines -------------------------------------------------------------------------------------


def ratio_row(progress: Progress) -> Row:
    """Returns the verdict on two unknown masses that collide, with contact that is known roughly."""
    progress("identifiability")
    masses = (unknown(value, low=0.05, high=3.0) for value in (BALLS["right.mass"], LEFT_MASS))
    mass, left_mass = masses
    scene = collision(mass, unknown(BALLS["pairs.left-right.restitution"], low=0.2, high=1.0), left_mass)
    time = SUBJECTS[0].time
    plan = identifiability(
        scene,
        frames=time.frames,
        fps=time.fps,
        size=SUBJECTS[0].size,
        roughly=["contact"],
        samples=1,
        substeps=time.substeps,
    )
    text = "; ".join(plan.undetermined_directions)
    named = "left.mass / right.mass" in text or "right.mass / left.mass" in text
    return {"scene": "two unknown masses", "video": "none", "status": text, "ratio": float(named)}


COLUMNS = (
    Column("scene", "", 18),
    Column("video", "", 12),
    Column("unknowns", "", 18),
    Column("errors", "", 18),
    Column("half widths", "", 18),
    Column("worst", ".2f", 6),
    Column("seconds", ".1f", 8),
    Column("status", "", 26),
    Column("cause", "", 20),
)


def cases(sources: Sequence[str] = SOURCES) -> tuple[Case, ...]:
    """Returns a case for each subject and source, and the verdict on two masses."""
    found = [
        Case(f"{subject.name}, {source}", lambda progress, s=subject, video=source: s.row(video, progress))  # type: ignore[misc]
        for subject in SUBJECTS
        for source in sources
    ]
    return (*found, Case("two unknown masses", ratio_row))


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Returns the claims about rows: accuracy from own videos, and intervals that contain the truth."""
    fits = [row for row in rows if "worst" in row]
    own = [row for row in fits if row["video"] == OWN]
    others = [row for row in fits if row["video"] != OWN]
    found = [Claim("largest relative error from own videos", largest(own, "error"), at_most=ALLOWED)] if own else []
    if others:
        name = "largest error from other videos, in half widths of its interval"
        found.append(Claim(name, largest(others, "worst"), at_most=1.0))
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    return [*found, *(Claim("verdicts that name the ratio of the masses", value, at_least=1.0) for value in ratios)]


def experiment() -> Experiment:
    """Two balls that collide and two boxes that slide, in images of 48 x 64 pixels without noise."""
    return Experiment("touching", "Bodies that touch, from video", COLUMNS, cases(), claims)
