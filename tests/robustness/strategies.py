"""Hypothesis strategies for inputs of all kinds: mostly valid, with one or a few values that are not."""

from __future__ import annotations

import copy
import functools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from hypothesis import strategies as st

import gradsim as gs

SCENES = Path(gs.__file__).parent / "scenes"
SHORT = {"frames": 3, "fps": 100, "substeps": 16}

NUMBERS = (0, 1, 2, 3, -1, 0.5, -0.0, 1e-3, 1e3, 1e-30, 1e30, 1e-300, 1e300, 5e-324, math.nan, math.inf, -math.inf)
INTEGERS = (2**31 - 1, 2**31, 2**32 + 1, 2**63, 10**12, 10**30, -(2**63))
TEXTS = ("", "x", "nan", "1e3", "../x", "box", "\x00", "ä\U0001f600", "9" * 400)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [[1, 2], [3]], {"unknown": 1.0}, {"a": {"a": 1}}, [1, "x"])


def odd_values() -> st.SearchStrategy[Any]:
    """Numbers at and beyond the limits, texts, and small structures, as a scene file can have them."""
    single = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(INTEGERS), st.sampled_from(TEXTS))
    return st.one_of(
        single, st.sampled_from(OTHERS), st.floats(), st.integers(), st.text(max_size=8), st.lists(single, max_size=4)
    )


# ------------------------------------------------------------------------------------------------------- scene files


@functools.cache
def documents() -> tuple[Any, ...]:
    """The shipped scenes, shortened, and one with the bodies and options that they lack."""
    shipped = [yaml.safe_load(file.read_text()) for file in sorted(SCENES.glob("*.yaml"))]
    for document in shipped:
        document["time"].update(SHORT)
    other = {
        "bodies": [
            {"springs": {"name": "net", "points": [[0, 1, 0], [0.3, 1, 0], [0.6, 1, 0.1]], "edges": [[0, 1], [1, 2]]}},
            {"pendulum": {"name": "bob", "length": 0.7, "angle": 0.3, "pivot": [0, 2, 0]}},
            {
                "soft": {
                    "name": "ball",
                    "mesh": {"tet_ball": {"radius": 0.2, "cells": 2}},
                    "density": 500.0,
                    "position": [1, 2, 0],
                }
            },
            {"ball": {"name": "marble", "radius": 0.1, "mass": 0.2, "position": [-1, 0.5, 0]}},
        ],
        "ground": {"ke": 1e3, "mu": 0.4, "look": {"tile": 1.0}},
        "shapes": {"pole": {"capsule": {"start": [2, 0, 0], "end": [2, 1, 0], "radius": 0.1}}},
        "camera": {"eye": [0, 1, 4], "target": [0, 0.5, 0]},
        "time": {**SHORT, "integrator": "midpoint"},
    }
    meeting = {
        "bodies": [
            {"rigid": {"name": "box", "mesh": {"box": 0.3}, "mass": 1.0, "position": [0, 0.2, 0]}},
            {"ball": {"name": "marble", "radius": 0.1, "mass": 0.2, "position": [0, 0.5, 0]}},
        ],
        "ground": {"ke": 1e3, "look": {"tile": 1.0}},
        "camera": {"eye": [0, 1, 4], "target": [0, 0.5, 0]},
        "time": {**SHORT, "integrator": "midpoint"},
    }
    return (*shipped, other, meeting, _jointed(), _smoothed())


def _jointed() -> Any:
    """A scene with an articulated body and rigid bodies with contact parameters of their own."""
    bar = {"box": [0.05, 0.3, 0.05]}
    hinge = {"revolute": {"angle": 0.5, "damping": 0.01, "low": -2.0, "high": 2.0, "gain": 0.1, "target": 0.2}}
    links = {
        "upper": {"joint": hinge, "mass": 1.0, "mesh": bar},
        "slide": {"joint": {"prismatic": {"stiffness": 20.0}}, "parent": "upper", "density": 500.0, "mesh": bar},
        "hand": {"joint": {"spherical": {}}, "parent": "slide", "position": [0, -0.3, 0], "mass": 0.5, "mesh": bar},
        "tip": {"parent": "hand", "position": [0, -0.1, 0]},
    }
    balls = [
        {"ball": {"name": name, "radius": 0.1, "mass": 0.2, "position": [k, 0.3, 0]}} for k, name in enumerate("ab")
    ]
    return {
        "bodies": [{"articulated": {"name": "arm", "links": links, "position": [0, 1.5, 0]}}, *balls],
        "pairs": {"a-b": {"ke": 500.0, "restitution": 0.5}},
        "ground": {"ke": 1e3, "friction": {"sticking": {}}, "look": {"tile": 1.0}},
        "camera": {"eye": [0, 1, 4], "target": [0, 0.5, 0]},
        "time": {**SHORT, "integrator": "symplectic_euler"},
    }


