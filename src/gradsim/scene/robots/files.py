"""Reading of robot files: includes and references to other files are resolved here, below one folder.

MuJoCo's parser receives one document without includes, and the contents of all files that it names; it opens none
itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gradsim.scene.arguments import checked_path
from gradsim.scene.errors import InvalidInput, OutOfRange

MAX_XML = 32_000_000  # [bytes]
MAX_ASSETS = 1_000_000_000  # of all files that a robot names [bytes]
MAX_INCLUDES = 100
PACKAGE = "package://"
MESHES = (".stl", ".obj", ".msh")  # that MuJoCo reads


@dataclass
class RobotSource:
    """A robot file as one document, with the files that it names."""

    path: Path
    folder: Path  # below which all files lie
    root: Any  # element of the document, with the names of `assets`
    original: Any  # the file's own element, unchanged
    assets: dict[str, bytes] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)  # of the assets
    unsupported: list[str] = field(default_factory=list)

    @property
    def is_urdf(self) -> bool:
        return bool(self.root.tag == "robot")

    @property
    def xml(self) -> str:
        return ElementTree.tostring(self.root, encoding="unicode")


def read_robot_file(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None) -> RobotSource:
    """Reads a URDF or MJCF file and the files that it names.

    Raises:
        InvalidInput: The file is missing or not a robot, or names a file outside the folder.
    """
    file = checked_path("path", path)
    root = _parse(file)
    if root.tag not in ("robot", "mujoco"):
        raise InvalidInput("path", f"{file} with <{root.tag}>", "must be a URDF (<robot>) or MJCF (<mujoco>) file")
    source = RobotSource(file, Path(folder or file.parent).resolve(), root, _parse(file))
    if not file.resolve().is_relative_to(source.folder):
        raise InvalidInput("folder", str(folder), f"{file} does not lie below it")
    if source.is_urdf:
        _prepare_urdf(source)
    else:
        _expand_includes(source)
        _prepare_mjcf(source)
    return source


def _parse(file: Path) -> Any:
    try:
        if file.stat().st_size > MAX_XML:
            raise OutOfRange("path", str(file), f"is larger than {MAX_XML} bytes")
        text = file.read_bytes()
    except OSError as error:
        raise InvalidInput("path", str(file), f"cannot be read ({error.strerror})") from None
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise InvalidInput("path", str(file), "must not define a document type or entities")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InvalidInput("path", str(file), f"is not valid XML ({error})") from None


def _inside(source: RobotSource, path: Path, name: str) -> Path:
    """Returns the resolved path of a file that must lie below the folder."""
    found = path.resolve()
    if not found.is_relative_to(source.folder):
        remedy = f"lies outside {source.folder}: give folder=, a folder that holds all files of the robot"
        raise InvalidInput("path", name, remedy)
    if not found.is_file():
        raise InvalidInput("path", name, f"no such file ({found})")
    return found


def _add_asset(source: RobotSource, path: Path, name: str) -> str:
    """Reads a file and returns its name in the document."""
    found = _inside(source, path, name)
    known = next((asset for asset, place in source.places.items() if place == found), None)
    if known is not None:
        return known
    size = found.stat().st_size + sum(map(len, source.assets.values()))
    if size > MAX_ASSETS:
        raise OutOfRange("path", name, f"the files of the robot have more than {MAX_ASSETS} bytes")
    asset = f"asset_{len(source.assets)}{found.suffix.lower()}"
    source.assets[asset], source.places[asset] = found.read_bytes(), found
    return asset


# --- URDF ------------------------------------------------------------------------------------------------------------


def _prepare_urdf(source: RobotSource) -> None:
    """Names meshes by their assets, and asks MuJoCo to keep visuals and fixed links."""
    root = source.root
    compiler = {"strippath": "true", "discardvisual": "false", "fusestatic": "false", "balanceinertia": "false"}
    for own in root.findall("mujoco"):
        root.remove(own)
    mujoco = ElementTree.SubElement(root, "mujoco")
    ElementTree.SubElement(mujoco, "compiler", compiler)
    for link in root.findall("link"):
        for kind in ("visual", "collision"):
            for shape in link.findall(kind):
                mesh = shape.find("geometry/mesh")
                if mesh is None:
                    continue
                name = mesh.get("filename", "")
                if Path(name).suffix.lower() not in MESHES:
                    source.unsupported.append(f"{kind} mesh {name} of link {link.get('name')}")
                    link.remove(shape)
                    continue
                mesh.set("filename", _add_asset(source, _urdf_path(source, name), name))


def _urdf_path(source: RobotSource, name: str) -> Path:
    """Returns the path of a mesh; `package://name/rest` is searched below the folder with and without `name`."""
    name = name.removeprefix("file://")
    if not name.startswith(PACKAGE):
        return source.path.parent / name
    rest = Path(name.removeprefix(PACKAGE))
    inner = source.folder / Path(*rest.parts[1:])
    return inner if inner.is_file() else source.folder / rest


# --- MJCF ------------------------------------------------------------------------------------------------------------


def _expand_includes(source: RobotSource) -> None:
    """Replaces includes by the elements of the included files, which may include others."""
    count = 0
    queue = [source.root]
    while queue:
        parent = queue.pop()
        for place, child in reversed(list(enumerate(parent))):
            if child.tag != "include":
                queue.append(child)
                continue
            count += 1
            if count > MAX_INCLUDES:
                raise OutOfRange("path", str(source.path), f"has more than {MAX_INCLUDES} includes")
            name = child.get("file", "")
            included = _parse(_inside(source, source.path.parent / name, name))
            parent.remove(child)
            for offset, element in enumerate(included):
                parent.insert(place + offset, element)
            queue.append(parent)
            break


def _prepare_mjcf(source: RobotSource) -> None:
    """Names all files by their assets, and removes what could load code."""
    folders = {"mesh": "", "texture": ""}
    for compiler in source.root.iter("compiler"):
        for kind in folders:
            folders[kind] = compiler.get(f"{kind}dir", compiler.get("assetdir", folders[kind]))
        for name in ("meshdir", "texturedir", "assetdir"):
            compiler.attrib.pop(name, None)
    for parent in list(source.root.iter()):
        for child in list(parent):
            if child.tag in ("extension", "plugin"):
                source.unsupported.append(f"{child.tag} {child.get('plugin', child.get('name', ''))}".strip())
                parent.remove(child)
            elif child.tag == "model":
                raise InvalidInput(
                    "path", f"<model> {child.get('name', '')}", "models of further files are not supported"
                )
    for element in source.root.iter():
        base = source.path.parent / folders.get(element.tag, "")
        for name in [name for name in element.attrib if name.startswith("file")]:
            given = element.get(name, "")
            if name == "file" and element.get("name") is None:
                element.set("name", Path(given).stem)
            element.set(name, _add_asset(source, base / given, given))
