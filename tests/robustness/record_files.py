"""Hypothesis strategy for the files beside scenes: trajectories, tables, manifests, lenses, fits and data sets."""

from __future__ import annotations

import functools
import io
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies as st
from tests.robustness.strategies import INTEGERS, NUMBERS, TEXTS, changed, changed_documents, odd_arrays

import gradsim as gs
from gradsim.cli.manifest import load_manifest
from gradsim.cli.view import fitted_values
from gradsim.footage.lens_files import load_lens

SCENE = """
bodies:
- ball: {name: ball, radius: 0.1, mass: {file: array.npy}, velocity: {unknown: [1, 0, 0]}}
- ball: {name: other, radius: 0.1, mass: {file: arrays.npz, key: mass}, position: [1, 0, 0]}
camera: {eye: [0, 1, 3], target: [0, 0, 0]}
time: {frames: 3, fps: 10}
"""
STATES = "time,ball.position.x,ball.position.y,ball.position.z\n0.0,0,0,0\n0.1,0.1,0,0\n0.2,0.2,0,0\n"
POINTS = "time,ball.center.x,ball.center.y,ball.center.sd.x,ball.center.sd.y\n0.0,3,4,1,1\n0.1,4,4,1,1\n0.2,5,4,1,1\n"
TRIALS: Any = {
    "scene": "scene.yaml",
    "trials": [
        {"states": "states.csv", "noise": 0.01, "set": {"other.mass": 2.0}},
        {"tracks": "points.csv", "size": "16x16", "name": "b", "robust": 1.0},
        {"video": "video.npz", "shutter": "4ms", "background": "auto", "fps": 10, "frames": "0:3", "crop": "0,0,8,8"},
    ],
}
ROWS = "video,scene,fps,shutter,frames,ball.velocity\nvideo.npz,scene.yaml,10,0.5,0:3,1 0 0\n"
LENS = {"size": [48, 64], "fx": 60.0, "fy": 60.0, "cx": 32.0, "cy": 24.0, "k1": 0.1, "sd": {"fx": 1.0}}
FIT = {"parameters": {f"ball.velocity[{k}]": {"value": 0.1 * k} for k in range(3)}}
SETTINGS = {"format": 1, "kind": "rigid", "camera": {}}
MANIFEST = "name,object,split,video,states,scene,ball.mass\n0,ball,train,../video.npz,states.npz,../scene.yaml,1.5\n"


def known_scene() -> gs.Scene:
    """The scene of the trajectory and the fit."""
    return gs.Scene([gs.Ball("ball", radius=0.1, mass=1.0, velocity=(1.0, 0.0, 0.0))])


