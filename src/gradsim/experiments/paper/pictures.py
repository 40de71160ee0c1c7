"""Pictures of the paper: whole motions in one picture (Figure 3), and the fourteen objects (Figure 13)."""

from __future__ import annotations

import torch

from gradsim.datasets import deformable
from gradsim.datasets.objects import OBJECTS, mesh
from gradsim.datasets.recording import record
from gradsim.experiments.paper.landscapes import EDGE, FPS, SUBSTEPS, TRUE_MASS, cube
from gradsim.experiments.protocol import fit_video
from gradsim.render.render import render
from gradsim.report.document import Picture
from gradsim.report.media import side_by_side
from gradsim.scene.camera import Camera
from gradsim.scene.looks import Look
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown
from gradsim.simulate.simulate import simulate

FIT_SIDE, SIDE = 64, 192  # frame height and width of the fit and of the pictures [px]
BLENDED = 6  # frames in one picture


def estimations() -> tuple[Picture, ...]:
    """Returns a thrown cube and a hanging beam: guess, estimate and video."""
    density = TRUE_MASS / EDGE**3
    thrown = _estimation(
        cube(unknown(3.0 * density, low=density / 10, high=10 * density)),
        {"body.density": density},
        Time(40, FPS, SUBSTEPS),
        "The mass of a cube, guessed three times too large",
    )
    lame = [unknown(value, low=200.0, high=4000.0) for value in (350.0, 350.0)]
    hanging = _estimation(
        deformable.beam(*lame),
        {"beam.material.mu": 1000.0, "beam.material.lam": 1000.0},
        Time(deformable.FRAMES, deformable.FPS, deformable.SUBSTEPS["beam"]),
        "The Lamé parameters of a beam, guessed as a third",
    )
    return thrown, hanging


def _estimation(scene: Scene, truth: dict[str, float], time: Time, caption: str) -> Picture:
    """Fits a scene to its true video and returns guess, estimate and video side by side."""
    with torch.no_grad():
        _, (video,) = record(scene.with_values(truth), time, FIT_SIDE)
    fit = fit_video(scene, video, lambda text: None, fps=time.fps, substeps=time.substeps, bootstrap=False)
    guess = {path: item.guess for path, item in scene.unknowns.items()}
    found = {path: float(fit.values[path]) for path in truth}
    panels = [_blend(scene.with_values(values), time) for values in (guess, found, truth)]
    values = ", ".join(f"{path} = {found[path]:.6g}" for path in truth)
    labels = ("guess", "estimate", "video")
    return Picture(side_by_side([panel[None] for panel in panels])[0], labels, f"{caption}: {values}.")


def _blend(scene: Scene, time: Time) -> torch.Tensor:
    """Returns a picture of several frames, in each pixel that which differs most from the first frame's background."""
    with torch.no_grad():
        _, (video,) = record(scene, time, SIDE)
    frames = video[torch.linspace(0, len(video) - 1, BLENDED).round().long()]
    background = frames.median(0).values
    strongest = (frames - background).abs().sum(-1).argmax(0)
    return torch.gather(frames, 0, strongest[None, ..., None].expand(1, *background.shape))[0]


def objects() -> Picture:
    """Returns the fourteen objects of the data set in two rows."""
    columns = 7
    bodies = []
    for k, name in enumerate(OBJECTS):
        place = (1.5 * (k % columns) - 4.5, -1.5 * (k // columns), 0.0)
        look = Look(color=(0.55, 0.65, 0.8), smooth=30.0)
        bodies.append(Rigid(name, mesh(name), mass=1.0, position=place, rotation=(0.2, 0.35, 0.0, 0.91), look=look))
    camera = Camera(eye=(0.0, -0.75, 14.0), target=(0.0, -0.75, 0.0), fov=13.0)
    scene = Scene(bodies, gravity=(0.0, 0.0, 0.0), camera=camera, background=(1.0, 1.0, 1.0))
    with torch.no_grad():
        trajectory = simulate(scene, frames=2, fps=1000.0, substeps=1)
        image = render(scene, trajectory, (320, 1120), frames=slice(0, 1))[0]
    return Picture(image, (), ", ".join(OBJECTS))
