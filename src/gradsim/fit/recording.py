"""A recording that has not been made yet: the observation of a scene with given noise.

The derivatives of an observation hardly depend on what is observed, so that a simulated one takes its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradsim.fit.corrections import with_nuisances
from gradsim.fit.linearization import linearize
from gradsim.fit.observations.base import Observation
from gradsim.fit.observations.masks import Masks
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.observations.points import Point
from gradsim.fit.observations.states import States
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.trials import Trial, make_trial_model
from gradsim.fit.uncertainty import Uncertainty, expected_uncertainty
from gradsim.scene.arguments import checked_whole
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import ContactWarning, InvalidInput, StabilityWarning, WrongType
from gradsim.scene.integrators import Integrator
from gradsim.scene.memory import check_memory
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.trajectory import Trajectory
from gradsim.scene.unknown import Unknown

IMAGE_NOISE = 0.01  # default standard deviation of a pixel or of a mask
TRACK_NOISE = 0.5  # default standard deviation of an image position [px]
PROBE = (1, 2, 2, 3)  # shape of the video from which the time steps are chosen

Observe = Any  # gs.Pixels | gs.Masks | points | paths of states | function of scene and trajectory


@dataclass(frozen=True, eq=False)
class Recording:
    """A planned recording of a scene; see `gs.identifiability` for the arguments."""

    scene: Scene
    frames: int
    fps: float | Unknown = 30.0
    size: tuple[int, int] = (64, 64)
    noise: Any = None
    observe: Observe = Pixels
    offset: float | Unknown = 0.0
    exposure: float | Unknown = 0.0
    roughly: Sequence[str] = ()
    substeps: int | None = None
    integrator: Integrator | None = None

    def problem(self) -> EstimationProblem:
        """Returns the problem of estimating the unknowns from this recording, at their guesses."""
        if not isinstance(self.scene, Scene):
            raise WrongType("scene", abbreviate(self.scene), "must be a gs.Scene")
        if checked_whole("frames", self.frames) < 2:
            raise InvalidInput("frames", self.frames, "motion requires at least two frames")
        self._check_memory()
        probe = Pixels(torch.zeros(self.frames, *PROBE[1:], dtype=torch.float64))
        trial = Trial(self.scene, probe, fps=self.fps, offset=self.offset, exposure=self.exposure)
        model = make_trial_model(trial, name="0", substeps=self.substeps, integrator=self.integrator)
        parameters = Parameters(model.scene, time_unknowns=[trial.time_unknowns])
        problem = EstimationProblem(parameters, (model,))
        return with_nuisances(self.observed(problem, parameters.initial()), self.roughly)

    def _check_memory(self) -> None:
        """Raises OutOfMemory if the images and their derivatives would not fit."""
        height, width = (
            checked_pixels("size", self.size) if self.observe is Pixels or self.observe is Masks else PROBE[1:3]
        )
        needed = 2.0 * 8.0 * 3.0 * self.frames * height * width
        value = f"{self.frames} frames of {height} x {width} pixels"
        check_memory("recording", value, needed, "give fewer frames or smaller ones (frames=, size=)")

    def observed(self, problem: EstimationProblem, z: torch.Tensor) -> EstimationProblem:
        """Returns the problem with the observations of the motion at coordinates z [P]."""
        trial = problem.trials[0]
        with torch.no_grad():
            values = problem.parameters.model_values(problem.parameters.values(z), 0)
            observations = _observations(self, *trial.simulate(values))
        return replace(problem, trials=(replace(trial, observations=observations),), noise={})

    def uncertainty(self, problem: EstimationProblem, z: torch.Tensor) -> Uncertainty:
        """Returns the expected uncertainty of an estimate if the true values are at coordinates z [P]."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StabilityWarning)  # raised once, at the guesses
            warnings.simplefilter("ignore", ContactWarning)
            observed = self.observed(problem, z)
            return expected_uncertainty(observed, linearize(observed, z, shifts=False))


def _observations(recording: Recording, scene: Scene, trajectory: Trajectory) -> tuple[Observation, ...]:
    """Returns what is observed of a motion, without noise but with its standard deviation."""
    observe, noise, size = recording.observe, recording.noise, recording.size
    shape = (len(trajectory), *size)
    if observe is Pixels or observe is Masks:
        if scene.camera is None:
            raise InvalidInput("scene.camera", None, "a video needs one: camera=gs.Camera(eye=..., target=...)")
        images = torch.zeros((*shape, 3) if observe is Pixels else shape, dtype=torch.float64)
        return (observe(images, noise=IMAGE_NOISE if noise is None else noise),)
    if isinstance(observe, (list, tuple)) and observe:
        if all(isinstance(item, Point) for item in observe):
            pixels = torch.zeros(len(trajectory), len(observe), 2, dtype=torch.float64)
            return (Tracks(observe, pixels, size, noise=TRACK_NOISE if noise is None else noise),)
        if all(isinstance(item, str) for item in observe):
            return (_states(observe, trajectory, noise),)
    if not isinstance(observe, type) and callable(observe):
        made = observe(scene, trajectory)
        return _checked(tuple(made) if isinstance(made, (list, tuple)) else (made,))
    remedy = "must be gs.Pixels, gs.Masks, a list of points, a list of states such as ['cube.position'], or a function"
    raise WrongType("observe", abbreviate(observe), remedy)


def _checked(observations: tuple[Any, ...]) -> tuple[Observation, ...]:
    """Raises unless these are observations with given noise."""
    for observation in observations:
        if not isinstance(observation, Observation):
            raise WrongType("observe", type(observation).__name__, "the function must return observations")
        if any(observation.group_noise(name) is None for name, _ in observation.groups()):
            raise InvalidInput("noise", None, f"{observation} needs its standard deviation: noise=...")
    return observations


def _states(paths: Sequence[str], trajectory: Trajectory, noise: Any) -> States:
    if noise is None:
        raise InvalidInput("noise", None, "states need the standard deviation of each: noise={'position': 0.001}")
    values = {}
    for path in paths:
        body, _, attribute = path.partition(".")
        motion = trajectory[body]
        if not attribute or not hasattr(motion, attribute):
            raise InvalidInput("observe", repr(path), f"the motion of {body!r} has no {attribute!r}")
        values[path] = getattr(motion, attribute)
    return States(values, noise=noise)
