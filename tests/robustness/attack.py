"""The standing attack: what each kind of input is given to, and how its outcome is classified."""

from __future__ import annotations

import math
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from hypothesis import strategies as st
from tests.robustness import strategies
from tests.robustness.public_calls import calls
from tests.robustness.record_files import load_record, record_files
from tests.robustness.robot_texts import robot_files

import gradsim as gs

ANSWERED, REFUSED = "answered", "refused"
RAW, NOT_FINITE, HANG = "raw exception", "not finite", "hang"
LIMIT = 60.0  # CPU time of an attempt [s]; portions of the attack have a limit of their whole time


class Failure(AssertionError):
    """An outcome that no input may have."""

    def __init__(self, outcome: str, text: str):
        super().__init__(f"{outcome}: {text}")
        self.outcome = outcome


@dataclass(frozen=True)
class Attack:
    """One kind of input."""

    name: str
    inputs: st.SearchStrategy[Any]
    attempt: Callable[[Any], Any]  # returns tensors or objects with tensors, which must be finite


def outcome(attack: Attack, given: Any) -> str:
    """Returns whether an input was answered or refused by name.

    Raises:
        Failure: It did neither.
    """
    try:
        with warnings.catch_warnings(), _time_limit():
            warnings.simplefilter("ignore")
            result = attack.attempt(given)
    except gs.GradsimError:
        return REFUSED
    except _TimeIsUp:
        raise Failure(HANG, f"no answer within {LIMIT:.0f} s") from None
    except Exception as error:
        raise Failure(RAW, f"{type(error).__name__}: {str(error)[:200]}") from error
    for value in result if isinstance(result, tuple) else (result,):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise Failure(NOT_FINITE, f"tensor of shape {tuple(value.shape)}")
        if isinstance(value, float) and math.isnan(value):
            raise Failure(NOT_FINITE, "NaN")
    return ANSWERED


class _TimeIsUp(BaseException):
    """Not an Exception: nothing may catch it on the way."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _run(scene: gs.Scene) -> tuple[Any, ...]:
    """Simulates and renders a scene; only the motion of smoke has no picture."""
    unknown = scene.unknowns
    if unknown:
        scene = scene.with_values({path: torch.as_tensor(item.guess) for path, item in unknown.items()})
    trajectory = gs.simulate(scene, **strategies.SHORT)
    states = tuple(trajectory.states.values())
    if scene.camera is None:
        return states
    return (*states, gs.render(scene, trajectory, (12, 12)))


def _load_scene(text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scene.yaml"
        file.write_text(text, encoding="utf-8", errors="surrogateescape")
        return _run(gs.load_scene(file))


def _build_scene(given: tuple[list[Any], dict[str, Any]]) -> Any:
    bodies, around = given
    made = [kind(**{**arguments, **_numbered(arguments, k)}) for k, (kind, arguments) in enumerate(bodies)]
    return _run(
        gs.Scene(made, ground=gs.Ground(**around["ground"]), camera=gs.Camera(**around["camera"]), **around["scene"])
    )


def _numbered(arguments: dict[str, Any], number: int) -> dict[str, Any]:
    name = arguments["name"]
    return {"name": f"body{number}"} if isinstance(name, str) and name == "body" else {}


def _load_file(given: tuple[str, bytes], load: Callable[[Path], Any]) -> Any:
    suffix, content = given
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"input{suffix}"
        file.write_bytes(content)
        return load(file)


def _load_robot(file: Path) -> Any:
    return _run(gs.Scene([gs.load_robot(file).body]))


def _call(given: tuple[Callable[..., Any], dict[str, Any]]) -> Any:
    function, arguments = given
    return function(**arguments)


def build_kernels() -> None:
    """Compiles the kernels that valid inputs need: the time that takes is not part of an attempt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for document in strategies.documents():
            _load_scene(yaml.safe_dump(document, sort_keys=False))
        worlds = [(gs.Ball, {"name": "body", "radius": 0.1, "mass": np.ones(2), "position": (k, 1, 0)}) for k in (0, 1)]
        _build_scene((worlds, {"ground": {}, "camera": {"eye": (0, 1, 4), "target": (0, 1, 0)}, "scene": {}}))


def _video(file: Path) -> torch.Tensor:
    return gs.load_video(file, fps=10.0).frames


SCENES = st.tuples(st.lists(strategies.bodies(), min_size=1, max_size=2), strategies.surroundings())
ATTACKS = (
    Attack("scene files", strategies.scene_texts(), _load_scene),
    Attack("scenes", SCENES, _build_scene),
    Attack("videos", strategies.files(strategies.videos), lambda given: _load_file(given, _video)),
    Attack("meshes", strategies.files(strategies.meshes), lambda given: _load_file(given, gs.load_mesh)),
    Attack("robots", robot_files(), lambda given: _load_file(given, _load_robot)),
    Attack("records", record_files(), load_record),
    Attack("calls", calls(), _call),
)
