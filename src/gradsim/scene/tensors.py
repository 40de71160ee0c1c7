"""All tensors of scenes, states and trajectories, and copies with other tensors in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from gradsim.scene.articulated_motion import ArticulatedMotion
from gradsim.scene.quantity import Spec, batch_shape, is_unknown, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Smoke, SmokeMotion
from gradsim.scene.trajectory import BodyMotion, PendulumMotion, RigidMotion, State, Trajectory
from gradsim.scene.transforms import BatchedTensor, call_inside_transforms, is_transformed

Tensors: TypeAlias = "dict[str, torch.Tensor]"

# Dimensions after those of the batch, of every tensor of a motion that varies between worlds.
TRAILING: dict[type, dict[str, int]] = {
    BodyMotion: {"vertices": 3, "velocities": 3},
    RigidMotion: {"center_of_mass": 2, "rotation": 2, "velocity": 2, "angular_momentum": 2, "column": 2},
    PendulumMotion: {"angle": 2, "rate": 2, "lengths": 2, "pivot": 2},
    ArticulatedMotion: {"coordinates": 3, "speeds": 3, "offsets": 3, "frames": 3, "alignments": 3},
    SmokeMotion: {"densities": 3, "velocities": 4},
}
WITHOUT_BATCH = (".look.texture", ".look.uv")


def with_plain_tensors(
    function: Callable[[Scene, Any], Any],
    scene: Scene,
    other: Trajectory | State | None,
    quantities: Iterable[tuple[str, Any, Spec]],
    tensors_of: Callable[[Any], Sequence[BatchedTensor]],
) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """Calls a function of a scene, and of a state or trajectory, inside transforms of `torch.func`.

    Args:
        function: Function of a scene and `other`, both with plain tensors.
        scene: The scene.
        other: What else the function takes.
        quantities: Path, value and specification of the quantities of the scene that it depends on.
        tensors_of: Function that returns the tensors of its result.

    Returns:
        A result with plain tensors, and the tensors that belong in their places.
    """
    own, others = list(_scene_tensors(scene, quantities)), list(_tensors_of(other))
    rank = max((len(x.batch) for x in (*own, *others)), default=0)
    given = [x for x in own if _varies(x.tensor)]
    count = len(given)
    given += [x for x in others if _varies(x.tensor)]
    results: list[Any] = []

    def run(tensors: Sequence[torch.Tensor]) -> Sequence[BatchedTensor]:
        named = [(x.name, tensor) for x, tensor in zip(given, tensors, strict=True)]
        plain = scene.with_values(dict(named[:count])) if count else scene
        result = function(plain, _replaced(other, dict(named[count:])))
        results[:] = [result]
        return tensors_of(result)

    found = call_inside_transforms(run, given, rank)
    return results[0], found


def _varies(tensor: torch.Tensor) -> bool:
    return is_transformed(tensor) or tensor.requires_grad


def _scene_tensors(scene: Scene, quantities: Iterable[tuple[str, Any, Spec]]) -> Iterator[BatchedTensor]:
    smoke = {body.name: body for body in scene.bodies if isinstance(body, Smoke)}
    for path, value, spec in quantities:
        tensor = None if is_unknown(value) else unwrap(value)
        if not isinstance(tensor, torch.Tensor):
            continue
        owner, _, name = path.partition(".")
        if path.endswith(WITHOUT_BATCH):
            yield BatchedTensor(path, tensor, None)
        elif path == "scene.background" and tensor.ndim < 3:  # further dimensions would make a colour an image
            yield BatchedTensor(path, tensor[..., None, None, :], 3)
        elif owner in smoke and name in ("density", "velocity"):
            shape = (*smoke[owner].size, *((2,) if name == "velocity" else ()))
            whole = tensor if tensor.ndim >= len(shape) else tensor.expand(shape)
            yield BatchedTensor(path, whole, len(shape))
        else:
            yield BatchedTensor(path, tensor, tensor.ndim - len(batch_shape(value, spec.shape)))


def _tensors_of(other: Trajectory | State | None) -> Iterable[BatchedTensor]:
    if isinstance(other, Trajectory):
        times = [BatchedTensor("time", other.time, 1)] if is_transformed(other.time) or other.time.ndim > 1 else []
        return [*trajectory_tensors(other), *times]
    return [] if other is None else _state_tensors(other)


def _replaced(other: Any, tensors: Tensors) -> Any:
    if not tensors:
        return other
    return _with_state(other, tensors) if isinstance(other, State) else with_tensors(other, tensors)


def _state_tensors(state: State) -> Iterator[BatchedTensor]:
    for name, tensor in (("vertices", state.vertices), ("velocities", state.velocities)):
        if tensor is not None:
            yield BatchedTensor(name, tensor, 2)
    yield from (BatchedTensor(f"others.{name}", tensor, 2) for name, tensor in state.others.items())


def _with_state(state: State, tensors: Tensors) -> State:
    others = {name: tensors.get(f"others.{name}", tensor) for name, tensor in state.others.items()}
    nodes = (tensors.get("vertices", state.vertices), tensors.get("velocities", state.velocities))
    return State(*nodes, time=state.time, others=others)


def trajectory_tensors(trajectory: Trajectory) -> list[BatchedTensor]:
    """Returns all tensors of a trajectory that depend on the scene, each once."""
    found: dict[int, BatchedTensor] = {}
    for name, tensor in _places(trajectory).items():
        found.setdefault(id(tensor[0]), BatchedTensor(name, *tensor))
    return list(found.values())


def with_tensors(trajectory: Trajectory, tensors: Tensors, scene: Scene | None = None) -> Trajectory:
    """Returns a copy of a trajectory with other tensors by name; a tensor in several places is replaced in all."""
    places = _places(trajectory)
    replacements = {id(places[name][0]): tensor for name, tensor in tensors.items() if name in places}

    def new(tensor: torch.Tensor) -> torch.Tensor:
        return replacements.get(id(tensor), tensor)

    motions = {name: _motion_with(motion, new) for name, motion in trajectory.motions.items()}
    states = {name: new(state) for name, state in trajectory.states.items()}
    nodes = None if trajectory.nodes is None else _motion_with(trajectory.nodes, new)
    time = tensors.get("time", trajectory.time)
    return Trajectory(time, motions, states, nodes, trajectory.span, scene or trajectory.scene)


def _motion_with(motion: Any, new: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return replace(motion, **{name: new(getattr(motion, name)) for name in TRAILING.get(type(motion), {})})


def _places(trajectory: Trajectory) -> dict[str, tuple[torch.Tensor, int]]:
    """Returns every tensor of a trajectory that depends on the scene, and its trailing dimensions, by its place."""
    places = {f"states.{name}": (state, 3) for name, state in trajectory.states.items()}
    motions = dict(trajectory.motions)
    if trajectory.nodes is not None:
        motions[".nodes"] = trajectory.nodes  # no body has this name
    for body, motion in motions.items():
        for name, trailing in TRAILING.get(type(motion), {}).items():
            places[f"motions.{body}.{name}"] = (getattr(motion, name), trailing)
    return places
