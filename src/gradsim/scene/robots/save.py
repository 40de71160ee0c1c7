"""Writing of robots in the format of their file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.scene.joints import is_scalar
from gradsim.scene.quantity import to_numpy


def save_robot(robot: Any, path: str | os.PathLike[str], body: Articulated) -> None:
    """Writes a robot's file with the values of a body; see `Robot.save`."""
    if body.links.keys() != robot.body.links.keys():
        raise InvalidInput("body", body.name, f"must have the links of {robot.path}: {', '.join(robot.body.links)}")
    target = Path(path)
    text = _urdf(robot, body) if robot.source.is_urdf else _mjcf(robot, body, target)
    write_atomically(target, lambda file: file.write_text(text, encoding="utf-8"), InvalidInput)


def number(name: str, value: Any) -> np.ndarray:
    """Returns the numbers of a known quantity of one world."""
    array = to_numpy(value)
    if array is None:
        raise InvalidInput(name, value, "has no value")
    return np.asarray(array, dtype=np.float64)


def _numbers(link: Link) -> dict[str, np.ndarray]:
    """Returns the quantities of a link and its joint that are written."""
    found = {name: number(name, getattr(link, name)) for name in ("position", "mass", "center", "inertia")
             if getattr(link, name) is not None}  # fmt: skip
    if is_scalar(link.joint):
        for name in ("damping", "friction", "armature", "stiffness"):
            found[name] = number(name, getattr(link.joint, name))
    return found


def _text(values: Any) -> str:
    return " ".join(repr(float(value)) for value in np.ravel(values))


# --- URDF --------------------------------------------------------------------------------------------------------------


def _urdf(robot: Any, body: Articulated) -> str:
    root = robot.source.original
    for element in root.findall("link"):
        link, before = _pair(robot, body, robot.links.get(element.get("name")))
        if link is not None and "mass" in link and _changed(link, before, "mass", "center", "inertia"):
            _set_inertial(element, link)
    for element in root.findall("joint"):
        link, before = _pair(robot, body, robot.joints.get(element.get("name")))
        if link is None:
            continue
        if _changed(link, before, "position"):
            _child(element, "origin").set("xyz", _text(link["position"]))
        if _changed(link, before, "damping", "friction"):
            dynamics = _child(element, "dynamics")
            dynamics.set("damping", _text(link["damping"]))
            dynamics.set("friction", _text(link["friction"]))
    return ElementTree.tostring(root, encoding="unicode")


def _pair(robot: Any, body: Articulated, name: str | None) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    if name is None:
        return None, {}
    return _numbers(body.links[name]), _numbers(robot.body.links[name])


def _changed(link: dict[str, Any], before: dict[str, Any], *names: str) -> bool:
    return any(name in link and not np.array_equal(link[name], before.get(name)) for name in names)


def _child(element: Any, tag: str) -> Any:
    found = element.find(tag)
    return ElementTree.SubElement(element, tag) if found is None else found


def _set_inertial(element: Any, link: dict[str, Any]) -> None:
    inertial = _child(element, "inertial")
    origin = _child(inertial, "origin")
    origin.set("xyz", _text(link["center"]))
    origin.set("rpy", "0 0 0")
    _child(inertial, "mass").set("value", _text(link["mass"]))
    inertia = _child(inertial, "inertia")
    for row in range(3):
        for column in range(row, 3):
            inertia.set(f"i{'xyz'[row]}{'xyz'[column]}", _text(link["inertia"][row, column]))


# --- MJCF --------------------------------------------------------------------------------------------------------------


def _mjcf(robot: Any, body: Articulated, target: Path) -> str:
    """Changes the parsed model and writes it; files are named relative to the new one."""
    import mujoco

    source = robot.source
    spec = mujoco.MjSpec.from_string(source.xml, assets=source.assets)
    model = spec.compile()
    bodies = {name: link for name, link in robot.links.items()}
    for name, own in bodies.items():
        link, before = _pair(robot, body, own)
        element = spec.body(name)
        if link is None or element is None:
            continue
        if "mass" in link and _changed(link, before, "mass", "center", "inertia"):
            shift = np.array(model.body(name).ipos) - before["center"]  # from the link's origin to the body's
            element.explicitinertial = True
            element.mass = float(link["mass"])
            element.ipos = link["center"] + shift
            moments, axes = np.linalg.eigh(link["inertia"])
            axes[:, 0] *= np.sign(np.linalg.det(axes))
            turn = np.zeros(4)
            mujoco.mju_mat2Quat(turn, axes.ravel())
            element.inertia, element.iquat = moments, turn
        if _changed(link, before, "position"):
            element.pos = np.array(model.body(name).pos) + link["position"] - before["position"]
    fields = {"damping": "damping", "friction": "frictionloss", "armature": "armature", "stiffness": "stiffness"}
    for name, own in robot.joints.items():
        link, before = _pair(robot, body, own)
        for row, attribute in fields.items():
            if link is not None and _changed(link, before, row):
                _set_first(spec.joint(name), attribute, float(link[row]))
    text = str(spec.to_xml())
    for asset, place in source.places.items():
        text = text.replace(asset, os.path.relpath(place, target.resolve().parent))
    return text


def _set_first(element: Any, attribute: str, value: float) -> None:
    """Sets a number, or the first of several coefficients."""
    present = getattr(element, attribute)
    if np.ndim(present):
        present[0] = value
    else:
        setattr(element, attribute, value)
