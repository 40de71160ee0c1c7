"""Policies: control inputs as functions of time (open loop) or of observations of the state (closed loop).

An open-loop policy is any `torch.nn.Module` from times [K] to values [K, ...]; a closed-loop policy is a `Feedback`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.scene.arguments import checked_number, checked_whole
from gradsim.scene.errors import WrongShape, WrongType
from gradsim.scene.memory import check_memory
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.trajectory import Trajectory


class Sinusoids(torch.nn.Module):
    """Linear combinations of sinusoids of one frequency, limited by tanh (Figure 10 of the paper).

    u(t) = amplitude tanh(W s(t)) with s_k(t) = sin(frequency t + 2 pi k / waves). There is no bias: zero weights give
    zero output.

    Example:
        `gs.control(scene, goal, {"block.actuation": gs.Sinusoids(outputs=30, waves=4)}, frames=60)`

    Args:
        outputs: Number of outputs, one per element.
        waves: Number of sinusoids.
        frequency: Angular frequency [rad/s].
        amplitude: Largest magnitude of an output.
        tied: Row of W for each output, [outputs]; outputs with the same row are equal, for example those of mirrored
            elements. Each output has its own row if None.
        seed: Seed of the initial weights, uniform in +-scale / sqrt(waves).
        scale: Scale of the initial weights.
    """

    def __init__(
        self,
        outputs: int,
        *,
        waves: int = 8,
        frequency: float = 2.5,
        amplitude: float = 0.3,
        tied: Sequence[int] | np.ndarray | None = None,
        seed: int = 0,
        scale: float = 1.0,
    ):
        super().__init__()
        outputs, waves = checked_whole("Sinusoids.outputs", outputs), checked_whole("Sinusoids.waves", waves)
        frequency = checked_number("Sinusoids.frequency", frequency, above=0.0)
        amplitude = checked_number("Sinusoids.amplitude", amplitude, above=0.0)
        scale, seed = checked_number("Sinusoids.scale", scale, low=0.0), checked_seed(seed)
        check_memory("Sinusoids.outputs", outputs, 8.0 * outputs * waves, "give fewer outputs or waves")
        self.rows, self.row_count = _rows("Sinusoids", outputs, tied)
        self.frequency, self.amplitude = frequency, amplitude
        self.register_buffer("phases", torch.arange(waves, dtype=torch.float64) * (2 * math.pi / waves))
        generator = torch.Generator().manual_seed(seed)
        uniform = 2 * torch.rand(self.row_count, waves, generator=generator, dtype=torch.float64) - 1
        self.weight = torch.nn.Parameter(uniform * (scale / math.sqrt(waves)))

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        """Returns outputs [K, outputs] at times [s], [K]."""
        phases: Any = self.phases
        waves = torch.sin(self.frequency * time[:, None] + phases).to(self.weight.dtype)
        values = self.amplitude * torch.tanh(waves @ self.weight.mT)
        return values if self.rows is None else values[:, self.rows]


class Keyframes(torch.nn.Module):
    """Values at equally spaced times, interpolated linearly and limited by tanh; initially zero.

    Example:
        `gs.control(scene, goal, {"block.actuation": gs.Keyframes(outputs=30, duration=2.0)}, frames=60)`

    Args:
        outputs: Number of outputs, one per element.
        duration: Time of the last keyframe [s]; the first is at 0. Later outputs are those of the last keyframe.
        keys: Number of keyframes.
        amplitude: Largest magnitude of an output.
        tied: As for `Sinusoids`.
    """

    def __init__(
        self,
        outputs: int,
        duration: float,
        *,
        keys: int = 12,
        amplitude: float = 0.3,
        tied: Sequence[int] | np.ndarray | None = None,
    ):
        super().__init__()
        outputs, keys = checked_whole("Keyframes.outputs", outputs), checked_whole("Keyframes.keys", keys, 2)
        duration = checked_number("Keyframes.duration", duration, above=0.0)
        amplitude = checked_number("Keyframes.amplitude", amplitude, above=0.0)
        check_memory("Keyframes.outputs", outputs, 8.0 * outputs * keys, "give fewer outputs or keys")
        self.duration, self.amplitude = duration, amplitude
        self.rows, self.row_count = _rows("Keyframes", outputs, tied)
        self.weight = torch.nn.Parameter(torch.zeros(self.row_count, keys, dtype=torch.float64))

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        """Returns outputs [K, outputs] at times [s], [K]."""
        last = self.weight.shape[1] - 1
        position = (time / self.duration * last).clamp(0, last)
        key = position.floor().clamp(max=last - 1).long()
        fraction = (position - key).to(self.weight.dtype)[:, None]
        columns = self.weight.mT
        values = self.amplitude * torch.tanh(columns[key] * (1 - fraction) + columns[key + 1] * fraction)
        return values if self.rows is None else values[:, self.rows]


def _rows(label: str, outputs: int, tied: Sequence[int] | np.ndarray | None) -> tuple[torch.Tensor | None, int]:
    """Returns the row of weights of each output, None if each has its own, and the number of rows."""
    if tied is None:
        return None, outputs
    try:
        rows = np.asarray(tied)
    except ValueError:  # rows of different lengths
        rows = np.zeros(0)
    if rows.dtype.kind not in "iu" or rows.shape != (outputs,) or rows.min() < 0 or rows.max() >= outputs:
        found = f"{rows.dtype} of shape {rows.shape}"
        raise WrongShape(f"{label}.tied", found, f"must be {outputs} row indices from 0 to {outputs - 1}")
    return torch.from_numpy(rows.astype(np.int64)), int(rows.max()) + 1


@dataclass(frozen=True, eq=False)
class Feedback:
    """A closed-loop policy: evaluated once per frame; its output is constant until the next frame.

    Example:
        `gs.rollout(scene, {"block.actuation": gs.Feedback(network, observe)}, frames=30)`

    Args:
        module: Maps observations [..., F] to values [...] for the whole body, or [..., count] for its elements.
        observe: Maps a trajectory of one frame to observations [..., F]; gradients flow through it.
    """

    module: torch.nn.Module
    observe: Callable[[Trajectory], torch.Tensor]

    def __post_init__(self) -> None:
        if not isinstance(self.module, torch.nn.Module):
            raise WrongType("Feedback.module", type(self.module).__name__, "must be a torch.nn.Module")
        if not callable(self.observe):
            raise WrongType("Feedback.observe", type(self.observe).__name__, "must be a function of a trajectory")


Policy = torch.nn.Module | Feedback


def module_of(policy: Policy) -> torch.nn.Module:
    """Returns the module that holds the weights of a policy."""
    return policy.module if isinstance(policy, Feedback) else policy
