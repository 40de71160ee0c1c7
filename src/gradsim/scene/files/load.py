"""Loading of scene files, and translation of errors to lines of the file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gradsim.scene.errors import InvalidInput, MeshFileError, SceneFileError, WrongType
from gradsim.scene.files.document import Document, Location, read_yaml
from gradsim.scene.files.schema import create_scene, scene_model
from gradsim.scene.files.values import LoadContext
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate, did_you_mean
from gradsim.scene.time import Time

YAML_TERMS = {  # for terms in the messages of pydantic
    "an instance of Sequence": "a list",
    "a valid tuple": "a list",
    "an instance of Mapping": "a mapping",
}
BUNDLED_SCENES = Path(__file__).parents[2] / "scenes"  # folder of the scenes included in the package

_default_folder: Path | None = None  # of all scene files, set by the command line


@dataclass(frozen=True, eq=False)
class SceneFile:
    """Content of a scene file."""

    scene: Scene
    time: Time
    path: Path


def load_scene(path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None) -> Scene:
    """Loads a scene from a YAML file.

    Example:
        `gs.load_scene("bouncing_cube")`

    Args:
        path: Path of the file, or the name of a scene included in gradsim, such as "bouncing_cube".
        folder: Folder that holds the meshes and arrays that the file names; others are refused. That of the file if
            None.

    Raises:
        SceneFileError: The file is missing, is not valid YAML, or has invalid content; the message contains the line.
    """
    return load_scene_file(path, folder=folder).scene


def load_scene_file(path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None) -> SceneFile:
    """Loads a scene and its time settings from a YAML file; see `load_scene`.

    Example:
        `gs.load_scene_file("bouncing_cube").time`
    """
    if not isinstance(path, (str, os.PathLike)):
        raise WrongType("path", abbreviate(path), "must be the path of a scene file, or the name of an included scene")
    file = _resolve_path(Path(path))
    document = _read_document(file)
    context = LoadContext(file.parent, Path(folder or _default_folder or file.parent))
    try:
        model = scene_model().model_validate(document.data, context=context)
    except ValidationError as error:
        errors = [_from_pydantic(file, document, details) for details in error.errors(include_url=False)]
        raise min(errors, key=lambda one: one.line or 0) from None
    try:
        scene, time = create_scene(model)
    except InvalidInput as error:
        raise _with_line(file, document, _body_location(document, error), error) from None
    return SceneFile(scene, time, file)


def set_default_folder(folder: Path | None) -> None:
    """Sets the folder that may hold the files of scenes where `load_scene` is given none; None for that of the file."""
    global _default_folder
    _default_folder = folder


def bundled_scenes() -> list[str]:
    """Returns the names of the scenes included in the package."""
    return sorted(file.stem for file in BUNDLED_SCENES.glob("*.yaml"))


def _resolve_path(path: Path) -> Path:
    """Returns the path of an existing file: the given one, or the bundled scene of that name."""
    try:
        if path.is_file():
            return path
        if path.exists():
            kind = "a folder" if path.is_dir() else "a device or pipe"
            raise SceneFileError(str(path), None, "file", kind, "must be a YAML file")
    except OSError as error:  # such as a name of thousands of characters
        value = error.strerror or type(error).__name__
        raise SceneFileError(abbreviate(str(path)), None, "file", value, "must be a YAML file") from None
    names = bundled_scenes()
    if path.name in names and str(path) == path.name:
        return BUNDLED_SCENES / f"{path.name}.yaml"
    hint = did_you_mean(path.stem, names) if str(path) == path.name else ""
    valid = f"{hint}give an existing YAML file, or the name of a scene included in gradsim: {', '.join(names)}"
    raise SceneFileError(str(path), None, "file", "missing", valid)


def _read_document(file: Path) -> Document:
    try:
        document = read_yaml(file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problem = ", ".join(text for text in (error.context, error.problem) if text)
        raise SceneFileError(str(file), line, "text", "not valid YAML", f"{problem}{_remedy(problem)}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).replace("\n", " ")
        raise SceneFileError(str(file), None, "text", "not valid YAML", f"must be UTF-8 text ({reason})") from None
    if document is None or document.data is None:
        raise SceneFileError(str(file), None, "text", "empty", "a scene file needs at least 'bodies:' with one body")
    return document


def _remedy(problem: str) -> str:
    if "'\\t'" in problem:
        return ": indent with spaces, not with tabs"
    if "given twice" in problem:
        return ": keep one of the two"
    return ": check for a missing space after ':', an unclosed bracket, or inconsistent indentation"


def _from_pydantic(file: Path, document: Document, details: Any) -> SceneFileError:
    """Converts the details of a pydantic error to a SceneFileError."""
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return _with_line(file, document, details["loc"], cause)
    location = document.resolve(details["loc"])
    valid = details["msg"].replace("Input should", "must")
    for pydantic_term, yaml_term in YAML_TERMS.items():
        valid = valid.replace(pydantic_term, yaml_term)
    name, value = _quantity_path(document, location), abbreviate(details["input"])
    return SceneFileError(str(file), document.line(location), name, value, valid)


def _with_line(file: Path, document: Document, loc: Location, error: InvalidInput) -> SceneFileError:
    """Converts the error of a scene object to a SceneFileError.

    `loc` is the location of the object in the file; the error names the field.
    """
    location = document.resolve(loc)
    name, value, field = _quantity_path(document, location), error.value, error.name.partition(".")[2] or error.name
    if isinstance(error, MeshFileError):
        value, field = f"{error.name} ({error.value})", ""
    keys = [key for key in re.findall(r"\w+", field) if document.resolve((*location, key)) != location]
    label = ".".join(text for text in (name, field) if text).replace(".[", "[") or "file"
    return SceneFileError(str(file), document.line((*location, *keys[:1])), label, value, error.valid)


def _body_location(document: Document, error: InvalidInput) -> Location:
    """Returns the location of the body that an error of the whole scene names; the last one of bodies of equal name."""
    for k, body in reversed(list(enumerate(document.data["bodies"]))):
        ((key, fields),) = body.items()
        name = fields["name"]
        if error.name.startswith(f"{name}.") or (error.name, error.value) == ("name", repr(name)):
            return "bodies", k, key
    return ()


def _quantity_path(document: Document, location: Location) -> str:
    """Returns the path of the quantity at a location: `cube.density` for bodies[0].rigid.density."""
    steps = list(location)
    if len(steps) > 2 and steps[0] in ("bodies", "lights", "shapes"):
        section, item, _, *fields = steps
        name = document.at(steps[:3]).get("name") if isinstance(document.at(steps[:3]), dict) else None
        if section == "shapes":
            steps = [item, *fields]
        elif section == "lights":
            steps = [section, item, *fields]
        elif isinstance(name, str) and name.isidentifier():
            steps = [name, *fields]
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")