@functools.cache
def motion() -> Mapping[str, np.ndarray]:
    """The arrays of a trajectory file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "motion.npz"
        gs.save_trajectory(file, gs.simulate(known_scene(), frames=3, fps=10, substeps=4))
        with np.load(file) as stored:
            return dict(stored)


DOCUMENTS = {"trials.yaml": TRIALS, "lens.yaml": LENS, "fit.json": FIT, "set/dataset.json": SETTINGS}
TABLES = {"states.csv": STATES, "points.csv": POINTS, "rows.csv": ROWS, "set/manifest.csv": MANIFEST}
ARRAYS: dict[str, Callable[[], Mapping[str, np.ndarray]]] = {
    "arrays.npz": lambda: {"mass": np.array(1.0), "more": np.ones(3)},
    "measured.npz": lambda: {"ball.position": np.ones((4, 3)), "time": np.arange(4.0)},
    "motion.npz": motion,
    "set/states.npz": lambda: {"time": np.arange(3.0), "ball.position": np.ones((3, 3))},
    "video.npz": lambda: {"frames": np.full((3, 16, 16, 3), 0.5), "fps": np.array(10.0)},
}


def _load_fit(folder: Path) -> Any:
    unknown = gs.Ball("ball", radius=0.1, mass=1.0, velocity=gs.unknown((1.0, 0.0, 0.0)))
    return fitted_values(gs.Scene([unknown]), folder / "fit.json")


def _load_set(folder: Path) -> Any:
    videos = gs.datasets.VideoDataset(folder / "set")
    return [(videos.states_of(k), videos.truth(k)) for k in range(len(videos))]


LOADERS: dict[str, Callable[[Path], Any]] = {
    "array.npy": lambda folder: gs.load_scene(folder / "scene.yaml"),
    "arrays.npz": lambda folder: gs.load_scene(folder / "scene.yaml"),
    "measured.npz": lambda folder: gs.load_states(folder / "measured.npz"),
    "motion.npz": lambda folder: gs.load_trajectory(folder / "motion.npz", known_scene()).vertices,
    "lens.yaml": lambda folder: load_lens(folder / "lens.yaml"),
    "fit.json": _load_fit,
    "rows.csv": lambda folder: load_manifest(folder / "rows.csv"),
    **dict.fromkeys(
        ("trials.yaml", "states.csv", "points.csv", "video.npz"), lambda folder: load_manifest(folder / "trials.yaml")
    ),
    **dict.fromkeys(("set/dataset.json", "set/manifest.csv", "set/states.npz"), _load_set),
}


def saved(array: Any) -> bytes:
    """The bytes of a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(arrays: Mapping[str, Any]) -> bytes:
    """The bytes of a .npz file."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def texts() -> dict[str, str]:
    """The valid text files."""
    written = {
        name: json.dumps(value) if name.endswith("json") else yaml.safe_dump(value) for name, value in DOCUMENTS.items()
    }
    return {"scene.yaml": SCENE, **written, **TABLES}


@st.composite
def changed_arrays(draw: st.DrawFn, arrays: Mapping[str, np.ndarray]) -> bytes:
    """A .npz file in which one array is replaced, left out, renamed or added."""
    given: dict[str, Any] = dict(arrays)
    change = draw(st.sampled_from(("none", "replace", "replace", "delete", "rename", "add")))
    name = draw(st.sampled_from(sorted(given)))
    value: Any = np.asarray(
        draw(odd_arrays().filter(lambda value: not isinstance(value, (gs.Signal, type(gs.unknown(1.0))))))
    )
    if change == "replace":
        given[name] = value if draw(st.booleans()) else np.atleast_1d(given[name])[..., :0]
    elif change in ("delete", "rename"):
        array = given.pop(name)
        given |= {"other": array} if change == "rename" else {}
    elif change == "add":
        given["ball.other"] = value
    return archive(given)


@st.composite
def changed_tables(draw: st.DrawFn, text: str) -> bytes:
    """A table in which a few cells are replaced, left out or repeated."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(draw(st.integers(0, 3))):
        row = draw(st.sampled_from(rows))
        column = draw(st.integers(0, max(0, len(row) - 1)))
        value = str(draw(st.sampled_from((*NUMBERS, *INTEGERS, *TEXTS, "ball.position[0]", "time", "1_0", "../x.npz"))))
        row[column : column + 1] = draw(st.sampled_from(([value], [value], [], [value, value])))
    return "\n".join(",".join(row) for row in rows).encode(errors="surrogatepass")


@st.composite
def record_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """The name of one of the files, and its changed content."""
    name = draw(st.sampled_from(sorted(LOADERS)))
    if name in DOCUMENTS:
        document = draw(changed_documents(DOCUMENTS[name]))
        content = json.dumps(document).encode() if name.endswith("json") else yaml.safe_dump(document).encode()
    elif name in TABLES:
        content = draw(changed_tables(TABLES[name]))
    elif name in ARRAYS:
        content = draw(changed_arrays(ARRAYS[name]()))
    else:
        content = saved(
            draw(st.sampled_from((1.0, 2, np.ones(3), np.float32(1.0), True, np.array(["x"]), 1j, np.zeros(0))))
        )
    return name, draw(changed(content)) if draw(st.integers(0, 5)) == 0 else content


def load_record(given: tuple[str, bytes]) -> Any:
    """Writes all files, one of them changed, and loads that one."""
    name, content = given
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "set").mkdir()
        for other, text in texts().items():
            (folder / other).write_text(text, encoding="utf-8")
        for other, arrays in ARRAYS.items():
            (folder / other).write_bytes(archive(arrays()))
        (folder / "array.npy").write_bytes(saved(1.0))
        (folder / name).write_bytes(content)
        return LOADERS[name](folder)