def _smoothed() -> Any:
    """A scene with smoothed elements, self contact, a tether and Verlet steps."""
    solid = {"name": "jelly", "mesh": {"tet_box": {"size": 0.3, "cells": 1}}, "density": 300.0, "position": [0, 0.5, 0]}
    solid |= {"element": {"smoothed_tet": {}}, "self_contact": {"ke": 100.0}, "pinned": [0]}
    ball = {"name": "marble", "radius": 0.1, "mass": 0.2, "position": [0.5, 0.6, 0]}
    return {
        "bodies": [{"soft": solid}, {"ball": ball}],
        "forces": [{"tether": {"name": "rope", "body": "jelly", "nodes": 1, "rigid": "marble", "stiffness": 20.0}}],
        "ground": {"ke": 1e3, "look": {"tile": 1.0}},
        "camera": {"eye": [0, 1, 4], "target": [0, 0.5, 0]},
        "time": {**SHORT, "integrator": "verlet"},
    }


def paths(node: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places below a node of a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in items for place in ((*prefix, key), *paths(value, (*prefix, key)))]


@st.composite
def changed_documents(draw: st.DrawFn, document: Any) -> Any:
    """A document in which a few places are changed."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        places = paths(document)
        if not places:
            break
        place = draw(st.sampled_from(places))
        parent = functools.reduce(lambda node, key: node[key], place[:-1], document)
        change = draw(st.sampled_from(("replace", "replace", "replace", "delete", "rename", "copy")))
        if change == "replace":
            parent[place[-1]] = copy.deepcopy(draw(odd_values()))  # later changes may be inside of it
        elif change == "delete":
            del parent[place[-1]]
        elif change == "copy":
            source = draw(st.sampled_from(places))
            parent[place[-1]] = copy.deepcopy(functools.reduce(lambda node, key: node[key], source, document))
        elif isinstance(parent, dict):
            parent[draw(st.sampled_from((*TEXTS, "mass", "mesh", "name", "unknown")))] = parent.pop(place[-1])
    return document


@st.composite
def scene_texts(draw: st.DrawFn) -> str:
    """Texts of scene files: a valid one with a few places changed, and sometimes its characters."""
    document = draw(changed_documents(draw(st.sampled_from(documents()))))
    text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    if draw(st.integers(0, 4)) == 0:
        text = draw(changed(text.encode())).decode(errors="replace")
    return text


# ------------------------------------------------------------------------------------------------------------- bytes


@st.composite
def changed(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes with some cut, inserted, repeated or overwritten."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from((1, 2, 4, 16, 200))))
        change = draw(st.sampled_from(("overwrite", "insert", "cut", "repeat", "end")))
        if change == "overwrite":
            content = content[:start] + draw(st.binary(min_size=end - start, max_size=end - start)) + content[end:]
        elif change == "insert":
            content = content[:start] + draw(st.binary(max_size=16)) + content[start:]
        elif change == "cut":
            content = content[:start] + content[end:]
        elif change == "repeat":
            content = content[:end] + content[start:end] + content[end:]
        else:
            content = content[:start]
    return content


@functools.cache
def videos() -> dict[str, bytes]:
    """A small video in each format."""
    frames = torch.linspace(0.0, 1.0, 6 * 16 * 16 * 3, dtype=torch.float64).reshape(6, 16, 16, 3)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".mp4", ".npz", ".npy", ".gif"):
            file = Path(folder) / f"video{suffix}"
            try:
                gs.save_video(file, frames, 10.0)
            except gs.InvalidInput:
                continue  # a format that is only read
            found[suffix] = file.read_bytes()
    return found


@functools.cache
def meshes() -> dict[str, bytes]:
    """A small mesh in each format."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".obj", ".ply", ".stl", ".off", ".glb"):
            file = Path(folder) / f"mesh{suffix}"
            try:
                gs.meshes.save_mesh(gs.meshes.icosphere(0.3, 1), file)
            except gs.InvalidInput:
                continue
            found[suffix] = file.read_bytes()
    return found


@st.composite
def files(draw: st.DrawFn, made: Callable[[], dict[str, bytes]]) -> tuple[str, bytes]:
    """A suffix and the content of a file, which may have been damaged or belong to another format."""
    known = made()
    suffix, content = draw(st.sampled_from(sorted(known))), draw(st.sampled_from(sorted(known)))
    own = suffix if draw(st.integers(0, 5)) else content
    return suffix, draw(changed(known[own]))


# ------------------------------------------------------------------------------------------------------------ scenes


def odd_arrays() -> st.SearchStrategy[Any]:
    """Arrays and tensors of odd shapes, types and values."""
    shapes = st.sampled_from(((), (1,), (3,), (4,), (2, 3), (3, 3), (0,), (0, 3), (2, 1, 3), (1, 1)))
    fill = st.sampled_from((0.0, 1.0, -1.0, 0.3, math.nan, math.inf, 1e200, 1e-200))
    arrays = st.builds(np.full, shapes, fill)
    return st.one_of(
        arrays,
        arrays.map(lambda a: torch.tensor(a, dtype=torch.float64)),
        arrays.map(lambda a: torch.tensor(a, dtype=torch.float32)),
        st.just(np.array(["x"])),
        st.just(torch.ones(3, dtype=torch.complex128)),
        st.just(gs.unknown(1.0)),
        st.just(gs.Signal(np.ones((5, 3)))),
    )


