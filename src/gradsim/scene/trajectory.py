"""The result of a simulation: the motions of all bodies at the frames."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol, TypeVar, overload

import torch

from gradsim.scene.errors import UnknownName, WrongType
from gradsim.scene.html import to_html
from gradsim.scene.interpolation import Sampling
from gradsim.scene.pendula import Skeleton, link_pose
from gradsim.scene.rotation import rotate
from gradsim.scene.spelling import abbreviate

M = TypeVar("M")


def _frames_of(motion: M, frames: slice, axis: int) -> M:
    """Returns a motion at some frames; time is dimension `axis` of its tensors, counted from the end."""
    pick = (..., frames, *([slice(None)] * (-axis - 1)))
    return type(motion)(*(getattr(motion, item.name)[pick] for item in fields(motion)))  # type: ignore[arg-type]


def _concatenate(motions: Sequence[M], axis: int, moving: Sequence[str] | None = None) -> M:
    """Concatenates motions in time, which is dimension `axis` of their `moving` tensors (all if None)."""
    first = motions[0]
    names = [item.name for item in fields(first)]  # type: ignore[arg-type]
    tensors = ([getattr(motion, name) for motion in motions] for name in names)
    joined = (
        torch.cat(given, axis) if moving is None or name in moving else given[0]
        for name, given in zip(names, tensors, strict=True)
    )
    return type(first)(*joined)


class Motion(Protocol):
    """Methods of the motion of every body."""

    def at(self, frames: slice) -> Any: ...

    def sample(self, sampling: Sampling) -> Any: ...

    @staticmethod
    def joined(motions: Sequence[Any]) -> Any: ...


@dataclass(frozen=True, eq=False)
class BodyMotion:
    """The motion of a body with nodes: `Soft`, `Cloth` or `Springs`."""

    vertices: torch.Tensor  # [m], [..., T, N, 3]
    velocities: torch.Tensor  # [m/s], [..., T, N, 3]

    @property
    def position(self) -> torch.Tensor:
        """Mean of the nodes [m], [..., T, 3]; not the centre of mass where masses differ."""
        return self.vertices.mean(-2)

    @property
    def velocity(self) -> torch.Tensor:
        """Mean velocity of the nodes [m/s], [..., T, 3]."""
        return self.velocities.mean(-2)

    def at(self, frames: slice) -> BodyMotion:
        return _frames_of(self, frames, -3)

    def sample(self, sampling: Sampling) -> BodyMotion:
        """Returns the motion at other times."""
        return BodyMotion(*sampling.interpolate(self.vertices, self.velocities, -3))

    @staticmethod
    def joined(motions: Sequence[BodyMotion]) -> BodyMotion:
        """Concatenates motions in time."""
        return _concatenate(motions, -3)


@dataclass(frozen=True, eq=False)
class RigidMotion:
    """The motion of a rigid body; everything but its state is computed on first use."""

    center_of_mass: torch.Tensor  # [m], [..., T, 3]
    rotation: torch.Tensor  # unit quaternion (x, y, z, w), [..., T, 4]
    velocity: torch.Tensor  # of the centre of mass [m/s], [..., T, 3]
    angular_momentum: torch.Tensor  # about the centre of mass [kg m^2/s], [..., T, 3]
    # 1 / mass, gravity, centre of mass, inverse inertia, [..., 1, 13]; and the scale of a sized body, [..., 1, 16]
    column: torch.Tensor = field(repr=False)
    points: torch.Tensor = field(repr=False)  # the mesh's vertices [m], [V, 3]

    @cached_property
    def center(self) -> torch.Tensor:
        """Centre of mass in body axes [m], [..., 1, 3]."""
        return self.column[..., 4:7]

    @cached_property
    def inverse_moments(self) -> torch.Tensor:
        """Entries xx, yy, zz, yz, zx, xy of the inverse inertia in body axes [1/(kg m^2)], [..., 1, 6]."""
        return self.column[..., 7:13]

    @cached_property
    def scale(self) -> torch.Tensor | None:
        """Factors from mesh to body coordinates, [..., 1, 3]; None for a body that has the size of its mesh."""
        return self.column[..., 13:16] if self.column.shape[-1] > 13 else None

    @cached_property
    def position(self) -> torch.Tensor:
        """Position of the mesh's origin [m], [..., T, 3]."""
        return self.center_of_mass - rotate(self.rotation, self.center)

    @cached_property
    def inverse_inertia(self) -> torch.Tensor:
        """Inverse inertia in body axes [1/(kg m^2)], [..., 1, 3, 3]."""
        return self.inverse_moments[..., [[0, 5, 4], [5, 1, 3], [4, 3, 2]]]

    @cached_property
    def angular_velocity(self) -> torch.Tensor:
        """Angular velocity in world axes [rad/s], [..., T, 3]."""
        momentum = rotate(self.rotation, self.angular_momentum, back=True)
        return rotate(self.rotation, (self.inverse_inertia @ momentum[..., None])[..., 0])

    @cached_property
    def _arms(self) -> torch.Tensor:
        points = self.points if self.scale is None else self.points * self.scale[..., None, :]
        return rotate(self.rotation[..., None, :], points - self.center[..., None, :])

    @cached_property
    def vertices(self) -> torch.Tensor:
        """Positions of the vertices [m], [..., T, V, 3]."""
        return self.center_of_mass[..., None, :] + self._arms

    @cached_property
    def velocities(self) -> torch.Tensor:
        """Velocities of the vertices [m/s], [..., T, V, 3]."""
        spin = self.angular_velocity[..., None, :].expand_as(self._arms)
        return self.velocity[..., None, :] + torch.linalg.cross(spin, self._arms)

    def at(self, frames: slice) -> RigidMotion:
        moving = (self.center_of_mass, self.rotation, self.velocity, self.angular_momentum)
        p, q, v, momentum = (m[..., frames, :] for m in moving)
        return RigidMotion(p, q, v, momentum, self.column, self.points)

    def sample(self, sampling: Sampling) -> RigidMotion:
        """Returns the motion at other times."""
        p, v = sampling.interpolate(self.center_of_mass, self.velocity, -2)
        q, spin = sampling.interpolate_rotation(self.rotation, self.angular_velocity)
        inertia = torch.linalg.inv(self.inverse_inertia)
        momentum = rotate(q, (inertia @ rotate(q, spin, back=True)[..., None])[..., 0])
        return RigidMotion(p, q, v, momentum, self.column, self.points)

    @staticmethod
    def joined(motions: Sequence[RigidMotion]) -> RigidMotion:
        """Concatenates motions in time."""
        return _concatenate(motions, -2, ("center_of_mass", "rotation", "velocity", "angular_momentum"))


