"""Policies: what a body is told to do, as a function of time or of what is seen of its state.

A policy of time is any `torch.nn.Module` from times [K] to values [K, ...]; one of state is a module inside `Feedback`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.scene.trajectory import Trajectory


class Sinusoids(torch.nn.Module):
    """Sinusoids of one frequency and shifted phases, mixed linearly and squashed (Figure 10 of the paper).

    u(t) = amplitude tanh(W s(t)) with s_k(t) = sin(frequency t + 2 pi k / waves): no bias, so no weights no motion.

    Args:
        outputs: Values at a time, one for each element.
        waves: Sinusoids.
        frequency: [rad/s].
        amplitude: Largest value.
        tied: Number of the row of W that each output takes, [outputs]: outputs that share one act alike, mirror images
            say. Each has its own if None.
        seed: Of the first weights, even in +-scale / sqrt(waves).
        scale: Of the first weights.
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
        for name, value in (("outputs", outputs), ("waves", waves), ("frequency", frequency), ("amplitude", amplitude)):
            if not value > 0:
                raise OutOfRange(f"Sinusoids.{name}", value, "must be > 0")
        self.rows, self.row_count = _rows("Sinusoids", outputs, tied)
        self.frequency, self.amplitude = frequency, amplitude
        self.register_buffer("phases", torch.arange(waves, dtype=torch.float64) * (2 * math.pi / waves))
        generator = torch.Generator().manual_seed(seed)
        drawn = 2 * torch.rand(self.row_count, waves, generator=generator, dtype=torch.float64) - 1
        self.weight = torch.nn.Parameter(drawn * (scale / math.sqrt(waves)))

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        """Values [K, outputs] at times [K], in seconds."""
        phases: Any = self.phases
        waves = torch.sin(self.frequency * time[:, None] + phases).to(self.weight.dtype)
        values = self.amplitude * torch.tanh(waves @ self.weight.mT)
        return values if self.rows is None else values[:, self.rows]


class Keyframes(torch.nn.Module):
    """Free values at times spread evenly, linear between them and squashed; it starts from doing nothing.

    Args:
        outputs: Values at a time, one for each element.
        duration: Time of the last key [s]; the first is at 0, and beyond the last its values stay.
        keys: How many.
        amplitude: Largest value.
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
        for name, value in (("outputs", outputs), ("duration", duration), ("amplitude", amplitude)):
            if not value > 0:
                raise OutOfRange(f"Keyframes.{name}", value, "must be > 0")
        if keys < 2:
            raise OutOfRange("Keyframes.keys", keys, "must be >= 2")
        self.duration, self.amplitude = duration, amplitude
        self.rows, self.row_count = _rows("Keyframes", outputs, tied)
        self.weight = torch.nn.Parameter(torch.zeros(self.row_count, keys, dtype=torch.float64))

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        """Values [K, outputs] at times [K], in seconds."""
        last = self.weight.shape[1] - 1
        place = (time / self.duration * last).clamp(0, last)
        key = place.floor().clamp(max=last - 1).long()
        share = (place - key).to(self.weight.dtype)[:, None]
        columns = self.weight.mT
        values = self.amplitude * torch.tanh(columns[key] * (1 - share) + columns[key + 1] * share)
        return values if self.rows is None else values[:, self.rows]


def _rows(label: str, outputs: int, tied: Sequence[int] | np.ndarray | None) -> tuple[torch.Tensor | None, int]:
    """The row of weights that each output takes, None for its own, and how many there are."""
    if tied is None:
        return None, outputs
    chosen = torch.as_tensor(np.asarray(tied), dtype=torch.int64)
    if chosen.shape != (outputs,) or int(chosen.min()) < 0:
        raise WrongShape(f"{label}.tied", f"shape {tuple(chosen.shape)}", f"must be {outputs} numbers >= 0")
    return chosen, int(chosen.max()) + 1


@dataclass(frozen=True, eq=False)
class Feedback:
    """A policy of state: asked once a frame, and held until the next.

    Args:
        module: From what is seen [..., F] to values [...] for the whole body, or [..., count] for its elements.
        sees: What it is told of a trajectory of one frame, [..., F]; gradients flow through it.
    """

    module: torch.nn.Module
    sees: Callable[[Trajectory], torch.Tensor]

    def __post_init__(self) -> None:
        if not isinstance(self.module, torch.nn.Module):
            raise WrongType("Feedback.module", type(self.module).__name__, "must be a torch.nn.Module")
        if not callable(self.sees):
            raise WrongType("Feedback.sees", type(self.sees).__name__, "must be a function of a trajectory")


Policy = torch.nn.Module | Feedback


def module_of(policy: Policy) -> torch.nn.Module:
    return policy.module if isinstance(policy, Feedback) else policy
