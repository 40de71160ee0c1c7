"""The steps that experiments on video share: record a scene, estimate its unknowns, measure the errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gradsim.datasets.recording import record, soft_ground
from gradsim.experiments.experiment import Progress
from gradsim.fit.estimate import estimate
from gradsim.fit.plan import EvaluatedControl
from gradsim.fit.result import Fit, FitStep
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time


def record_video(scene: Scene, time: Time, *sides: int) -> list[torch.Tensor]:
    """Simulates a scene once and renders it at each size [px]. Returns videos [T, side, side, 3]."""
    return record(scene, time, *sides)[1]


def fit_video(scene: Any, video: Any, progress: Progress, label: str = "", **options: Any) -> Fit:
    """Calls `gs.estimate` and reports its stages as text. Raises KeyboardInterrupt if the search was interrupted."""

    def report(stage: FitStep) -> None:
        progress(f"{label} {stage.name} ({stage.mean_square:.1e}, {stage.seconds:.0f} s)".strip())

    with soft_ground():
        fit = estimate(scene, video, progress=report, **options)
    if fit.status == "interrupted":
        raise KeyboardInterrupt
    return fit


def relative_errors(fit: Fit | EvaluatedControl, truth: Mapping[str, Any]) -> dict[str, float]:
    """Returns the relative error of each value by path; for vectors ||value - truth|| / ||truth||."""
    errors = {}
    for path, value in truth.items():
        true = torch.as_tensor(np.asarray(value), dtype=torch.float64)
        errors[path] = float(torch.linalg.vector_norm(fit.values[path] - true) / torch.linalg.vector_norm(true))
    return errors
