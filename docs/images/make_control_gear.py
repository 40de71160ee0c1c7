"""Makes control_gear.png: the gear rolls and hops to a place, and to rest; the goal is framed at the right of each.

python docs/images/make_control_gear.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image

import gradsim as gs
from gradsim.experiments.control import gear
from gradsim.experiments.control.task import Method, Task

SEED, SIZE, ROWS = 2, (192, 192), slice(20, 150)
FRAMES = [0, 30, 60, 90, 120, 150, 180]
RIM = 0.35


def shown(scene: gs.Scene) -> gs.Scene:
    """The scene on a checkered ground."""
    assert scene.ground is not None
    return replace(scene, ground=replace(scene.ground, look=gs.Checker(size=12.0)), background=(1.0, 1.0, 1.0))


def goal(task: Task) -> torch.Tensor:
    """The picture that was asked for, dark on white, [H, W, 3]."""
    (asked,) = task.goals[Method.IMAGE]
    assert isinstance(asked, gs.GoalImage)
    picture = 1.0 - 0.7 * asked.images[0]
    large = torch.nn.functional.interpolate(picture.permute(2, 0, 1)[None], SIZE, mode="bilinear")[0]
    return large.permute(1, 2, 0).expand(-1, -1, 3).clone()


def strip(task: Task) -> torch.Tensor:
    """Frames of the last iterate side by side, and the goal, [H, W, 3]."""
    end = task.run().last
    video = gs.render(shown(end.scene), end.trajectory, SIZE, frames=FRAMES).double()
    tiles = [picture[ROWS].clamp(0, 1) for picture in [*video, goal(task)]]
    for tile in tiles:
        tile[-1], tile[:, -1] = 1.0, 1.0
    tiles[-1][[0, -2]], tiles[-1][:, [0, -2]] = RIM, RIM
    return torch.cat(tiles, 1)


if __name__ == "__main__":
    film = torch.cat([strip(gear.task(SEED)), strip(gear.at_rest(SEED))])
    Image.fromarray((film * 255).round().byte().numpy()).save(Path(__file__).parent / "control_gear.png", optimize=True)
