"""Photographs as background, and shadows on them: videos composed outside of gradsim's renderer."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.fit.videos import FPS, FRAMES, MASS, SIZE, contains, guessed, throw

import gradsim as gs
from gradsim.video.downsample import downsample

FINE = 128  # side of the photograph [px]


def photograph(seed: int = 0) -> torch.Tensor:
    """A procedural photograph: clutter of all sizes, an edge, a gradient, [FINE, FINE, 3]."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[:FINE, :FINE] / FINE
    image = np.stack([0.45 + 0.2 * y, 0.5 + 0.1 * x, 0.4 + 0.1 * np.sin(9 * x + 4 * y)], -1)
    for scale in (2, 4, 8, 16, 32):
        coarse = generator.uniform(-1.0, 1.0, (FINE // scale, FINE // scale, 3))
        image += 0.05 * np.kron(coarse, np.ones((scale, scale, 1)))
    image[y > 0.8] *= 0.7
    return torch.as_tensor(image.clip(0.0, 1.0))


def composed(plate: torch.Tensor, *, shadow: float = 0.0, noise: float = 0.01) -> torch.Tensor:
    """The thrown cube in front of a photograph, composed at the photograph's size and averaged, [T, SIZE, SIZE, 3].

    The shadow is a soft dark blob on the photograph, below and to the right of the cube.
    """
    scene = dataclasses.replace(throw(), background=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=FRAMES, fps=FPS, substeps=128, integrator=gs.RungeKutta4())
    layers = gs.render(scene, motion, (FINE, FINE), alpha=True)
    y, x = torch.meshgrid(torch.arange(FINE), torch.arange(FINE), indexing="ij")
    frames = []
    for color, cover in zip(layers[..., :3], layers[..., 3:], strict=True):
        weight = cover[..., 0] / cover.sum()
        cx, cy = (x * weight).sum() + 12.0, (y * weight).sum() + 22.0
        dark = shadow * torch.exp(-(((x - cx) / 18.0) ** 2 + ((y - cy) / 9.0) ** 2))
        frames.append(color + (1.0 - cover) * plate * (1.0 - dark[..., None]))
    video = downsample(torch.stack(frames), (SIZE, SIZE))
    return video + noise * torch.randn(video.shape, generator=torch.Generator().manual_seed(0), dtype=video.dtype)


def scene_before(plate: torch.Tensor) -> gs.Scene:
    return dataclasses.replace(guessed(), background=plate)


@pytest.mark.parametrize("side", [FINE, SIZE])
def test_an_estimate_before_a_photograph(side):
    """The photograph is reduced to every level of the pyramid, from its own size and from that of the video."""
    plate = photograph()
    fit = gs.estimate(scene_before(downsample(plate, (side, side))), composed(plate), fps=FPS)
    assert fit.certain, (fit.status, fit.advice)
    assert contains(fit)
    assert float(fit.values["cube.mass"]) == pytest.approx(MASS, rel=0.01)


def test_a_plain_background_does_not_explain_a_photograph():
    fit = gs.estimate(guessed(), composed(photograph()), fps=FPS, corrections=0)
    assert fit.status == "does not explain the video"


def test_the_median_of_the_frames_serves_as_background():
    """The cube hides every point for less than half of the time."""
    plate, video = photograph(), composed(photograph())
    median = video.median(0).values
    assert float((median - downsample(plate, (SIZE, SIZE))).abs().median()) < 0.01
    fit = gs.estimate(scene_before(median), video, fps=FPS, robust=gs.Cauchy(0.05))
    assert float(fit.values["cube.mass"]) == pytest.approx(MASS, rel=0.05)


def test_exposure_and_a_photograph():
    """Only the cube is blurred by an exposure of half a frame."""
    plate = photograph()
    sharp = dataclasses.replace(throw(), background=(0.0, 0.0, 0.0))
    motion = gs.simulate(sharp, frames=32 * FRAMES, fps=32 * FPS, substeps=4, integrator=gs.RungeKutta4())
    layers = gs.render(sharp, motion, (FINE, FINE), frames=slice(1, None, 2), alpha=True)  # middles of 16 parts
    layers = layers.unflatten(0, (FRAMES, 16))[:, :8].mean(1)
    video = downsample(layers[..., :3] + (1.0 - layers[..., 3:]) * plate, (SIZE, SIZE))
    video = video + 0.01 * torch.randn(video.shape, generator=torch.Generator().manual_seed(1), dtype=video.dtype)
    frames = [0, *range(3, FRAMES)]  # states between frames are interpolated smoothly: not next to the push
    fit = gs.estimate(scene_before(plate), video, fps=FPS, exposure=0.5 / FPS, frames=frames)
    assert fit.status == "converged", (fit.status, fit.advice)
    assert float(fit.values["cube.mass"]) == pytest.approx(MASS, rel=0.01)


@pytest.mark.parametrize("robust", [gs.Cauchy(0.03), gs.Huber(0.03)])
def test_a_shadow_does_not_break_a_fit(robust):
    plate = photograph()
    fit = gs.estimate(scene_before(plate), composed(plate, shadow=0.5), fps=FPS, robust=robust)
    assert float(fit.values["cube.mass"]) == pytest.approx(MASS, rel=0.02)
    assert contains(fit) or not fit.certain


def test_a_shadow_without_a_robust_loss_is_not_called_certain():
    plate = photograph()
    fit = gs.estimate(scene_before(plate), composed(plate, shadow=0.5), fps=FPS)
    assert not fit.certain