@st.composite
def options(draw: st.DrawFn, valid: dict[str, Any], odd: int = 2) -> dict[str, Any]:
    """Valid keyword arguments of which up to `odd` have another value."""
    count = draw(st.sampled_from((0, 0, 1, odd)))
    names = draw(st.lists(st.sampled_from(sorted(valid)), max_size=count, unique=True))
    return {**valid, **{name: draw(st.one_of(odd_values(), odd_arrays())) for name in names}}


LINK = {"mass": 1.0, "center": (0.0, -0.1, 0.0), "inertia": 0.01 * np.eye(3), "offset": (0.0, -0.3, 0.0)}
HINGE = {"axis": (0, 0, 1), "angle": 0.3, "damping": 0.1, "friction": 0.0, "low": -1.0, "high": 1.0, "torque": 0.1}


def jointed(joint: Any, name: Any, position: Any, rotation: Any = None, **given: Any) -> gs.Articulated:
    """An articulated body of two links, with the arguments of its links and of one hinge."""
    hinge = gs.Revolute(**{key: given[key] for key in HINGE})
    own = {"mass": given["mass"], "center": given["center"], "inertia": given["inertia"]}
    links = {"a": gs.Link(hinge, **own), "b": gs.Link(joint, "a", given["offset"], **own)}
    return gs.Articulated(name, links, position, rotation)


def bodies() -> st.SearchStrategy[tuple[Callable[..., Any], dict[str, Any]]]:
    """A class of bodies with keyword arguments."""
    place = {"name": "body", "position": (0.0, 0.6, 0.0), "velocity": (0.4, 0.0, 0.0)}
    turn = {"rotation": (0, 0, 0, 1), "angular_velocity": (0, 1, 0)}
    sheet = gs.meshes.grid(0.4, 2)
    kinds: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (gs.Rigid, {**place, **turn, "mesh": gs.meshes.box(0.3), "mass": 1.0}),
        (gs.Rigid, {**place, "mesh": gs.meshes.box(0.3), "density": 100.0, "pushes": [gs.Push(force=(1, 0, 0))]}),
        (gs.Ball, {**place, "radius": 0.1, "mass": 0.2, "drag": gs.Drag(quadratic=0.1)}),
        (gs.Soft, {**place, "mesh": gs.meshes.tet_box(0.3, 1), "density": 200.0, "actuation": 0.0, "pinned": None}),
        (gs.Soft, {**place, "mesh": gs.meshes.tet_box(0.3, 1), "mass": 0.1, "element": gs.SmoothedTet()}),
        (gs.Soft, {**place, "mesh": gs.meshes.tet_box(0.3, 1), "total_mass": 0.5, "self_contact": gs.SelfContact()}),
        (jointed, {"name": "body", "position": (0, 1, 0), "rotation": None, "joint": gs.Revolute(), **LINK, **HINGE}),
        (jointed, {"name": "body", "position": (0, 1, 0), "joint": gs.Spherical(), **LINK, **HINGE}),
        (gs.Articulated, {"name": "body", "links": {"a": gs.Link(gs.Free(), mass=1.0, inertia=np.eye(3))}}),
        (gs.Cloth, {**place, "mesh": sheet, "density": 0.2, "drag": 0.1, "lift": 0.1, "folding": 0.0}),
        (gs.Springs, {**place, "points": np.eye(3), "edges": [[0, 1], [1, 2]], "mass": 0.1, "stiffness": 50.0}),
        (gs.Pendulum, {"name": "body", "length": 0.7, "mass": 1.0, "angle": 0.3, "damping": 0.1, "bob": 0.1}),
        (gs.DoublePendulum, {"name": "body", "lengths": (0.5, 0.4), "masses": (1, 1), "angles": (0.3, 0.1)}),
        (gs.Smoke, {"name": "body", "size": (8, 8), "density": 1.0, "viscosity": 0.0, "buoyancy": 0.0, "length": 1.0}),
    ]  # fmt: skip
    return st.sampled_from(kinds).flatmap(lambda kind: st.tuples(st.just(kind[0]), options(kind[1])))


def surroundings() -> st.SearchStrategy[dict[str, Any]]:
    """Keyword arguments of the ground, the camera and the scene."""
    ground = {"ke": 1e3, "kd": 1.0, "mu": 0.5, "normal": (0.0, 1.0, 0.0), "offset": 0.0, "look": gs.Checker(tile=2.0)}
    camera = {"eye": (0.0, 1.0, 4.0), "target": (0.0, 0.5, 0.0), "fov": 45.0, "near": 0.01}
    scene = {"gravity": (0.0, -9.81, 0.0), "background": (1.0, 1.0, 1.0), "pairs": True, "shapes": {}, "forces": ()}
    return st.fixed_dictionaries(
        {"ground": options(ground, 1), "camera": options(camera, 1), "scene": options(scene, 1)}
    )
