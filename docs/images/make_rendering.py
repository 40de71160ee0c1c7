"""Makes the images of docs/rendering.md and README.md; needs the extra `mitsuba`.

    python docs/images/make_rendering.py

bounce.png      six frames of a soft cube that bounces
renderers.png   one scene in every renderer and shading variant
gradients.png   the change of an image by a motion, and the gradient integrated along the motion
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import font_manager
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont

import gradsim as gs

HERE = Path(__file__).parent
SKY = (0.86, 0.92, 0.97)
RENDERERS = {"Exact": gs.Exact(), "SoftRas": gs.SoftRas(), "DIB-R": gs.DIBR()}


def letters(size: int = 96) -> np.ndarray:
    """Returns a framed tile with two letters, [size, size, 3], drawn large and downsampled."""
    big = Image.new("RGB", (400, 400), "#edae49")
    draw = ImageDraw.Draw(big)
    draw.rectangle((0, 0, 399, 399), outline="#d1495b", width=28)
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans:bold"), 240)
    draw.text((200, 170), "gs", font=font, fill="#23395b", anchor="mm")
    return np.asarray(big.resize((size, size), Image.Resampling.BOX)) / 255


def gores(size: int = 96) -> np.ndarray:
    """Returns stripes from pole to pole as on a beach ball, anti-aliased, [2, size, 3]."""
    palette = np.array([[0.93, 0.93, 0.9], [0.18, 0.53, 0.67], [0.93, 0.93, 0.9], [0.4, 0.63, 0.51]])
    stripes = palette[np.arange(6 * size) * 12 // (6 * size) % 4]
    return np.repeat(stripes.reshape(1, size, 6, 3).mean(2), 2, axis=0)


def patches() -> np.ndarray:
    """Returns a texture of sixteen smoothly varying colours, [4, 4, 3]."""
    y, x = np.mgrid[0:4, 0:4] * (np.pi / 2)
    return 0.72 + 0.25 * np.stack([np.cos(x) * np.cos(y), np.sin(x + y), np.cos(2 * x - y)], -1)


def around(mesh: gs.TriMesh) -> np.ndarray:
    """Returns longitude and latitude of the corners of faces as texture coordinates, [F, 3, 2]."""
    x, y, z = np.moveaxis(mesh.vertices[mesh.faces], -1, 0)
    pole = np.hypot(x, z) < 1e-9
    u = np.arctan2(z, x) / (2 * np.pi)
    first = np.take_along_axis(u, np.argmin(pole, 1)[:, None], 1)  # of a corner that is not a pole
    u = u - np.round(u - first)  # continues across the seam
    u = np.where(pole, (u * ~pole).sum(1, keepdims=True) / (~pole).sum(1, keepdims=True), u)
    return np.stack([u, 0.5 + np.arcsin(np.clip(y / np.sqrt(x**2 + y**2 + z**2), -1, 1)) / np.pi], -1)


def bytes_of(image: torch.Tensor) -> np.ndarray:
    return (255 * image.detach().numpy().clip(0, 1) + 0.5).astype(np.uint8)


def bounce() -> None:
    mesh = gs.meshes.tet_box(0.6, 6)
    spin = torch.tensor(np.cross([0.0, 0.0, -2.0], mesh.vertices))
    cube = gs.Soft(
        "cube",
        mesh,
        density=500.0,
        material=gs.NeoHookean.from_young(3e4, 0.35, damping=30.0),
        position=(-0.55, 1.15, 0.0),
        rotation=(0.2, 0.1, 0.25, 1.0),
        velocity=gs.per_element(spin + torch.tensor([1.0, 0.0, 0.0])),
        look=gs.Look(texture=letters()),
    )
    scene = gs.Scene(
        [cube],
        ground=gs.Ground(ke=5e3, kd=2.0, kf=5.0, mu=0.6, look=gs.Checker(tile=0.4)),
        camera=gs.Camera(eye=(0.0, 1.2, 3.4), target=(0.0, 0.68, 0.0), fov=34),
        background=SKY,
    )
    trajectory = gs.simulate(scene, frames=34, fps=30, substeps=200)
    video = bytes_of(gs.render(scene, trajectory, size=(190, 190), frames=[0, 8, 13, 16, 20, 29]))
    gap = np.full((190, 6, 3), 255, np.uint8)
    pieces = [piece for frame in video for piece in (gap, frame)][1:]
    save(np.concatenate(pieces, 1), "bounce.png")


def still_life(*, lights: Any = None, textured: bool = False) -> gs.Scene:
    """Returns a scene with a cube and a ball on a checkerboard."""
    box, sphere = gs.meshes.box(0.64), gs.meshes.sphere(0.36, 24, 48)
    looks = [gs.Look(color=(0.93, 0.68, 0.29)), gs.Look(color=(0.18, 0.53, 0.67), specular=0.3)]
    if textured:
        looks = [
            gs.Look(texture=letters(48)),
            gs.Look(texture=gores(), uv=around(sphere), specular=0.3),
        ]
    turn, lean = (0.05, -0.3, 0.06, 1.0), (0.3, 0.0, -0.3, 1.0)
    return gs.Scene(
        [
            gs.Rigid("cube", box, mass=1.0, position=(-0.42, 0.46, 0.0), rotation=turn, look=looks[0]),
            gs.Rigid("ball", sphere, mass=1.0, position=(0.3, 0.36, 0.35), rotation=lean, look=looks[1]),
        ],
        ground=gs.Ground(look=gs.Checker(tile=0.5)),
        camera=gs.Camera(eye=(0.1, 1.15, 2.9), target=(-0.02, 0.4, 0.0), fov=28),
        background=SKY,
        **({} if lights is None else {"lights": lights}),
    )


def renderers() -> None:
    variants = {
        "colour only": still_life(lights=()),
        "shading": still_life(),
        "texture": still_life(textured=True),
    }
    rows = {**RENDERERS, "Mitsuba": gs.Mitsuba(samples=512)}
    titles = [*variants, "outlines, enlarged"]
    high, wide, left, top, gap = 168, 224, 30, 30, 4  # [px]
    width, height = left + len(titles) * (wide + gap), top + len(rows) * (high + gap)
    figure = Figure(figsize=(width / 100, height / 100), dpi=100)
    for i, (name, renderer) in enumerate(rows.items()):
        images = []
        for scene in variants.values():
            images.append(bytes_of(gs.render(scene, gs.simulate(scene, frames=1), (high // 2, wide // 2), renderer)[0]))
        images.append(images[1][14:35, 46:74])
        for k, image in enumerate(images):
            x, y = left + k * (wide + gap), height - top - (i + 1) * high - i * gap
            axes = figure.add_axes((x / width, y / height, wide / width, high / height))
            axes.imshow(image, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if k == 0:
                axes.set_ylabel(name, fontsize=12)
            if i == 0:
                axes.set_title(titles[k], fontsize=12)
    save(figure, "renderers.png")


def two_cubes(x: torch.Tensor, size: tuple[int, int], renderer: Any) -> torch.Tensor:
    """Renders a textured cube at x [...] behind another one, [..., H, W, 3]."""
    place = torch.stack([x, torch.zeros_like(x), torch.zeros_like(x)], -1)
    turn = (0.25, 0.3, 0.06, 1.0)
    back = gs.Rigid("back", gs.meshes.box(1.0), 1.0, position=place, rotation=turn, look=gs.Look(texture=patches()))
    blue = gs.Look(color=(0.18, 0.53, 0.67))
    front = gs.Rigid("front", gs.meshes.box(0.45), 1.0, position=(0.45, -0.2, 0.9), rotation=turn, look=blue)
    scene = gs.Scene([back, front], camera=gs.Camera(eye=(0.0, 0.0, 4.5), target=(0.05, 0.0, 0.0), fov=26))
    return gs.render(scene, gs.simulate(scene, frames=1), size, renderer)[..., 0, :, :, :]


def brightness(image: torch.Tensor) -> torch.Tensor:
    """Returns the mean over colour channels, [..., H W]."""
    return image.mean(-1).flatten(-2)


def derivative(x: float, size: tuple[int, int], renderer: Any) -> torch.Tensor:
    """Returns the derivative of every pixel in x, [H W], by backward passes: one world of a batch per pixel."""
    count = size[0] * size[1]
    pieces = []
    for pixels in torch.arange(count).split(512):
        place = torch.full((len(pixels),), x, dtype=torch.float64, requires_grad=True)
        values = brightness(two_cubes(place, size, renderer)).gather(1, pixels[:, None])
        pieces += torch.autograd.grad(values.sum(), place)
    return torch.cat(pieces)


def gradients() -> None:
    size, points = (40, 48), 32
    pixel = 4.5 * 2 * np.tan(np.radians(13)) / size[0]  # [m], at the cube's distance
    path = pixel * ((np.arange(points) + 0.5) / points - 0.5)
    ends = torch.tensor([-pixel / 2, pixel / 2], dtype=torch.float64)
    figure = Figure(figsize=(9.0, 7.4), dpi=100)
    axes = figure.subplots(3, 3)
    for column, (name, renderer) in zip(axes.T, RENDERERS.items(), strict=True):
        images = two_cubes(ends, size, renderer)
        before, after = brightness(images)
        change = after - before
        integral = pixel * sum(derivative(x, size, renderer) for x in path) / points
        missed = float((change - integral).abs().sum() / change.abs().sum())
        print(f"{name}: the gradient misses {missed:.2g} of the change")
        column[0].imshow(bytes_of(images[0]))
        for axis, image in zip(column[1:], (change, integral), strict=True):
            shown = axis.imshow(image.detach().reshape(size), cmap="RdBu_r", vmin=-0.3, vmax=0.3)
        for axis in column:
            axis.set(xticks=[], yticks=[])
        column[0].set_title(name, fontsize=12)
        column[2].set_xlabel(f"misses {100 * missed:.2g} % of the change", fontsize=10)
    for axis, label in zip(axes[:, 0], ("image", "its change", "gradient, integrated"), strict=True):
        axis.set_ylabel(label, fontsize=11)
    figure.subplots_adjust(left=0.035, right=0.9, bottom=0.04, top=0.96, wspace=0.03, hspace=0.03)
    bar = figure.colorbar(shown, cax=figure.add_axes((0.912, 0.04, 0.014, 0.608)))
    bar.set_label("brightness, for a pixel to the right", fontsize=10)
    save(figure, "gradients.png")


def save(picture: np.ndarray | Figure, name: str) -> None:
    if isinstance(picture, Figure):
        picture.savefig(HERE / name)
        picture = np.asarray(Image.open(HERE / name).convert("RGB"))
    Image.fromarray(picture).save(HERE / name, optimize=True)
    print(f"{HERE / name}: {(HERE / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    warnings.simplefilter("ignore", gs.SilhouetteWarning)  # the figure shows the missing silhouettes
    bounce()
    renderers()
    gradients()
