"""The prediction of a trial's observations from values of its unknowns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from gradsim.fit.nuisances.nuisance import Nuisance, adjustment, apply
from gradsim.fit.observations.base import Observation
from gradsim.fit.observations.images import ImageObservation
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.simulation import simulate_over
from gradsim.scene.quantity import unknowns_in
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory
from gradsim.scene.unknown import Unknown
from gradsim.video.video import Video

MOTION_QUANTITIES = (
    *("position", "velocity", "rotation", "angular_velocity", "mass", "density", "pushes"),
    *("contact", "material", "bending", "fibres", "rayleigh"),
)  # of bodies, on which images depend only by the motion
EXPOSURE_SAMPLES = 4  # images that are averaged over an exposure
READOUTS = 4  # images of a frame with a rolling shutter, from the time of its first row to that of its last
OFFSET, RATE = "video.offset", "video.fps"  # paths of unknown times
EXPOSURE, READOUT = "video.exposure", "video.readout"
NUISANCE_OFFSET, NUISANCE_RATE, NUISANCE_EXPOSURE = "offset", "fps", "exposure"  # `Nuisance.time`


def delay_path(number: int) -> str:
    """Path of the unknown time offset of one observation of a trial."""
    return f"observations[{number}].offset"


@dataclass(frozen=True, eq=False)
class Sampling:
    """Times at which the motion of a trial was observed."""

    fps: float  # rate of the simulated frames [1/s]
    count: int  # observed frames T
    times: torch.Tensor | None = None  # of the frames [s], [T]; None for i / fps
    offset: float = 0.0  # [s]
    exposure: float = 0.0  # [s]
    unknown: frozenset[str] = frozenset()  # paths of estimated times, from `OFFSET` to `READOUT`, or `delay_path`
    delay: float = 0.0  # largest time by which unknown times and offsets of observations delay a frame [s]
    stretch: float = 1.0  # largest factor of the times of the frames, for an unknown rate
    readout: float = 0.0  # time from the first to the last row of a frame [s]

    @property
    def regular(self) -> bool:
        """Whether observations without an offset of their own see the simulated frames, whatever the unknowns are."""
        return self.times is None and not (self.offset or self.exposure or self.unknown or self.readout)

    @property
    def has_readout(self) -> bool:
        """Whether rows of a frame have times of their own."""
        return bool(self.readout) or READOUT in self.unknown

    @property
    def grid_frames(self) -> int:
        """Number of frames to simulate, which reach beyond the last observation."""
        return self.frames_until(self.count)

    def frames_until(self, count: int) -> int:
        """Number of frames to simulate for the first `count` observed ones."""
        if self.regular and not self.delay:
            return count
        last = (count - 1) / self.fps if self.times is None else float(self.times[count - 1])
        end = self.stretch * last + max(self.offset + self.delay, 0.0) + self.exposure + self.readout
        return max(2, math.ceil(end * self.fps - 1e-9) + 2)

    def sample(
        self,
        trajectory: Trajectory,
        values: Mapping[str, torch.Tensor],
        count: int,
        extra: Mapping[str, Any],
        *,
        delay: float | torch.Tensor = 0.0,
        exposed: bool = True,
        rows: torch.Tensor | None = None,
    ) -> tuple[Trajectory, int]:
        """Returns the motion at the first `count` frames, and the number of samples over the exposure of each.

        Args:
            trajectory: Motion at the simulated frames.
            values: Values of the unknowns by path, [B].
            count: Observed frames.
            extra: Amounts of time nuisances: "offset" [frames], "fps" [%], "exposure" [frames], [B].
            delay: Further offset of one observation [s].
            exposed: Whether the motion is sampled over the exposure, for images; otherwise at the times of the frames.
            rows: Heights in the image, relative to its own, at whose times a frame is sampled, [R] or [T, R]; None for
                the time of the first row.
        """
        if self.regular and not extra and isinstance(delay, float) and delay == 0.0:
            return trajectory[:count] if len(trajectory) > count else trajectory, 1
        times = self._frame_times(values, count, extra, delay)
        if rows is not None:
            rows = rows[:count] if rows.ndim > 1 else rows
            readout = values.get(READOUT, torch.tensor(self.readout, dtype=torch.float64))
            times = (times[..., None] + readout[..., None, None] * rows).flatten(-2)
        exposure = self._exposure(values, extra) if exposed else None
        if exposure is not None:
            fractions = (torch.arange(EXPOSURE_SAMPLES, dtype=torch.float64) + 0.5) / EXPOSURE_SAMPLES
            times = (times[..., None] + exposure[..., None, None] * fractions).flatten(-2)
        if extra:  # nuisances have no bounds: their largest steps may leave the simulated frames
            grid, span = trajectory.time, 1.0 / self.fps
            times = times.clamp(float(grid[0]) - span, float(grid[-1]) + span)
        return trajectory.sample(times), 1 if exposure is None else EXPOSURE_SAMPLES

    def _frame_times(
        self, values: Mapping[str, torch.Tensor], count: int, extra: Mapping[str, Any], delay: float | torch.Tensor
    ) -> torch.Tensor:
        """Times of the first frames [s], [..., T']."""
        times = torch.arange(count, dtype=torch.float64) / self.fps if self.times is None else self.times[:count]
        if RATE in values:
            times = times * (self.fps / values[RATE])[..., None]
        if NUISANCE_RATE in extra:
            times = times / (1.0 + 0.01 * extra[NUISANCE_RATE])[..., None]
        offset = values.get(OFFSET, torch.tensor(self.offset, dtype=torch.float64)) + delay
        if NUISANCE_OFFSET in extra:
            offset = offset + extra[NUISANCE_OFFSET] / self.fps
        return times + offset[..., None]

    def _exposure(self, values: Mapping[str, torch.Tensor], extra: Mapping[str, Any]) -> torch.Tensor | None:
        """Time during which the shutter is open [s], [...]; None if all frames are instantaneous."""
        if not self.exposure and EXPOSURE not in values and NUISANCE_EXPOSURE not in extra:
            return None
        exposure = values.get(EXPOSURE, torch.tensor(self.exposure, dtype=torch.float64))
        if NUISANCE_EXPOSURE in extra:
            exposure = exposure + extra[NUISANCE_EXPOSURE].clamp_min(0.0) / self.fps
        return exposure


@dataclass(frozen=True, eq=False)
class TrialModel:
    """Predicts the observations of a trial.

    The nuisances are possible errors of the scene; see `gradsim.fit.nuisances`. Their amounts are among the values of
    the unknowns, or fixed.
    """

    name: str
    scene: Scene
    observations: tuple[Observation, ...]
    time: Time  # of the simulated frames
    sampling: Sampling
    videos: tuple[Video | None, ...] = ()  # loaded videos among the observations
    nuisances: tuple[Nuisance, ...] = ()
    fixed_amounts: Mapping[str, torch.Tensor] = field(default_factory=dict)  # [] by path

    @property
    def frames(self) -> int:
        """Observed frames."""
        return self.sampling.count

    @property
    def levels(self) -> int:
        return max(observation.levels for observation in self.observations)

    def fill(self, values: Mapping[str, torch.Tensor]) -> Scene:
        """Returns the scene with its unknowns replaced by values, by path; other paths are ignored."""
        known = self.scene.unknowns
        scene = self.scene.with_values({path: value for path, value in values.items() if path in known})
        return apply(scene, self.nuisances, self._amounts(values)) if self.nuisances else scene

    def fill_view(self, values: Mapping[str, torch.Tensor]) -> Scene:
        """Returns the scene with only those unknowns filled in on which observations depend beyond the motion.

        This is the scene itself unless the camera, a light, a look or a static shape is unknown.
        """
        paths = self._view_unknowns
        return self.scene.with_values({path: values[path] for path in paths}) if paths else self.scene

    @cached_property
    def _view_unknowns(self) -> tuple[str, ...]:
        """Paths of the unknowns with a place that does not act by the motion of bodies alone."""
        bodies = {body.name for body in self.scene.bodies}
        visible = set()
        for path, unknown, _ in self.scene.unknown_places():
            owner, _, name = path.partition(".")
            moving = owner in bodies and re.split(r"[.\[]", name)[0] in MOTION_QUANTITIES
            if not moving and not path.startswith("scene.gravity"):
                visible.add(id(unknown))
        return tuple(path for path, unknown in self.scene.unknowns.items() if id(unknown) in visible)

    @cached_property
    def motion_paths(self) -> tuple[str, ...]:
        """Paths of the unknowns and nuisances on which the simulated motion depends."""
        acting = {id(unknown) for path, value, _ in self.scene.quantities() for _, unknown in unknowns_in(path, value)}
        unknowns = [path for path, unknown in self.scene.unknowns.items() if id(unknown) in acting]
        varied = [n for n in self.nuisances if n.path not in self.fixed_amounts]
        return (*unknowns, *(n.path for n in varied if n.moves and n.time is None))

    def _amounts(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns the amounts of the nuisances among all values."""
        known = {**self.fixed_amounts, **values}
        return {nuisance.path: known[nuisance.path] for nuisance in self.nuisances if nuisance.path in known}

    def simulate(self, values: Mapping[str, torch.Tensor], frames: int | None = None) -> tuple[Scene, Trajectory]:
        """Returns the scene with values filled in and its motion at the times of the first frames; all if None."""
        scene = self.fill(values)
        return scene, self._sample(self.simulate_grid(scene, frames), values, frames, 0, exposed=False)[0]

    def simulate_grid(self, scene: Scene, frames: int | None = None) -> Trajectory:
        """Simulates a scene over the frames needed for the first observed ones."""
        return simulate_over(scene, self.grid(frames))

    def grid(self, frames: int | None = None) -> Time:
        """The simulated frames that the first observed ones need."""
        count = self.sampling.frames_until(self.frames if frames is None else min(frames, self.frames))
        extra = any(nuisance.time is not None for nuisance in self.nuisances)
        return Time(count + int(extra), self.time.fps, self.time.substeps, self.time.integrator)

    def observe(
        self, trajectory: Trajectory, values: Mapping[str, torch.Tensor], frames: int | None = None, number: int = 0
    ) -> tuple[Trajectory, int]:
        """Returns the motion at the frames of an observation and the number of samples in an exposure.

        Only images have an exposure; tracks and states are measured at the times of the frames.
        """
        exposed = isinstance(self.observations[number], ImageObservation)
        return self._sample(trajectory, values, frames, number, exposed=exposed, rows=self._rows(number))

    def _rows(self, number: int) -> torch.Tensor | None:
        """Rows of an observation with times of their own, relative to the height; None without a rolling shutter."""
        observation = self.observations[number]
        if not self.sampling.has_readout:
            return None
        if isinstance(observation, ImageObservation):
            return torch.linspace(0.0, 1.0, READOUTS, dtype=torch.float64)
        return observation.rows() if isinstance(observation, Tracks) else None

    def _sample(
        self,
        trajectory: Trajectory,
        values: Mapping[str, torch.Tensor],
        frames: int | None,
        number: int,
        *,
        exposed: bool,
        rows: torch.Tensor | None = None,
    ) -> tuple[Trajectory, int]:
        count = self.frames if frames is None else min(frames, self.frames)
        amounts = self._amounts(values)
        extra: dict[str, Any] = {n.time: amounts[n.path] for n in self.nuisances if n.time and n.path in amounts}
        known = {path: values[path] for path in self.sampling.unknown}
        offset: Any = self.observations[number].offset
        delay = values[delay_path(number)] if isinstance(offset, Unknown) else float(offset or 0.0)
        return self.sampling.sample(trajectory, known, count, extra, delay=delay, exposed=exposed, rows=rows)

    def difference(
        self, scene: Scene, trajectory: Trajectory, values: Mapping[str, torch.Tensor], number: int, level: int
    ) -> torch.Tensor:
        """Returns the plain differences of an observation, [..., T, N]; level 0 is the finest."""
        return self._compare("difference", scene, trajectory, values, number, level, None)

    def residual(
        self,
        scene: Scene,
        trajectory: Trajectory,
        values: Mapping[str, torch.Tensor],
        number: int,
        level: int,
        frames: int,
    ) -> torch.Tensor:
        """Returns the weighted residuals of an observation, [..., T', N], over the first frames; level 0 is finest."""
        return self._compare("residual", scene, trajectory, values, number, level, frames)

    def _compare(
        self, method: str, scene: Scene, trajectory: Trajectory, values: Any, number: int, level: int, frames: Any
    ) -> torch.Tensor:
        observation = self.observations[number]
        observed, samples = self.observe(trajectory, values, frames, number)
        depth = max(0, observation.levels - 1 - level)
        rows = self._rows(number)
        readouts = 1 if rows is None else rows.shape[-1]
        options: dict[str, Any] = {"samples": samples, "readouts": readouts} if samples * readouts > 1 else {}
        if isinstance(observation, Pixels) and (adjust := self.adjustment(values)) is not None:
            options["adjust"] = adjust
        compared: torch.Tensor = getattr(observation, method)(scene, observed, depth, **options)
        return compared

    def adjustment(self, values: Mapping[str, torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor] | None:
        """Returns the map of rendered colours given by the nuisances; None if there is none."""
        return adjustment(self.nuisances, self._amounts(values)) if self.nuisances else None
