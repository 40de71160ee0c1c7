"""Trials of scenes with the same structure, simulated as one batch of worlds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from gradsim.cache import signature_key
from gradsim.fit.simulation import simulate_over
from gradsim.fit.trial_model import TrialModel
from gradsim.scene.articulated_motion import ArticulatedMotion
from gradsim.scene.components import Components, index_text
from gradsim.scene.quantity import bare, is_unknown, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import SmokeMotion
from gradsim.scene.trajectory import BodyMotion, PendulumMotion, RigidMotion, Trajectory
from gradsim.scene.unknown import Unknown

VIEW = ("look", "camera", "lights", "background")  # fields that do not affect the motion
MAX_LENGTH_RATIO = 2.0  # of the longest to the shortest trial of a group: the longest is simulated for all
TRAILING_DIMS: dict[type, int | tuple[int, ...]] = {
    RigidMotion: 2,
    PendulumMotion: 2,
    BodyMotion: 3,
    ArticulatedMotion: 3,
    SmokeMotion: (3, 4),
}  # dimensions of the tensors of a motion without a batch, for all of them or for each


@dataclass(frozen=True, eq=False)
class TrialGroup:
    """Trials that one simulation covers.

    Scenes of the trials differ only in numbers. These become tensors with a dimension over the trials.
    """

    numbers: tuple[int, ...]  # positions of the trials in the problem
    trials: tuple[TrialModel, ...]
    scene: Scene  # of all trials; known quantities that differ have shape [K, ...]

    def simulate(self, values: Sequence[Mapping[str, torch.Tensor]], frames: int) -> list[tuple[Scene, Trajectory]]:
        """Returns the filled scene and the simulated frames of each trial.

        Args:
            values: Values of the unknowns by path for each trial, with a leading batch dimension B.
            frames: Number of observed frames, from the first.
        """
        if len(self.trials) == 1:
            return [_simulate_distinct(self.trials[0], values[0], frames)]
        longest = max((trial.grid(frames) for trial in self.trials), key=lambda time: time.frames)
        if any(trial.nuisances for trial in self.trials):  # these change quantities that the group shares
            scenes = [trial.fill(own) for trial, own in zip(self.trials, values, strict=True)]
            return list(zip(scenes, self._split(simulate_over(_stack_scenes(scenes), longest)), strict=True))
        known = self.scene.unknowns
        stacked = {path: torch.stack([own[path] for own in values], 1) for path in known}
        trajectories = self._split(simulate_over(self.scene.with_values(stacked), longest))
        return [
            (trial.fill_view(own), trajectory)
            for trial, own, trajectory in zip(self.trials, values, trajectories, strict=True)
        ]

    def _split(self, trajectory: Trajectory) -> list[Trajectory]:
        return [_select_world(trajectory, k) for k in range(len(self.trials))]


def _simulate_distinct(trial: TrialModel, values: Mapping[str, torch.Tensor], frames: int) -> tuple[Scene, Trajectory]:
    """Returns the filled scene and the simulated frames; worlds that move in the same way are simulated once.

    Many points of a Jacobian differ only in the camera, a light or a colour.
    """
    scene = trial.fill(values)
    count = max((len(value) for value in values.values()), default=1)
    columns = [values[path].detach().reshape(len(values[path]), -1).expand(count, -1) for path in trial.motion_paths]
    _, world = torch.unique(torch.cat([torch.zeros(count, 1), *columns], 1), dim=0, return_inverse=True)
    distinct = int(world.max()) + 1
    if distinct == count:
        return scene, trial.simulate_grid(scene, frames)
    first = torch.full((distinct,), count).scatter_reduce(0, world, torch.arange(count), "amin")
    chosen = {path: value[first] if len(value) == count else value for path, value in values.items()}
    return scene, _select_worlds(trial.simulate_grid(trial.fill(chosen), frames), world, distinct)


def make_groups(trials: Sequence[TrialModel]) -> list[TrialGroup]:
    """Returns the groups of trials that can be simulated together, in the order of their first trials."""
    groups: list[list[int]] = []
    keys: list[Any] = []
    for number, trial in enumerate(trials):
        key = _structure(trial)
        for group, other in zip(groups, keys, strict=True):
            members = [trials[k].time.frames for k in group] + [trial.time.frames]
            if key is not None and key == other and max(members) <= MAX_LENGTH_RATIO * min(members):
                group.append(number)
                break
        else:
            groups.append([number])
            keys.append(key)
    return [_make_group(tuple(group), [trials[k] for k in group]) for group in groups]


def _make_group(numbers: tuple[int, ...], trials: list[TrialModel]) -> TrialGroup:
    scene = trials[0].scene if len(trials) == 1 else _stack_known([trial.scene for trial in trials])
    return TrialGroup(numbers, tuple(trials), scene)


def _structure(trial: TrialModel) -> Any:
    """Returns a key that is equal for trials that one simulation can cover; None if there is none."""
    scene = trial.scene
    first: dict[int, str] = {}  # path of each unknown; the same object in other places is the same unknown
    unknowns = tuple((path, first.setdefault(id(u), path)) for path, u, _ in scene.unknown_places())
    values = {path: _as_tensor(value) for path, value, _ in scene.quantities() if not is_unknown(value)}
    parameters = {path: torch.as_tensor(u.guess, dtype=torch.float64) for path, u in scene.unknowns.items()}
    simulated = {path for path, _, _ in scene.quantities()}
    filled = scene.with_values(values | {p: v for p, v in parameters.items() if _owner(p) in simulated})
    key = signature_key(filled, skip=VIEW)
    time = replace(trial.time, frames=1)
    return None if key is None else (key, time, unknowns, bool(trial.nuisances))


def _owner(path: str) -> str:
    """Returns the path of the quantity to which a component belongs."""
    return re.sub(r"(\[\d+\])+$", "", path)


def _as_tensor(value: Any) -> torch.Tensor:
    array = unwrap(value)
    return array if isinstance(array, torch.Tensor) else torch.tensor(np.asarray(array), dtype=torch.float64)


def _stack_known(scenes: list[Scene]) -> Scene:
    """Returns the first scene with the known values that differ between the scenes stacked, [K, ...]."""
    tables = [_known_values(scene) for scene in scenes]
    stacked = {}
    for path, first in tables[0].items():
        arrays = [table[path] for table in tables]
        if not all(torch.equal(first, array) for array in arrays[1:]):
            stacked[path] = torch.stack(arrays)
    return scenes[0].with_values(stacked) if stacked else scenes[0]


def _known_values(scene: Scene) -> dict[str, torch.Tensor]:
    """Returns the known quantities of a scene by path, and the known components of those that are unknown in part."""
    found = {}
    for path, value, _ in scene.quantities():
        inner = bare(value)
        if isinstance(inner, Components):
            parts = ((index_text(index), part) for index, part in inner.items() if not isinstance(part, Unknown))
            found.update({path + index: torch.as_tensor(part, dtype=torch.float64) for index, part in parts})
        elif not isinstance(inner, Unknown):
            found[path] = _as_tensor(value)
    return found


def _stack_scenes(scenes: list[Scene]) -> Scene:
    """Returns one scene with batch dimensions [B, K] from scenes with batch dimension [B]."""
    tables = [{path: (value, spec) for path, value, spec in scene.quantities()} for scene in scenes]
    stacked = {}
    for path, (value, spec) in tables[0].items():
        arrays = [_as_tensor(table[path][0]) for table in tables]
        single = len(spec.shape) + value_dims(value)
        if all(array.ndim == single and torch.equal(arrays[0], array) for array in arrays):
            continue
        shape = torch.broadcast_shapes(*(array.shape for array in arrays))
        joined = torch.stack([array.expand(shape) for array in arrays], len(shape) - single)
        stacked[path] = joined
    return scenes[0].with_values(stacked)


def value_dims(value: Any) -> int:
    """Number of dimensions that `PerElement` and `Signal` add to a quantity."""
    count = 0
    while hasattr(value, "values") and not isinstance(value, torch.Tensor):
        count, value = count + 1, value.values
    return count


def _select_world(trajectory: Trajectory, index: int) -> Trajectory:
    """Returns the motion of one trial from batch dimensions [B, K]."""
    return _map_batch(trajectory, lambda value, dim: value.select(dim, index if value.shape[dim] > 1 else 0))


def _select_worlds(trajectory: Trajectory, index: torch.Tensor, count: int) -> Trajectory:
    """Returns the motion of the worlds `index` [B] of a batch of `count`; tensors that all worlds share stay."""
    return _map_batch(trajectory, lambda v, dim: v.index_select(dim, index) if v.shape[dim] == count else v)


def _map_batch(trajectory: Trajectory, select: Callable[[torch.Tensor, int], torch.Tensor]) -> Trajectory:
    """Applies a selection to the last batch dimension of all tensors of a motion that have one."""
    motions = {name: _map_motion(motion, select) for name, motion in trajectory.motions.items()}
    return Trajectory(trajectory.time, motions, {})


def _map_motion(motion: Any, select: Callable[[torch.Tensor, int], torch.Tensor]) -> Any:
    given = TRAILING_DIMS[type(motion)]
    values = [getattr(motion, item.name) for item in fields(motion)]
    dims = (given,) * len(values) if isinstance(given, int) else given
    batched = (isinstance(v, torch.Tensor) and v.ndim > trailing for v, trailing in zip(values, dims, strict=True))
    return type(motion)(
        *(
            select(value, value.ndim - trailing - 1) if found else value
            for value, trailing, found in zip(values, dims, batched, strict=True)
        )
    )
