"""Writing of robots in the format of their file."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from gradsim.scene.arguments import checked_path
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.scene.joints import is_scalar
from gradsim.scene.quantity import to_numpy


def save_robot(robot: Any, path: str | os.PathLike[str], body: Articulated) -> None:
    """Writes a robot's file with the values of a body; see `Robot.save`."""
    if body.links.keys() != robot.body.links.keys():
        raise InvalidInput("body", body.name, f"must have the links of {robot.path}: {', '.join(robot.body.links)}")
    target = checked_path("path", path)
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


# --- URDF ------------------------------------------------------------------------------------------------------------


def _urdf(robot: Any, body: Articulated) -> str:
    root = copy.deepcopy(robot.source.original)
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
    return any(name in link and not np.array_equal(link[name], before.get(name, ())) for name in names)


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


# --- MJCF ------------------------------------------------------------------------------------------------------------


def _mjcf(robot: Any, body: Articulated, target: Path) -> str:
    """Changes the file, with its includes; files are named relative to the new one."""
    source = robot.source
    root = copy.deepcopy(source.root)
    bodies = {element.get("name"): element for element in root.iter("body")}
    for name, own in robot.links.items():
        link, before = _pair(robot, body, own)
        element = bodies.get(name)
        if link is None or element is None:
            continue
        if "mass" in link and _changed(link, before, "mass", "center", "inertia"):
            _set_mjcf_inertial(element, link, np.asarray(robot.anchors[own]))
        if _changed(link, before, "position"):
            place = np.array([float(x) for x in element.get("pos", "0 0 0").split()])
            element.set("pos", _text(place + link["position"] - before["position"]))
    attributes = {"damping": "damping", "friction": "frictionloss", "armature": "armature", "stiffness": "stiffness"}
    for element in root.iter("joint"):
        link, before = _pair(robot, body, robot.joints.get(element.get("name")))
        for row, attribute in attributes.items():
            if link is not None and _changed(link, before, row):
                element.set(attribute, _text(link[row]))
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.startswith("file") and value in source.places:
                element.set(name, os.path.relpath(source.places[value], target.resolve().parent))
    for compiler in root.iter("compiler"):
        compiler.attrib.pop("inertiafromgeom", None)  # which would ignore the inertias written here
    return ElementTree.tostring(root, encoding="unicode")


def _set_mjcf_inertial(element: Any, link: dict[str, Any], anchor: np.ndarray) -> None:
    """Sets the inertia of a body; `anchor` is the origin of the link in the axes of the body."""
    inertial = _child(element, "inertial")
    inertial.attrib.clear()
    matrix = link["inertia"]
    six = (matrix[0, 0], matrix[1, 1], matrix[2, 2], matrix[0, 1], matrix[0, 2], matrix[1, 2])
    inertial.set("pos", _text(link["center"] + anchor))
    inertial.set("mass", _text(link["mass"]))
    inertial.set("fullinertia", _text(six))
