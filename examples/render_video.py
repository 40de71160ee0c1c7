"""Rendering: a soft ball bounces on a checkered ground, saved as an animated PNG that browsers play.

`render` needs a scene with a camera; a `Look` sets the appearance of a body. Pixel values are numbers from 0 to 1, here
converted to bytes for Pillow. The video has the frames of the trajectory.
"""

from pathlib import Path

import numpy as np
from PIL import Image

import gradsim as gs

mesh = gs.meshes.tet_ball(0.35, 8)
quarters = np.where(mesh.vertices[:, :1] * mesh.vertices[:, 1:2] > 0, (0.95, 0.9, 0.8), (0.82, 0.29, 0.36))  # [V, 3]
ball = gs.Soft(
    "ball",
    mesh,
    density=300.0,  # [kg/m^3]
    material=gs.NeoHookean.from_young(5e4, 0.3, damping=20.0),
    position=(-0.8, 1.1, 0.0),
    velocity=(1.4, 0.0, 0.0),
    look=gs.Look(vertex_colors=quarters, specular=0.3),
)
scene = gs.Scene(
    [ball],
    ground=gs.Ground(ke=5e3, kd=1.0, kf=5.0, mu=0.6, look=gs.Checker(tile=0.4)),
    camera=gs.Camera(eye=(0.0, 1.1, 3.6), target=(0.0, 0.6, 0.0), fov=35),
    background=(0.86, 0.92, 0.97),
)
trajectory = gs.simulate(scene, frames=37, fps=30, substeps=200)
video = gs.render(scene, trajectory, size=(180, 240))  # [37, 180, 240, 3]

images = [Image.fromarray(frame) for frame in (255 * video.clamp(0, 1)).round().byte().numpy()]
path = Path("out/render_video.png")
path.parent.mkdir(exist_ok=True)
images[0].save(path, save_all=True, append_images=images[1:], duration=1000 / 30, loop=0)

height = trajectory["ball"].position[:, 1]
lowest = int(height.argmin())
print(f"{len(video)} frames in {path}; lowest position {height[lowest]:.2f} m, at {trajectory.time[lowest]:.2f} s")
with Image.open(path) as saved:
    assert saved.n_frames == 37
assert video.min() >= 0.0
assert video.max() < 1.3  # highlights can exceed 1: render does not clamp
assert 0.1 < height[lowest] < 0.35 < height[-1]  # compressed by the impact, then back above its radius
