"""Makes control_cloth.png: flights that were found from one picture, framed at the right of each.

    python docs/images/make_control_cloth.py

Above the end of a flight with a hidden velocity is the goal, below the paper's undeformed sheet.
"""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image

import gradsim as gs
from gradsim.experiments.control import cloth
from gradsim.experiments.control.task import Task

SEED, SIZE, ROWS = 2, (256, 256), slice(8, 200)
FRAMES = [0, 18, 36, 54, 72, 81, 90]
WALL, RIM = 0.03, 0.7


def goal(name: str) -> torch.Tensor:
    """The goal in full size, [H, W, 3]."""
    d = cloth.draw(SEED)
    if name == "hidden":
        scene = cloth.scene(d.cells, (cloth.START, d.height, 0.0), d.velocity)
        time = {"frames": cloth.FRAMES, "fps": cloth.FPS, "substeps": cloth.SUBSTEPS}
        flight = gs.simulate(scene, **time, integrator=gs.SymplecticEuler())
    else:
        scene = cloth.scene(d.cells, (d.x, cloth.DEPTH, 0.0), (0.0, 0.0, 0.0))
        flight = gs.simulate(scene, frames=1)
    return gs.render(scene, flight, SIZE, frames=[len(flight) - 1])[0]


def strip(name: str, task: Task) -> torch.Tensor:
    """Frames of the last iterate side by side, and the goal, [H, W, 3]."""
    end = task.run().last
    pictures = [*gs.render(end.scene, end.trajectory, SIZE, frames=FRAMES), goal(name)]
    tiles = [picture[ROWS].clamp(0, 1) for picture in pictures]
    for tile in tiles:
        tile[-1], tile[:, -1] = 4 * WALL, 4 * WALL
    tiles[-1][[0, 1, -2, -1]], tiles[-1][:, [0, 1, -2, -1]] = RIM, RIM
    return torch.cat(tiles, 1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    film = torch.cat([strip("hidden", cloth.hidden(SEED)), strip("posed", cloth.posed(SEED))])
    image = (film.clamp(WALL, 1) ** (1 / 1.5) * 255).round().byte().numpy()
    Image.fromarray(image).save(Path(__file__).parent / "control_cloth.png", optimize=True)
