"""What a simulation gives back: the states of all bodies at the frames."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import overload

import torch

from gradsim.scene.errors import UnknownName


@dataclass(frozen=True, eq=False)
class BodyMotion:
    """The motion of one body's nodes."""

    vertices: torch.Tensor  # [m], [..., T, N, 3]
    velocities: torch.Tensor  # [m/s], [..., T, N, 3]

    @property
    def position(self) -> torch.Tensor:
        """Mean of the nodes [m], [..., T, 3]."""
        return self.vertices.mean(-2)

    @property
    def velocity(self) -> torch.Tensor:
        """Mean velocity of the nodes [m/s], [..., T, 3]."""
        return self.velocities.mean(-2)


@dataclass(frozen=True, eq=False)
class State:
    """All nodes at one moment, to continue from: `simulate(scene, start=state)`."""

    vertices: torch.Tensor  # [m], [..., V, 3]
    velocities: torch.Tensor  # [m/s], [..., V, 3]
    time: float = 0.0  # [s]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States at the frames, differentiable in everything the scene was made of.

    `trajectory["beam"]` is one body's motion, `trajectory[3:7]` some of the frames, `.final` the last state.
    """

    time: torch.Tensor  # [s], [T]
    vertices: torch.Tensor  # [m], [..., T, V, 3], all bodies' nodes one after another
    velocities: torch.Tensor  # [m/s], [..., T, V, 3]
    spans: dict[str, tuple[int, int]]  # body name -> first and one past its last node

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        worlds = f", batch {tuple(self.vertices.shape[:-3])}" if self.vertices.ndim > 3 else ""
        return f"Trajectory({len(self)} frames, {self.vertices.shape[-2]} vertices of {', '.join(self.spans)}{worlds})"

    @overload
    def __getitem__(self, key: str) -> BodyMotion: ...
    @overload
    def __getitem__(self, key: int | slice) -> Trajectory: ...
    def __getitem__(self, key: str | int | slice) -> BodyMotion | Trajectory:
        if isinstance(key, str):
            if key not in self.spans:
                raise UnknownName("body", repr(key), f"the trajectory has {', '.join(self.spans)}")
            first, end = self.spans[key]
            return BodyMotion(self.vertices[..., first:end, :], self.velocities[..., first:end, :])
        if not isinstance(key, slice):
            frame = operator.index(key)
            if not -len(self) <= frame < len(self):
                raise IndexError(f"frame {frame}: the trajectory has {len(self)} frames")
            key = slice(frame % len(self), frame % len(self) + 1)
        return Trajectory(self.time[key], self.vertices[..., key, :, :], self.velocities[..., key, :, :], self.spans)

    def state(self, frame: int) -> State:
        """The state at a frame, counted from the end if negative."""
        vertices, velocities = self.vertices[..., frame, :, :], self.velocities[..., frame, :, :]
        return State(vertices, velocities, float(self.time[frame]))

    @property
    def final(self) -> State:
        """The last state, to continue from with `simulate(scene, start=trajectory.final)`."""
        return self.state(-1)
