"""Files of lenses, in YAML: the parameters, their standard deviations and correlations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from gradsim.footage.lens import PARAMETERS, Lens
from gradsim.scene.arguments import checked_path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import GradsimError, InvalidInput, LensFileError
from gradsim.scene.files.document import dump_yaml, read_yaml

SUFFIXES = (".yaml", ".yml")
KEYS = ("size", *PARAMETERS, "sd", "correlations")


def save_lens(lens: Lens, path: str | os.PathLike[str]) -> None:
    """Writes a lens to a .yaml file atomically, with full precision."""
    file = check_suffix(path)
    text = dump_yaml(_content(lens))
    write_atomically(file, lambda target: target.write_text(text, encoding="utf-8"), LensFileError)


def load_lens(path: str | os.PathLike[str]) -> Lens:
    """Reads a lens from a file that `save_lens` or `gradsim calibrate` wrote.

    Standard deviations and correlations may be missing: they are zero then.

    Raises:
        LensFileError: The file is missing, or is not the file of a lens.
    """
    file = check_suffix(path)
    if not file.is_file():
        raise LensFileError(str(file), "no such file", "needs an existing file: write one with gradsim calibrate")
    content = _parsed(file)
    try:
        values = {name: float(content.get(name, 0.0)) for name in PARAMETERS}
        height, width = content["size"]
        return Lens(**values, size=(height, width), covariance=_covariance(content))
    except KeyError as error:
        raise LensFileError(str(file), f"no {error}", f"needs {', '.join(KEYS[:5])}") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = str(error) if isinstance(error, GradsimError) else f"invalid numbers ({error})"
        raise LensFileError(str(file), reason, "needs the numbers that gradsim calibrate writes") from None


def _parsed(file: Path) -> dict[str, Any]:
    try:
        document = read_yaml(file)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LensFileError(str(file), "not YAML", f"needs a file from gradsim calibrate ({error})") from None
    if document is None or not isinstance(document.data, dict):
        raise LensFileError(str(file), "no mapping", "needs a file from gradsim calibrate")
    unknown = sorted(set(map(str, document.data)) - set(KEYS))
    if unknown:
        raise LensFileError(str(file), f"unknown key {unknown[0]!r}", f"has the keys {', '.join(KEYS)}")
    return document.data


def _content(lens: Lens) -> dict[str, Any]:
    deviations = np.array(list(lens.sd.values()))
    scale = np.where(deviations > 0, deviations, 1.0)
    correlations = lens.covariance / np.outer(scale, scale)
    values = {name: float(getattr(lens, name)) for name in PARAMETERS}
    return {"size": list(lens.size), **values, "sd": lens.sd, "correlations": correlations.tolist()}


def _covariance(content: dict[str, Any]) -> NDArray[np.float64]:
    stated = content.get("sd", {})
    deviations = np.array([float(stated.get(name, 0.0)) for name in PARAMETERS])
    correlations = np.asarray(content.get("correlations", np.eye(len(PARAMETERS))), np.float64)
    return np.asarray(correlations * np.outer(deviations, deviations))


def check_suffix(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a lens's file. Raises InvalidInput for another extension."""
    file = checked_path("path", path)
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidInput("file of a lens", str(file), f"must end in {' or '.join(SUFFIXES)}")
    return file
