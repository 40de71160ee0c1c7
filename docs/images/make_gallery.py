"""Makes the pictures of the gallery: every example is run, and the last scene that it simulated is rendered.

    python docs/images/make_gallery.py                 all of them; a few minutes
    python docs/images/make_gallery.py tower dominoes  some of them

examples/NAME.webp     four moments of the motion, from left to right
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

import gradsim as gs
from gradsim.scene.smoke import SmokeMotion
from gradsim.view.player import view_of
from gradsim.view.surfaces import moving_surfaces

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
FRAMES = 13  # fewest of a motion, of which four are shown
SHOWN = (0.0, 0.3, 0.6, 1.0)  # fractions of the motion
SIZE = (150, 190)  # of a picture [px]
MAX_BYTES = 30_000
GAP = 4  # white columns between the pictures [px]
CLOSER = 0.72  # of the distance at which a camera sees everything with a wide margin
COLORS = ("color", "vertex_colors", "face_colors", "texture")
PALETTE = ((0.85, 0.38, 0.2), (0.2, 0.45, 0.75), (0.3, 0.6, 0.35), (0.9, 0.68, 0.25), (0.5, 0.35, 0.65))
SKY, FLOOR = (0.93, 0.95, 0.97), gs.Checker(colors=((0.72, 0.74, 0.77), (0.82, 0.84, 0.86)))


@contextlib.contextmanager
def recorded() -> Iterator[list[tuple[gs.Scene, Callable[..., gs.Trajectory], dict[str, Any]]]]:
    """Lists scene, function and options of the last simulation that went through the public functions."""
    calls: list[tuple[gs.Scene, Callable[..., gs.Trajectory], dict[str, Any]]] = []
    originals = {name: getattr(gs, name) for name in ("simulate", "rollout")}

    def recording(function: Callable[..., gs.Trajectory]) -> Callable[..., gs.Trajectory]:
        @functools.wraps(function)
        def run(scene: gs.Scene, *args: Any, **options: Any) -> gs.Trajectory:
            calls[:] = [(scene, functools.partial(function, scene, *args), options)]
            return function(scene, *args, **options)

        return run

    for name, function in originals.items():
        setattr(gs, name, recording(function))
    try:
        yield calls
    finally:
        for name, function in originals.items():
            setattr(gs, name, function)


def refined(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the same duration with at least `FRAMES` frames."""
    frames, fps, substeps = options["frames"], options.get("fps", 30.0), options.get("substeps", 32)
    factor = max(1, -(-(FRAMES - 1) // max(frames - 1, 1)))
    if frames == 1:
        return options
    return {**options, "frames": (frames - 1) * factor + 1, "fps": fps * factor, "substeps": -(-substeps // factor)}


def colored(scene_object: Any, number: int) -> Any:
    """Returns a body or a link with a colour, if it has none of its own."""
    if isinstance(scene_object, gs.Articulated):
        links = {name: colored(link, number + k) for k, (name, link) in enumerate(scene_object.links.items())}
        return replace(scene_object, links=links)
    look = scene_object.look
    if look is None or any(getattr(look, name) is not None for name in COLORS):
        return scene_object
    return replace(scene_object, look=replace(look, color=PALETTE[number % len(PALETTE)]))


def dressed(scene: gs.Scene, trajectory: gs.Trajectory) -> gs.Scene:
    """Returns a scene with colours, a floor, a sky and a camera that sees the whole motion, where it has none."""
    scene = replace(scene, bodies=[colored(body, k) for k, body in enumerate(scene.bodies)])
    if scene.ground is not None and scene.ground.look is None:
        scene = replace(scene, ground=replace(scene.ground, look=FLOOR))
    if np.array_equal(np.asarray(scene.background), (1.0, 1.0, 1.0)):
        scene = replace(scene, background=SKY)
    if scene.camera is None:
        view = view_of(scene, moving_surfaces(scene, trajectory))
        eye, target = np.array(view["eye"]), np.array(view["target"])
        near = target + CLOSER * (eye - target)
        scene = replace(scene, camera=gs.Camera(eye=near, target=target, fov=view["fov"]))
    return scene


def strip(scene: gs.Scene, trajectory: gs.Trajectory) -> np.ndarray:
    """Returns four moments side by side, [H, W, 3] in bytes."""
    last = len(trajectory) - 1
    frames = sorted({round(fraction * last) for fraction in SHOWN})
    motion = trajectory[scene.bodies[0].name]
    if isinstance(motion, SmokeMotion):
        pictures = motion.image[frames]
    elif all(isinstance(body, gs.Articulated) and not body.mesh_links for body in scene.bodies):
        return skeletons(scene, trajectory, frames)
    else:
        # Tubes of springs intersect each other, which takes exact areas minutes.
        renderer = gs.SoftRas() if any(isinstance(body, gs.Springs) for body in scene.bodies) else gs.Exact()
        pictures = gs.render(dressed(scene, trajectory), trajectory, SIZE, renderer, frames=frames)
        pictures = pictures.reshape(-1, *pictures.shape[-4:])[0]  # the first world of a batch
    values = np.pad(pictures.clamp(0, 1).detach().numpy(), ((0, 0), (0, 0), (0, GAP), (0, 0)), constant_values=1.0)
    return (255 * np.concatenate(list(values), 1)[:, :-GAP]).round().astype(np.uint8)


def skeletons(scene: gs.Scene, trajectory: gs.Trajectory, frames: list[int]) -> np.ndarray:
    """Links without meshes as lines between their origins."""
    figure = Figure(figsize=(len(frames) * SIZE[1] / 100, SIZE[0] / 100), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(frames), sharex=True, sharey=True)
    for body in scene.bodies:
        links = trajectory[body.name].links
        places = np.stack([link.position.detach().numpy() for link in links.values()])  # [links, T, 3]
        for axis, frame in zip(axes, frames, strict=True):
            axis.plot(*places[:, frame, :2].T, "o-", color="#1f4e79", linewidth=3)
            axis.plot(*places[-1, : frame + 1, :2].T, color="#c0504d", linewidth=1)
            axis.set_aspect("equal")
            axis.axis("off")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def picture(example: Path) -> np.ndarray:
    """Runs an example and returns its picture."""
    torch.set_grad_enabled(True)
    with recorded() as calls, contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(example), run_name="__main__")
    ((scene, run, options),) = calls
    with torch.no_grad():
        return strip(scene, run(**refined(options)))


def main() -> None:
    chosen = [EXAMPLES / f"{name}.py" for name in sys.argv[1:]] or sorted(EXAMPLES.glob("*.py"))
    (HERE / "examples").mkdir(exist_ok=True)
    os.chdir(tempfile.mkdtemp())  # for files that examples write
    for example in chosen:
        file = HERE / "examples" / f"{example.stem}.webp"
        Image.fromarray(picture(example)).save(file, quality=82, method=6)
        size = os.path.getsize(file)
        print(f"{file.name}: {size} bytes", flush=True)
        assert size <= MAX_BYTES, f"{file} is larger than {MAX_BYTES} bytes"


if __name__ == "__main__":
    main()
