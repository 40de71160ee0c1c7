"""All unknowns of one or several scenes as one vector of coordinates.

Several trials share the unknowns that have the same path or are the same object. Unknowns that differ between trials
have coordinates for each trial, named "cube.position@NAME" by the name of the trial.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from gradsim.fit.coordinates import ScaledUnknown, scaled_unknown
from gradsim.scene.components import Components
from gradsim.scene.errors import InvalidInput
from gradsim.scene.quantity import Spec, bare, unknowns_in, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.unknown import Unknown, equal_declarations
from gradsim.scene.validation import validated_array

SEARCH_TRIALS = 8  # trials that represent many, where all would take too long
TIME = Spec("s")  # of unknown times
DURATION = Spec("s", low=0.0)
TIME_SPECS = {"video.fps": Spec("1/s", above=0.0), "video.exposure": DURATION, "video.readout": DURATION}
TimeUnknowns = Mapping[str, Unknown]  # by path


class Parameters:
    """All unknowns of one or several scenes as one vector of coordinates [P]."""

    def __init__(
        self,
        scenes: Scene | Sequence[Scene],
        time_unknowns: TimeUnknowns | Sequence[TimeUnknowns] | None = None,
        dtype: torch.dtype = torch.float64,
        extra: Sequence[ScaledUnknown] = (),
        trial_names: Sequence[str] | None = None,
    ):
        """Args:
        scenes: Scene with unknowns, or the scenes of several trials. Unknowns marked `per_trial` or `varies` have
            coordinates for each trial if a sequence is given.
        time_unknowns: Unknown times that are not part of the scene [s], by path, for all trials or for each.
        dtype: Precision of the coordinates.
        extra: Further unknowns, such as weights of policies.
        trial_names: Names of the trials, by default their indices.
        """
        self.scenes = (scenes,) if isinstance(scenes, Scene) else tuple(scenes)
        self.dtype = dtype
        given = time_unknowns if isinstance(time_unknowns, Sequence) else [time_unknowns or {}] * len(self.scenes)
        names = None if isinstance(scenes, Scene) else _trial_names(len(self.scenes), trial_names)
        table = _UnknownTable(dtype, names)
        self._scene_names: list[dict[str, str]] = []  # name of the unknown by path in the scene of each trial
        self._time_names: list[dict[str, str]] = []  # the same for times
        for k, (scene, times) in enumerate(zip(self.scenes, given, strict=True)):
            sizes = _component_sizes(scene)
            places = [(path, u, spec, sizes.get(path, 0.0)) for path, u, spec in scene.unknown_quantities()]
            self._scene_names.append({place[0]: table.add(k, *place) for place in places})
            specs = {path: TIME_SPECS.get(path, TIME) for path in times}
            declared = {path: validated_array(path, unknown, specs[path]) for path, unknown in times.items()}
            self._time_names.append({path: table.add(k, path, u, specs[path]) for path, u in declared.items()})
        self.extra = tuple(extra)
        self._declared = tuple(table.unknowns.values())
        self._assign()

    def _assign(self) -> None:
        """Assigns slices of the coordinates to the unknowns."""
        self.unknowns = [*self._declared, *self.extra]
        if not self.unknowns:
            raise InvalidInput("scene", "no unknowns", "mark unknown quantities: mass=gs.unknown(2.0, low=1, high=10)")
        ends = np.cumsum([0, *(unknown.size for unknown in self.unknowns)])
        self.slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    def extended(self, extra: Sequence[ScaledUnknown]) -> Parameters:
        """Returns the same unknowns and further ones."""
        copied = copy.copy(self)
        copied.extra = (*self.extra, *extra)
        copied._assign()
        return copied

    def subset(self, numbers: Sequence[int]) -> Parameters:
        """Returns the unknowns of some of the trials, which are renumbered in the given order."""
        copied = copy.copy(self)
        copied.scenes = tuple(self.scenes[k] for k in numbers)
        copied._scene_names = [self._scene_names[k] for k in numbers]
        copied._time_names = [self._time_names[k] for k in numbers]
        used = {name for names in (*copied._scene_names, *copied._time_names) for name in names.values()}
        places = {k: new for new, k in enumerate(numbers)}

        def renumbered(unknown: ScaledUnknown) -> ScaledUnknown:
            return unknown if unknown.trial is None else replace(unknown, trial=places[unknown.trial])

        copied._declared = tuple(renumbered(u) for u in self._declared if u.path in used)
        copied.extra = tuple(renumbered(u) for u in self.extra if u.trial is None or u.trial in places)
        copied._assign()
        return copied

    @property
    def first_trials(self) -> set[int]:
        """The first trial of each shared unknown."""
        firsts: dict[str, int] = {}
        for k, names in enumerate(zip(self._scene_names, self._time_names, strict=True)):
            for name in (name for part in names for name in part.values()):
                firsts.setdefault(name, k)
        shared = {unknown.path for unknown in self.unknowns if unknown.trial is None}
        return {k for name, k in firsts.items() if name in shared}

    def merged(self, z: torch.Tensor, part: Parameters, z_part: torch.Tensor) -> torch.Tensor:
        """Returns coordinates z [..., P] with those of a subset replaced by z_part [..., P']."""
        places = {unknown.path: place for unknown, place in part.items()}
        merged = z.expand(*z_part.shape[:-1], -1).clone()
        for unknown, place in self.items():
            if unknown.path in places:
                merged[..., place] = z_part[..., places[unknown.path]]
        return merged

    @property
    def coordinate_trials(self) -> list[int | None]:
        """The trial to which each coordinate belongs, None for shared ones."""
        return [unknown.trial for unknown in self.unknowns for _ in range(unknown.size)]

    @property
    def coordinate_groups(self) -> list[int]:
        """A number for each coordinate, equal for coordinates of the same unknown in different trials."""
        numbers: dict[tuple[str, int], int] = {}
        found = []
        for unknown in self.unknowns:
            base = unknown.path if unknown.trial is None else unknown.path.rsplit("@", 1)[0]
            found += [numbers.setdefault((base, k), len(numbers)) for k in range(unknown.size)]
        return found

    @property
    def scene(self) -> Scene:
        """The scene, if there is only one."""
        if len(self.scenes) > 1:
            raise InvalidInput("parameters", f"{len(self.scenes)} scenes", "use `trial_values` for each of them")
        return self.scenes[0]

    @property
    def count(self) -> int:
        """Number of coordinates P."""
        return self.slices[-1].stop

    @property
    def names(self) -> list[str]:
        """Name of each coordinate: the path of the unknown, with an index if it has several values."""
        names = []
        for unknown in self.unknowns:
            path, size = unknown.path, unknown.size
            names += [path] if size == 1 else [f"{path}[{k}]" for k in range(size)]
        return names

    def initial(self) -> torch.Tensor:
        """Coordinates of the guesses, [P]."""
        return torch.cat([unknown.from_value(unknown.guess) for unknown in self.unknowns])

    def bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Lower and upper bounds of the coordinates, [P] each."""
        low, high = zip(*(unknown.bounds() for unknown in self.unknowns), strict=True)
        return torch.cat(low), torch.cat(high)

    def sample(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Random coordinates [count, P]; see `ScaledUnknown.sample`."""
        return torch.cat([unknown.sample(count, generator) for unknown in self.unknowns], -1)

    def prior(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Center and half width of the plausible range, [P] each."""
        centers = [unknown.prior_center() for unknown in self.unknowns]
        widths = [unknown.prior_width() for unknown in self.unknowns]
        return torch.cat(centers), torch.cat(widths)

    def prior_normal(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and standard deviation of the priors in coordinates, [P] each; infinite deviation without a prior."""
        means = [unknown.prior_mean for unknown in self.unknowns]
        return torch.cat(means), torch.cat([unknown.prior_sd for unknown in self.unknowns])

    def values(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        """Converts coordinates [..., P] to values by path, [..., *shape] each."""
        return {unknown.path: unknown.to_value(z[..., part]) for unknown, part in self.items()}

    def trial_values(self, values: Mapping[str, torch.Tensor], trial: int) -> dict[str, torch.Tensor]:
        """Returns the values of the unknowns of a trial's scene by their paths in that scene."""
        return {path: values[name] for path, name in self._scene_names[trial].items()}

    def trial_times(self, values: Mapping[str, torch.Tensor], trial: int) -> dict[str, torch.Tensor]:
        """Returns the values of the unknown times of a trial by path [s]."""
        return {path: values[name] for path, name in self._time_names[trial].items()}

    def model_values(self, values: Mapping[str, torch.Tensor], trial: int) -> dict[str, torch.Tensor]:
        """Returns all values that the model of a trial needs: of its scene, of its frame times and further ones."""
        found = self.trial_values(values, trial) | self.trial_times(values, trial)
        for unknown in self.extra:
            if unknown.trial is None:
                found[unknown.path] = values[unknown.path]
            elif unknown.trial == trial:
                found[unknown.path.rsplit("@", 1)[0]] = values[unknown.path]
        return found

    def items(self) -> Iterator[tuple[ScaledUnknown, slice]]:
        """Iterates over the unknowns and the slices of their coordinates."""
        return zip(self.unknowns, self.slices, strict=True)

    def coordinates(self, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Converts values by path to coordinates [..., P]."""
        return torch.cat([unknown.from_value(values[unknown.path]) for unknown in self.unknowns], -1)

    def fill(self, z: torch.Tensor) -> Scene:
        """Returns the scene with the values at z [..., P]; leading dimensions are a batch of worlds."""
        return self.scene.with_values(self.trial_values(self.values(z), 0))


def representative_trials(parameters: Parameters) -> list[int]:
    """Returns a few trials spread over all, with the first trial of each shared unknown, so that none is missing."""
    count = len(parameters.scenes)
    if count <= SEARCH_TRIALS:
        return list(range(count))
    chosen = {round(k * (count - 1) / (SEARCH_TRIALS - 1)) for k in range(SEARCH_TRIALS)}
    return sorted(chosen | parameters.first_trials)


def _trial_names(count: int, names: Sequence[str] | None) -> list[str]:
    """Returns the names of trials, by default their indices."""
    given = [str(k) for k in range(count)] if names is None else list(names)
    if len(given) != count or len(set(given)) != count:
        raise InvalidInput("trial_names", ", ".join(given), f"give {count} different names, one for each trial")
    return given


def _component_sizes(scene: Scene) -> dict[str, float]:
    """Returns the largest magnitude among the components of a quantity, by the paths of its unknown components."""
    sizes = {}
    for path, value, _ in (*scene.quantities(), *scene.view_quantities()):
        if isinstance(bare(value), Components):
            size = float(torch.as_tensor(unwrap(value)).detach().abs().max())
            sizes.update({place: size for place, _ in unknowns_in(path, value)})
    return sizes


class _UnknownTable:
    """Unknowns of several trials by name, and which of them are the same."""

    def __init__(self, dtype: torch.dtype, trial_names: Sequence[str] | None):
        self.dtype, self.trial_names = dtype, trial_names  # no names: a single scene
        self.unknowns: dict[str, ScaledUnknown] = {}
        self._declared: dict[str, tuple[Unknown, Spec]] = {}  # first declaration, by path without the trial
        self._paths: dict[int, str] = {}  # first path of each object

    def add(self, trial: int, path: str, unknown: Unknown, spec: Spec, magnitude: float = 0.0) -> str:
        """Adds an unknown of a trial unless it is known already, and returns its name."""
        own = self.trial_names is not None and (unknown.per_trial or unknown.varies)
        shared = path if unknown.per_trial else self._paths.setdefault(id(unknown), path)
        first, first_spec = self._declared.setdefault(shared, (unknown, spec))
        _check_same(path, unknown, spec, first, first_spec)
        if path in self._declared and self._declared[path][0] is not first:
            remedy = f"is one unknown with {shared}, but another trial has its own there: use one gs.unknown for all"
            raise InvalidInput(path, unknown, remedy)
        if not own:
            if shared not in self.unknowns:
                self.unknowns[shared] = scaled_unknown(shared, unknown, spec, self.dtype, magnitude)
            return shared
        name = f"{shared}@{self.trial_names[trial]}" if self.trial_names is not None else shared
        if name in self.unknowns:
            raise InvalidInput(path, unknown, f"{name} is given twice: use one gs.unknown object in both places")
        self.unknowns[name] = replace(
            scaled_unknown(shared, unknown, spec, self.dtype, magnitude), path=name, trial=trial
        )
        return name


def _check_same(path: str, unknown: Unknown, spec: Spec, first: Unknown, first_spec: Spec) -> None:
    """Raises InvalidInput unless an unknown is declared as in the first trial that has it.

    Values of their own may differ in the guess, and if they do not scatter about a mean also in bounds and prior.
    """
    if unknown.per_trial and first.per_trial:
        equal = True
    else:
        equal = equal_declarations(unknown, replace(first, guess=unknown.guess) if first.varies else first)
    if not equal or spec.unit != first_spec.unit or unknown.shape != first.shape:
        remedy = "must be declared equally in all scenes that share it: guess, bounds, prior and options"
        raise InvalidInput(path, f"{unknown} and {first}", remedy)
