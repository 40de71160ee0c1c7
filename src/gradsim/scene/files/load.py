"""load_scene(): from a scene file to the scene it describes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gradsim.scene.errors import InvalidInput, MeshFileError, SceneFileError
from gradsim.scene.files.document import Document, Place, parsed
from gradsim.scene.files.forms import read_scene, scene_model
from gradsim.scene.files.values import short
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import did_you_mean
from gradsim.scene.time import Time

PLAIN_WORDS = {"an instance of Sequence": "a list", "a valid tuple": "a list", "an instance of Mapping": "a mapping"}
READY = Path(__file__).parents[2] / "scenes"  # the scenes that come with the package


@dataclass(frozen=True, eq=False)
class SceneFile:
    """What a scene file describes."""

    scene: Scene
    time: Time
    path: Path


def load_scene(path: str | os.PathLike[str]) -> Scene:
    """The scene a YAML file describes.

    Args:
        path: The file; or the name of a scene that comes with gradsim, such as "bouncing_cube".

    Raises:
        SceneFileError: The file is missing, is no YAML, or says something that cannot be; tells the line.
    """
    return load_scene_file(path).scene


def load_scene_file(path: str | os.PathLike[str]) -> SceneFile:
    """The scene a YAML file describes, with the time settings that are in the file too; see `load_scene`."""
    file = _found(Path(path))
    document = _document(file)
    try:
        model = scene_model().model_validate(document.data, context=file.parent)
    except ValidationError as error:
        found = [_translated(file, document, one) for one in error.errors(include_url=False)]
        raise min(found, key=lambda one: one.line or 0) from None
    try:
        scene, time = read_scene(model)
    except InvalidInput as error:
        raise _placed(file, document, _body(document, error), error) from None
    return SceneFile(scene, time, file)


def ready_scenes() -> list[str]:
    """Names of the scenes that come with the package."""
    return sorted(file.stem for file in READY.glob("*.yaml"))


def _found(path: Path) -> Path:
    """An existing file: the given one, or the ready scene of that name."""
    if path.is_file():
        return path
    if path.is_dir():
        raise SceneFileError(str(path), None, "file", "a folder", "must be a YAML file")
    names = ready_scenes()
    if path.name in names and str(path) == path.name:
        return READY / f"{path.name}.yaml"
    hint = did_you_mean(path.stem, names) if str(path) == path.name else ""
    valid = f"{hint}give an existing YAML file, or one of the scenes that come with gradsim: {', '.join(names)}"
    raise SceneFileError(str(path), None, "file", "missing", valid)


def _document(file: Path) -> Document:
    try:
        document = parsed(file.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        what = ", ".join(text for text in (error.context, error.problem) if text)
        raise SceneFileError(str(file), line, "text", "no YAML", f"{what}{_hint(what)}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).replace("\n", " ")
        raise SceneFileError(str(file), None, "text", "no YAML", f"must be a text in UTF-8 ({reason})") from None
    if document is None or document.data is None:
        raise SceneFileError(str(file), None, "text", "empty", "a scene file needs at least 'bodies:' with one body")
    return document


def _hint(what: str) -> str:
    if "'\\t'" in what:
        return ": indent with spaces, not with tabs"
    if "given twice" in what:
        return ": keep one of the two"
    return ": look for a missing space after ':', a bracket that is not closed, or a line indented otherwise"


def _translated(file: Path, document: Document, error: Any) -> SceneFileError:
    """What pydantic found, in the words of all other errors."""
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return _placed(file, document, error["loc"], cause)
    place = document.found(error["loc"])
    valid = error["msg"].replace("Input should", "must")
    for technical, plain in PLAIN_WORDS.items():
        valid = valid.replace(technical, plain)
    return SceneFileError(str(file), document.line(place), _path(document, place), short(error["input"]), valid)


def _placed(file: Path, document: Document, loc: Place, error: InvalidInput) -> SceneFileError:
    """A noun's error at its place in the file: the noun knows which of its fields is wrong, the place which noun."""
    place = document.found(loc)
    name, value, field = _path(document, place), error.value, error.name.partition(".")[2] or error.name
    if isinstance(error, MeshFileError):
        value, field = f"{error.name} ({error.value})", ""
    words = [word for word in re.findall(r"\w+", field) if document.found((*place, word)) != place]
    label = ".".join(text for text in (name, field) if text) or "file"
    return SceneFileError(str(file), document.line((*place, *words[:1])), label, value, error.valid)


def _body(document: Document, error: InvalidInput) -> Place:
    """Where the body is described that a whole scene finds fault with; of two with one name the second."""
    for k, body in reversed(list(enumerate(document.data["bodies"]))):
        ((kind, fields),) = body.items()
        name = fields["name"]
        if error.name.startswith(f"{name}.") or (error.name, error.value) == ("name", repr(name)):
            return "bodies", k, kind
    return ()


def _path(document: Document, place: Place) -> str:
    """A place as the path of a quantity: `cube.density` instead of bodies[0].rigid.density."""
    steps = list(place)
    if len(steps) > 2 and steps[0] in ("bodies", "lights", "shapes"):
        section, which, _, *fields = steps
        name = document.at(steps[:3]).get("name") if isinstance(document.at(steps[:3]), dict) else None
        if section == "shapes":
            steps = [which, *fields]
        elif section == "lights":
            steps = [section, which, *fields]
        elif isinstance(name, str) and name.isidentifier():
            steps = [name, *fields]
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")
