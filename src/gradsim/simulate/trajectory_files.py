"""Trajectories in files: all states (.npz), to load again; or a table of the bodies' motions (.csv)."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.scene.arguments import checked_path
from gradsim.scene.array_files import read_arrays
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput, NotFinite, WrongShape, WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Smoke
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.compile.compiled_scene import CompiledScene, compile_scene
from gradsim.simulate.simulate import trajectory_of
from gradsim.simulate.state.smoke import smoke_state_names

# Columns of a table by attribute of a motion: names of the components; counted where None.
ATTRIBUTES = {
    "position": "xyz",
    "rotation": "xyzw",
    "velocity": "xyz",
    "angular_velocity": "xyz",
    "angle": None,
    "rate": None,
}
STATE = "state "  # before the name of a state in an .npz file
VALID = "must be a .npz file of gs.save_trajectory"


def save_trajectory(path: str | os.PathLike[str], trajectory: Trajectory) -> None:
    """Writes a trajectory to a file, atomically.

    A .npz file holds all states of all worlds; `gs.load_trajectory` restores them exactly. A .csv file is a table with
    a row per frame and columns such as `time`, `cube.position.x`, `cube.rotation.w` and `pendulum.angle[0]`, in SI
    units, of one world; `gs.load_states` and `gradsim estimate --trials` read it. Bodies of nodes have the mean of
    their nodes there.

    Example:
        `gs.save_trajectory("cube.npz", trajectory)`

    Args:
        path: File in an existing folder, .npz or .csv.
        trajectory: A trajectory of `gs.simulate`.
    """
    file = checked_path("path", path)
    writers = {".npz": _write_npz, ".csv": _write_csv}
    if file.suffix.lower() not in writers:
        raise InvalidInput("path", str(file), "must end in .npz (all states) or .csv (a table)")
    writers[file.suffix.lower()](file, trajectory)


def load_trajectory(path: str | os.PathLike[str], scene: Scene) -> Trajectory:
    """Loads the trajectory of a scene from a .npz file of `gs.save_trajectory`.

    Example:
        `gs.load_trajectory("cube.npz", scene)`

    Args:
        path: The file.
        scene: The scene that was simulated, without unknowns.

    Raises:
        InvalidInput: The file is no trajectory, or one of another scene.
    """
    file = checked_path("path", path)
    if not isinstance(scene, Scene):
        raise WrongType("scene", type(scene).__name__, "must be a gs.Scene")
    arrays = read_arrays(file, "path", VALID)
    times, span = arrays.pop("time", np.zeros(0)), arrays.pop("span", np.zeros(0))
    if times.dtype not in (np.float32, np.float64) or times.ndim != 1 or not times.size or span.shape != (2,):
        raise InvalidInput("path", str(file), f"has no states of a trajectory: {VALID}")
    states = {name.removeprefix(STATE): array for name, array in arrays.items()}
    for name, values in {"time": times, "span": span, **states}.items():
        if not np.isfinite(values).all():
            raise NotFinite(name, f"NaN or infinity in {file}", "all numbers must be finite")
    compiled = compile_scene(scene, dtype=torch.from_numpy(times).dtype)
    _check_states(file, scene, compiled, states, times)
    tensors = {name: torch.from_numpy(state) for name, state in states.items()}
    return trajectory_of(scene, compiled, torch.from_numpy(times), tensors, (float(span[0]), float(span[1])))


def _check_states(
    file: Path, scene: Scene, compiled: CompiledScene, states: dict[str, np.ndarray], times: np.ndarray
) -> None:
    """Raises unless states, each [..., T, count, width], are those of a scene at some times."""
    expected = {name: tuple(state.shape[-2:]) for name, state in compiled.states.items()}
    for body in scene.bodies:
        if isinstance(body, Smoke) and any(name.startswith(f"{body.name}.") for name in states):
            expected |= dict.fromkeys(smoke_state_names(body), tuple(body.size))
    if unknown := sorted(states.keys() - expected.keys()):
        raise InvalidInput(unknown[0], str(file), "the scene has no such state: give its own scene")
    for name, shape in expected.items():
        found = states[name].shape[-2:] if name in states else "nothing"
        if found != shape:
            raise WrongShape(name, f"{found} in {file}", f"the scene has {shape}: give its own scene")
    batches = {state.shape[:-3] for state in states.values()}
    for name, state in states.items():
        if state.dtype != times.dtype or state.shape[-3:-2] != times.shape or len(batches) > 1:
            found = f"{state.dtype} {list(state.shape)}"
            raise WrongShape(name, f"{found} in {file}", f"needs {times.dtype}, {len(times)} times and equal batches")


def _write_npz(file: Path, trajectory: Trajectory) -> None:
    if not trajectory.states or trajectory.span is None:
        raise InvalidInput("trajectory", repr(trajectory), "has no states, as after .sample(): save it as .csv")
    arrays: dict[str, Any] = {f"{STATE}{name}": s.detach().cpu().numpy() for name, s in trajectory.states.items()}
    arrays |= {"time": trajectory.time.detach().cpu().numpy(), "span": np.array(trajectory.span)}

    def write(target: Path) -> None:
        with target.open("wb") as stream:
            np.savez_compressed(stream, **arrays)

    write_atomically(file, write, InvalidInput)


def _write_csv(file: Path, trajectory: Trajectory) -> None:
    columns = {"time": trajectory.time.detach().cpu().numpy()}
    for name, motion in trajectory.motions.items():
        for attribute, letters in ATTRIBUTES.items():
            value = getattr(motion, attribute, None)
            if value is None:
                continue
            array = value.detach().cpu().numpy()
            if array.ndim != 2:
                remedy = "a table has one world: select it before simulating, or save as .npz"
                raise InvalidInput("trajectory", f"a batch {array.shape[:-2]}", remedy)
            endings = [f".{x}" for x in letters] if letters else [f"[{k}]" for k in range(array.shape[1])]
            for ending, column in zip(endings, array.T, strict=True):
                columns[f"{name}.{attribute}{ending}"] = column

    def write(target: Path) -> None:
        with target.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream)
            rows.writerow(columns)
            rows.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

    write_atomically(file, write, InvalidInput)
