"""`gradsim view`: a scene in 3D in the browser."""

from __future__ import annotations

import json
import re
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from gradsim.cli.console import announce_compilation, console
from gradsim.cli.inputs import load_clip, substeps_at
from gradsim.cli.options import Dtype, SetOption, parse_values
from gradsim.footage.prepared_files import is_prepared
from gradsim.scene.errors import InvalidInput
from gradsim.scene.files.load import SceneFile, load_scene_file
from gradsim.scene.memory import TEXT_MEMORY, check_file
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.video.video import Video

COMPONENT = re.compile(r"^(.*?)((?:\[\d+\])*)$")


def view(
    scene: Annotated[
        str, typer.Argument(help="A scene file, the name of a built-in scene, or a folder of `gradsim prepare`.")
    ],
    video: Annotated[
        Path | None, typer.Argument(help="A video of the scene, shown in its camera and beside the simulated one.")
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="Folder of `gradsim estimate -o`: start from its values instead of the guesses.")
    ] = None,
    values: SetOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on; by default this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; if it is taken, the next free one.", min=1, max=65535)] = 8080,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Look at a scene in 3D in the browser, move its unknowns with sliders, and save a better guess.

        gradsim view bouncing_cube

        gradsim view scene.yaml video.mp4 --fit out/

        gradsim view prepared/ --fit out/

    Ctrl-C ends it. Needs `pip install 'gradsim[view]'`.
    """
    from gradsim.view.viewer import Viewer

    file, clip, observations = _load(scene)
    if video is not None:
        clip = load_clip(video, frames=None, crop=None, size=None, fps=None, dtype=Dtype.FLOAT32)
    rate = (clip.fps if clip is not None else None) or file.time.fps
    frames = file.time.frames if clip is None else len(clip)
    time = Time(frames, rate, substeps_at(file.time, rate), file.time.integrator)
    start = {} if fit is None else fitted_values(file.scene, fit)
    start |= parse_values(values or [], file.scene)
    announce_compilation(Dtype.FLOAT64.torch)
    viewer = Viewer(file.scene, video=clip, observations=observations, time=time, values=start, host=host, port=port)
    console.print_line(f"{viewer.url} shows {scene}; Ctrl-C ends it")
    if open_page:
        webbrowser.open(viewer.url)
    try:
        viewer.wait()
    except KeyboardInterrupt:
        viewer.stop()


def _load(scene: str) -> tuple[SceneFile, Video | None, list[Any]]:
    """Returns a scene file, and the pictures and observations of a prepared recording."""
    if not is_prepared(Path(scene)):
        return load_scene_file(scene), None, []
    from gradsim.cli.prepared_view import load_prepared_view

    return load_prepared_view(Path(scene))


def fitted_values(scene: Scene, folder: Path) -> dict[str, Any]:
    """Returns the values of a scene's unknowns in the fit.json of a folder, by path."""
    file = folder / "fit.json" if folder.is_dir() else folder
    check_file("--fit", file, TEXT_MEMORY)
    try:
        parameters = json.loads(file.read_text(encoding="utf-8"))["parameters"]
        values = _values_by_path(scene, {name: float(row["value"]) for name, row in parameters.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        remedy = "must be a folder that `gradsim estimate -o` wrote for this scene, with fit.json in it"
        raise InvalidInput("--fit", str(folder), remedy) from error
    if not values:
        raise InvalidInput("--fit", str(folder), f"has no values of {', '.join(scene.unknowns) or 'unknowns'}")
    return values


def _values_by_path(scene: Scene, numbers: dict[str, float]) -> dict[str, Any]:
    """Returns the values of unknowns from numbers with names such as cube.velocity[0]."""
    values: dict[str, Any] = {}
    for name, number in numbers.items():
        match = COMPONENT.match(name)
        path, text = (match[1], match[2]) if match else (name, "")
        index = tuple(int(k) for k in re.findall(r"\d+", text))
        if name in scene.unknowns:
            values[name] = number
        elif path in scene.unknowns:
            flat = values.setdefault(path, scene.unknowns[path].guess.copy())
            np.asarray(flat).reshape(-1)[index[-1]] = number
    return values
