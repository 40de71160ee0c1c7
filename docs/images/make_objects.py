"""Makes the image of docs/dataset.md with the fourteen objects of the rigid-body data set.

    python docs/images/make_objects.py

objects.png     the objects by name, each with its number of vertices
dataset.png     frames of some videos of the data sets
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import gradsim as gs
from gradsim.datasets.items import Settings
from gradsim.datasets.objects import mesh
from gradsim.datasets.recording import record

HERE = Path(__file__).parent
COLORS = {
    "box": "#8d99ae",
    "cone": "#8d99ae",
    "cylinder": "#8d99ae",
    "sphere": "#8d99ae",
    "apple": "#c1272d",
    "banana": "#e9c530",
    "pear": "#a3b83a",
    "carrot": "#e07b28",
    "rabbit": "#a58b74",
    "duck": "#e8b923",
    "mug": "#3a7ca5",
    "lamp": "#5b7553",
    "airliner": "#b9c4cf",
    "fighter": "#76818c",
}
FRAMES = (0, 10, 20, 40)


def portrait(name: str, side: int = 300) -> np.ndarray:
    """Returns a picture of an object on a light background, [side, side, 3]."""
    color = tuple(int(COLORS[name][k : k + 2], 16) / 255 for k in (1, 3, 5))
    shape = mesh(name)
    body = gs.Rigid("body", shape, density=5.0, look=gs.Look(color=color, smooth=35.0, specular=0.15))
    center = (shape.vertices.max(0) + shape.vertices.min(0)) / 2
    radius = np.linalg.norm(shape.vertices - center, axis=1).max()
    direction = np.array([0.55, 0.45, 1.0]) if name not in ("airliner", "fighter") else np.array([0.8, 0.75, 0.8])
    eye = center + direction / np.linalg.norm(direction) * radius * 4.6
    camera = gs.Camera(eye=eye, target=center, fov=27.0)
    scene = gs.Scene([body], camera=camera, background=(0.96, 0.96, 0.95))
    return gs.render(scene, gs.simulate(scene, frames=1), (side, side))[0].clamp(0, 1).numpy()


def contact_sheet() -> None:
    figure = Figure(figsize=(14, 4.6), layout="constrained")
    for axes, name in zip(figure.subplots(2, 7).flat, gs.datasets.OBJECTS, strict=True):
        axes.imshow(portrait(name))
        axes.set_title(f"{name}, {len(mesh(name).vertices)}", fontsize=11)
        axes.axis("off")
    figure.savefig(HERE / "objects.png", dpi=75)


def videos() -> None:
    samples = [Settings("rigid").sample(number) for number in range(4)]
    samples += [Settings("deformable").sample(number) for number in range(3)]
    figure = Figure(figsize=(14, 8.2), layout="constrained")
    grid = figure.subplots(len(FRAMES), len(samples))
    for column, sample in zip(grid.T, samples, strict=True):
        _, (video,) = record(sample.true_scene, sample.time, 160)
        column[0].set_title(sample.object, fontsize=11)
        for axes, frame in zip(column, FRAMES, strict=True):
            axes.imshow(video[min(frame, len(video) - 1)].clamp(0, 1).numpy())
            axes.axis("off")
    figure.savefig(HERE / "dataset.png", dpi=75)


if __name__ == "__main__":
    contact_sheet()
    videos()
