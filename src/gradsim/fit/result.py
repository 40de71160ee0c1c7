"""Result of an estimate."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gradsim.fit.contributions import Contributions, notable_priors
from gradsim.fit.misfit import Misfit
from gradsim.fit.parameters import Parameters
from gradsim.fit.scatter import Scatter
from gradsim.fit.trial_model import TrialModel
from gradsim.fit.uncertainty import Identifiability
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.scene.html import to_html
from gradsim.scene.integrators import Integrator
from gradsim.scene.robots.load import Robot
from gradsim.scene.scene import Scene


@dataclass(frozen=True)
class FitStep:
    """One iteration of the search."""

    name: str  # stage of the search
    values: dict[str, Any]  # by path
    mean_square: float  # of a pixel's difference, at the resolution of the stage
    seconds: float  # since the start of the estimate
    frames: int = 0  # number of frames compared, from the first
    level: int = 0  # level of detail: number of times the images are halved


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of `gs.estimate`: values of the unknowns with intervals.

    `print(fit)` shows a table; `fit.scene` is the scene with the values filled in.

    Example:
        `gs.estimate(scene, video).intervals["cube.mass"]`
    """

    values: dict[str, torch.Tensor]  # by path, in SI units
    intervals: dict[str, tuple[torch.Tensor, torch.Tensor]]  # ends of the 95 % intervals, by path
    identifiability: dict[str, Identifiability]  # by coordinate: the path, with an index if it has several values
    correlation: torch.Tensor  # of the coordinates, [P, P]
    undetermined_directions: tuple[str, ...]  # combinations that the observation does not determine, in words
    noise: float  # standard deviation of a pixel's difference
    interval_method: str  # how the intervals were computed
    status: str  # "does not explain the video", "converged", "converged with corrections", "several answers", ...
    advice: str  # remedy for the status
    misfit: Misfit  # how well the scene explains the observations, and likely causes where it does not
    scene: Scene  # of the first trial
    trials: tuple[TrialModel, ...] = field(repr=False)  # recordings as they were compared
    parameters: Parameters = field(repr=False)  # coordinates of the unknowns
    coordinates: torch.Tensor = field(repr=False)  # [P]
    standard_deviation: torch.Tensor = field(repr=False)  # of the coordinates, [P]
    plain_deviation: torch.Tensor | None = field(repr=False, default=None)  # from independent noise alone, [P]
    contributions: Contributions = field(repr=False, default_factory=dict)  # fractions of the variances, by source
    # Estimated errors of the scene: value, standard deviation, unit.
    nuisances: dict[str, tuple[float, float, str]] = field(default_factory=dict)  # by name
    scatter: dict[str, Scatter] = field(default_factory=dict)  # of unknowns that vary between trials, by path
    history: tuple[FitStep, ...] = field(repr=False, default=())  # all iterations
    alternative_minima: tuple[dict[str, torch.Tensor], ...] = ()  # other values that fit equally well, by path
    starts: int = 1  # number of searches
    agreeing_starts: int = 1  # searches that ended in this minimum
    seconds: float = 0.0  # that the estimate took [s]

    @property
    def certain(self) -> bool:
        """Whether the scene explains the observations with a single minimum, found to convergence, and all values
        are determined."""
        identifiable = all(item.level == "identifiable" for item in self.identifiability.values())
        return self.status == "converged" and identifiable

    @property
    def integrator(self) -> Integrator:
        """Time integrator of the first trial; `trials[0].time` has its steps too."""
        return self.trials[0].time.integrator

    @property
    def outliers(self) -> dict[str, float]:
        """Trials that fit far worse than the others: their residual as a multiple of that of the median trial."""
        return self.misfit.outliers

    def trial_values(self, trial: int) -> dict[str, torch.Tensor]:
        """Returns all estimated values of a trial by their paths in it, with those of nuisances."""
        return self.parameters.model_values(self.parameters.values(self.coordinates), trial)

    def rows(self) -> list[tuple[str, str, float, float, float, Identifiability]]:
        """Returns name, unit, value, ends of the interval and identifiability of each scalar value."""
        rows = []
        for unknown in self.parameters.unknowns:
            if unknown.path not in self.values:  # an estimated error of the scene
                continue
            value, (low, high) = self.values[unknown.path].reshape(-1), self.intervals[unknown.path]
            low, high = low.reshape(-1), high.reshape(-1)
            for k in range(len(value)):
                name = unknown.path if len(value) == 1 else f"{unknown.path}[{k}]"
                item = self.identifiability.get(name, Identifiability("identifiable"))
                rows.append((name, unknown.unit, float(value[k]), float(low[k]), float(high[k]), item))
        return rows

    @property
    def doubtful(self) -> bool:
        """Whether the scene does not explain the observations, or only with corrections: this is reported first."""
        return not self.misfit.ok or bool(self.misfit.corrections)

    def notes(self) -> list[str]:
        """Returns lines about undetermined combinations, priors, scatter between trials and outliers."""
        lines = [f"  {text}" for text in (*self.undetermined_directions, *notable_priors(self.contributions))]
        lines += [
            f"{path} varies between trials: mean {item.mean:.4g} ({item.mean_low:.4g} .. {item.mean_high:.4g}), "
            f"standard deviation {item.sd:.2g} {item.unit}"
            for path, item in self.scatter.items()
        ]
        if self.outliers:
            named = ", ".join(
                f"{name} ({ratio:.1f} times the median residual)" for name, ratio in self.outliers.items()
            )
            lines.append(f"outliers among {len(self.trials)} trials: {named}")
        return lines

    def __str__(self) -> str:
        lines = [f"{'':28}{'value':>14}{'95 % interval':>30}"]
        for name, unit, value, low, high, item in self.rows():
            label = f"{name} [{unit}]" if unit not in ("", "1") else name
            lines.append(f"{label:28}{value:14.6g}{f'{low:.6g} .. {high:.6g}':>30}  {item.level}")
        lines += self.notes()
        status = f"{self.status}: {self.advice}" if self.advice else self.status
        return "\n".join([status, *lines] if self.doubtful else [*lines, status])

    def _repr_html_(self) -> str:
        return to_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = {
            name: {
                "value": value,
                "low": low,
                "high": high,
                "unit": unit,
                "identifiability": item.level,
                "reason": item.reason,
            }
            for name, unit, value, low, high, item in self.rows()
        }
        minima = [{path: value.tolist() for path, value in values.items()} for values in self.alternative_minima]
        return {
            "parameters": rows,
            "names": self.parameters.names,
            "correlation": self.correlation.tolist(),
            "undetermined directions": list(self.undetermined_directions),
            "noise": self.noise,
            "interval method": self.interval_method,
            "contributions": self.contributions,
            "status": self.status,
            "advice": self.advice,
            "certain": self.certain,
            "misfit": self.misfit.as_dict(),
            "nuisances": {
                path: {"value": value, "sd": sd, "unit": unit} for path, (value, sd, unit) in self.nuisances.items()
            },
            "scatter": {path: dataclasses.asdict(item) for path, item in self.scatter.items()},
            "alternative minima": minima,
            "integrator": type(self.integrator).__name__,
            "substeps": self.trials[0].time.substeps,
            "starts": self.starts,
            "agreeing starts": self.agreeing_starts,
            "seconds": self.seconds,
        }

    def save_robot(self, path: str | Path, robot: Robot) -> None:
        """Writes a robot's file with the estimated values, in the format that was read.

        Args:
            path: File to write.
            robot: The robot whose body the scene has, from `gs.load_robot`.
        """
        robot.save(path, self.scene[robot.body.name])

    def save(self, path: str | Path) -> None:
        """Writes the numbers as JSON, atomically."""
        text = json.dumps(self.as_dict(), indent=2) + "\n"
        write_atomically(Path(path), lambda target: target.write_text(text), InvalidInput)