@dataclass(frozen=True, eq=False)
class PendulumMotion:
    """The motion of a pendulum's links; everything but their angles is computed on first use."""

    angle: torch.Tensor  # of each link from straight down, about z [rad], [..., T, links]
    rate: torch.Tensor  # [rad/s], [..., T, links]
    lengths: torch.Tensor = field(repr=False)  # of the rods [m], [..., 1, links]
    pivot: torch.Tensor = field(repr=False)  # [m], [..., 1, 3]
    bones: Skeleton = field(repr=False)

    @cached_property
    def _pose(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return link_pose(self.angle, self.rate, self.lengths, self.pivot, self.bones)

    @property
    def vertices(self) -> torch.Tensor:
        """Vertices of rods and bobs [m], [..., T, V, 3]."""
        return self._pose[0]

    @property
    def velocities(self) -> torch.Tensor:
        """Their velocities [m/s], [..., T, V, 3]."""
        return self._pose[1]

    @property
    def bobs(self) -> torch.Tensor:
        """Centres of the bobs [m], [..., T, links, 3]."""
        return self._pose[2]

    def at(self, frames: slice) -> PendulumMotion:
        angle, rate = self.angle[..., frames, :], self.rate[..., frames, :]
        return PendulumMotion(angle, rate, self.lengths, self.pivot, self.bones)

    def sample(self, sampling: Sampling) -> PendulumMotion:
        """Returns the motion at other times."""
        angle, rate = sampling.interpolate(self.angle, self.rate, -2)
        return PendulumMotion(angle, rate, self.lengths, self.pivot, self.bones)

    @staticmethod
    def joined(motions: Sequence[PendulumMotion]) -> PendulumMotion:
        """Concatenates motions in time."""
        return _concatenate(motions, -2, ("angle", "rate"))


class Motions(Mapping[str, Any]):
    """Motions by the names of their bodies, computed on first use in the gradient mode of the simulation.

    Args:
        functions: Function that computes the motion, for each body.
    """

    def __init__(self, functions: dict[str, Callable[[], Any]]):
        self._functions = functions
        self._computed: dict[str, Any] = {}
        self._grad_enabled = torch.is_grad_enabled()

    def __getitem__(self, name: str) -> Any:
        if name not in self._computed:
            with torch.inference_mode(False), torch.set_grad_enabled(self._grad_enabled):
                self._computed[name] = self._functions[name]()
        return self._computed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


@dataclass(frozen=True, eq=False)
class State:
    """The state of a scene at one time, to continue from: `simulate(scene, start=state)`.

    Example:
        `gs.simulate(scene, frames=10, start=trajectory.final)`
    """

    vertices: torch.Tensor | None = None  # of all nodes [m], [..., N, 3]
    velocities: torch.Tensor | None = None  # [m/s], [..., N, 3]
    time: float = 0.0  # [s]
    others: dict[str, torch.Tensor] = field(default_factory=dict)  # all other states, by name


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Motions at the frames, differentiable in all quantities of the scene.

    `trajectory["beam"]` is the motion of one body, `trajectory[3:7]` selects frames, `.final` is the last state.

    Example:
        `gs.simulate(scene, frames=10)["cube"].position[-1]`
    """

    time: torch.Tensor  # [s], [T], or [..., T] if sampled at times that differ between worlds
    motions: Mapping[str, Any]  # body name -> its motion
    states: dict[str, torch.Tensor] = field(repr=False)  # by the simulator's names, [..., T, count, width]
    nodes: BodyMotion | None = field(repr=False, default=None)  # of all nodes
    span: tuple[float, float] | None = field(repr=False, default=None)  # first and last time of the rollout [s]
    scene: Any = field(repr=False, default=None)  # the `Scene` that was simulated, for notebooks and viewers

    def __len__(self) -> int:
        return self.time.shape[-1]

    def __repr__(self) -> str:
        return f"Trajectory({len(self)} frames of {', '.join(self.motions)})"

    def _repr_html_(self) -> str:
        return to_html(self)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the scene, which may hold tensors with a graph: what is copied or sent is the motion."""
        return {**self.__dict__, "scene": None}

    @property
    def vertices(self) -> torch.Tensor:
        """Vertices of all bodies, in the order of the scene [m], [..., T, V, 3]."""
        return self._joined("vertices")

    @property
    def velocities(self) -> torch.Tensor:
        """Their velocities [m/s], [..., T, V, 3]."""
        return self._joined("velocities")

    def _joined(self, name: str) -> torch.Tensor:
        solid = [motion for motion in self.motions.values() if hasattr(motion, "vertices")]
        if not solid:
            raise UnknownName(name, ", ".join(self.motions), "smoke has no vertices: use its densities")
        if self.nodes is not None and all(isinstance(motion, BodyMotion) for motion in solid):
            joined: torch.Tensor = getattr(self.nodes, name)
            return joined
        return torch.cat([getattr(motion, name) for motion in solid], -2)

    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: int | slice) -> Trajectory: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            if key not in self.motions:
                raise UnknownName("body", repr(key), f"the trajectory has {', '.join(self.motions)}")
            return self.motions[key]
        if not isinstance(key, slice):
            frame = operator.index(key)
            if not -len(self) <= frame < len(self):
                raise IndexError(f"frame {frame}: the trajectory has {len(self)} frames")
            key = slice(frame % len(self), frame % len(self) + 1)
        motions = {name: motion.at(key) for name, motion in self.motions.items()}
        states = {name: state[..., key, :, :] for name, state in self.states.items()}
        nodes = None if self.nodes is None else self.nodes.at(key)
        return Trajectory(self.time[..., key], motions, states, nodes, self.span, self.scene)

    def sample(self, times: torch.Tensor | Sequence[float]) -> Trajectory:
        """Returns the motion at other times, differentiable with respect to the times and the states.

        Positions are cubic between frames, with the velocities at the frames: exact for uniform acceleration, of fourth
        order otherwise, and smooth across frames. Rigid bodies and pendula stay rigid. Only a time at which a velocity
        jumps is rounded off. The result has no states to continue from.

        Args:
            times: Times [s], [T'] or [..., T'] with batch dimensions, in any order, up to one frame beyond the ends.

        Returns:
            The trajectory at these times, vertices [..., T', V, 3]; this one if they are those of its frames.

        Raises:
            OutOfRange: A time is more than one frame before the first frame or after the last.
        """
        try:
            given = torch.as_tensor(times, dtype=self.time.dtype, device=self.time.device)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise WrongType("times", abbreviate(times), "must be a tensor or numbers [s]") from None
        if times.is_complex() if isinstance(times, torch.Tensor) else not given.ndim:
            raise WrongType("times", abbreviate(times), "must be a list or tensor of times [s], [T]")
        if not given.requires_grad and torch.equal(given, self.time):
            return self
        for name, motion in self.motions.items():
            if not hasattr(motion, "sample"):
                raise UnknownName("sample", name, "smoke cannot be interpolated: simulate it at a higher fps")
        sampling = Sampling(self.time, given)
        motions = {name: motion.sample(sampling) for name, motion in self.motions.items()}
        return Trajectory(given, motions, {}, span=self.span, scene=self.scene)

    @staticmethod
    def joined(trajectories: Sequence[Trajectory]) -> Trajectory:
        """Concatenates trajectories of the same bodies in time."""
        first = trajectories[0]
        motions = {name: m.joined([t.motions[name] for t in trajectories]) for name, m in first.motions.items()}
        states = {name: torch.cat([t.states[name] for t in trajectories], -3) for name in first.states}
        nodes = None
        if first.nodes is not None:
            nodes = BodyMotion.joined([t.nodes for t in trajectories if t.nodes is not None])
        span = None if first.span is None else (first.span[0], (trajectories[-1].span or first.span)[1])
        time = torch.cat([t.time for t in trajectories], -1)
        return Trajectory(time, motions, states, nodes, span, first.scene)

    @property
    def fractions(self) -> torch.Tensor:
        """Times as fractions of the duration of the rollout, from 0 to 1, [..., T]."""
        begin, end = self.span or (float(self.time.min()), float(self.time.max()))
        return ((self.time - begin) / max(end - begin, 1e-30)).clamp(0.0, 1.0)

    def state(self, frame: int) -> State:
        """Returns the state at a frame, counted from the end if negative."""
        nodes: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
        if self.nodes is not None:
            nodes = (self.nodes.vertices[..., frame, :, :], self.nodes.velocities[..., frame, :, :])
        others = {name: tensor[..., frame, :, :] for name, tensor in self.states.items() if not self._is_node(tensor)}
        return State(*nodes, time=float(self.time[frame]), others=others)

    def _is_node(self, state: torch.Tensor) -> bool:
        return self.nodes is not None and (state is self.nodes.vertices or state is self.nodes.velocities)

    @property
    def final(self) -> State:
        """The last state, to continue from with `simulate(scene, start=trajectory.final)`."""
        return self.state(-1)
