"""Synthetic recordings: a disc that moves over clutter, with noise, a shadow and H.264."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch

from gradsim.footage.recording import Recording
from gradsim.video.srgb import linear_to_srgb, srgb_to_linear

REAL = Path(__file__).parents[2].parent / "shared" / "real"


@dataclass(frozen=True)
class Clip:
    """A scene of one disc in the plane of the picture; lengths are in pixels, times in frames."""

    size: tuple = (180, 240)
    count: int = 30
    radius: float = 11.0
    color: tuple = (0.85, 0.3, 0.15)
    noise: float = 0.01  # of full scale
    shadow: bool = True
    shutter: float = 0.3  # fraction of a frame
    light: bool = False  # whether light is mixed, as in a camera, or sRGB values
    seed: int = 0


def parabola(clip, times):
    """Centres [N, 2] of a thrown disc at times in frames."""
    phase = np.asarray(times) / (clip.count - 1)
    height, width = clip.size
    return np.stack([width * (0.12 + 0.75 * phase), height * (0.75 - 2.2 * phase + 2.2 * phase**2)], -1)


def bounces(clip, times, restitution=0.75):
    """Centres [N, 2] of a disc that falls and bounces on a floor, at times in frames."""
    height, width = clip.size
    floor, drop = 0.85 * height - clip.radius, 0.65 * height
    fall = 0.28 * clip.count
    gravity = 2 * drop / fall**2
    rest = np.asarray(times, float).copy()
    y = np.full(rest.shape, np.nan)
    first = rest < fall
    y[first] = floor - drop + gravity * rest[first] ** 2 / 2
    rest, speed = rest - fall, gravity * fall * restitution
    while np.isnan(y).any():
        arc = 2 * speed / gravity
        now = np.isnan(y) & (rest < arc)
        y[now] = floor - speed * rest[now] + gravity * rest[now] ** 2 / 2
        rest, speed = rest - arc, speed * restitution
    return np.stack([width * (0.2 + 0.5 * np.asarray(times) / clip.count), y], -1)


def clutter(size, seed):
    """A background [H, W, 3] of coloured rectangles and a gradient, with values in [0, 1]."""
    random = np.random.default_rng(seed)
    height, width = size
    image = np.broadcast_to(np.linspace(0.45, 0.7, width)[None, :, None], (height, width, 3)).copy()
    for _ in range(40):
        top, left = random.integers(0, height), random.integers(0, width)
        h, w = random.integers(8, height // 3, 2)
        image[top : top + h, left : left + w] = random.uniform(0.25, 0.8, 3)
    return image


def coverage(center, radius, size):
    """The part of every pixel that a disc covers [H, W], to 1 %; pixel (0, 0) covers the square from 0 to 1."""
    return mean_coverage([center], radius, size)


def mean_coverage(centers, radius, size):
    """The mean of `coverage` over several centres [H, W]."""
    covered = np.zeros(size)
    for center in centers:
        x, y = (
            np.arange(max(0, int(c - radius) - 1), min(n, int(c + radius) + 2))
            for c, n in zip(center, size[::-1], strict=True)
        )
        if len(x) and len(y):
            distance = np.hypot(x + 0.5 - center[0], y[:, None] + 0.5 - center[1])
            covered[y[0] : y[-1] + 1, x[0] : x[-1] + 1] += np.clip(radius + 0.5 - distance, 0, 1)
    return covered / len(centers)


def draw(clip, motion=parabola, background=None):
    """Images [T, H, W, 3] of 8 bits and the centres [T, 2] in the middle of the exposures [px]."""
    random = np.random.default_rng(clip.seed + 1)
    background = clutter(clip.size, clip.seed) if background is None else background
    images = []
    into, back = (to_light, to_values) if clip.light else (np.asarray, np.asarray)
    phases = (np.arange(41) + 0.5) / 41 - 0.5 if clip.light else (-0.4, -0.2, 0.0, 0.2, 0.4)
    for k in range(clip.count):
        exposure = [motion(clip, k + clip.shutter * f) for f in phases]
        alpha = mean_coverage(exposure, clip.radius, clip.size)[..., None]
        dark = (
            coverage(motion(clip, k) + np.array([14, 26]), 1.1 * clip.radius, clip.size)[..., None]
            if clip.shadow
            else 0.0
        )
        image = back(alpha * into(np.array(clip.color)) + (1 - alpha) * into(background) * (1 - 0.3 * dark))
        images.append(image + clip.noise * random.standard_normal(image.shape))
    bytes_ = (np.clip(images, 0, 1) * 255).round().astype(np.uint8)
    return bytes_, motion(clip, np.arange(clip.count))


TWO_BALLS = Clip(size=(200, 320), count=28, radius=9.0, shadow=False)


def mirrored(clip, times):
    """A throw from right to left, in the lower half of the picture."""
    x, y = parabola(clip, times).T if np.ndim(times) else parabola(clip, times)
    return np.stack([clip.size[1] - x, y + 0.2 * clip.size[0]], -1)


def two_ball_images():
    """Images of two equal balls, which are thrown to opposite sides."""
    first, second = draw(TWO_BALLS)[0], draw(TWO_BALLS, mirrored)[0]
    background = np.rint(255 * clutter(TWO_BALLS.size, TWO_BALLS.seed)).astype(int)
    return np.where(np.abs(second.astype(int) - background).max(-1, keepdims=True) > 40, second, first)


def to_light(values):
    return srgb_to_linear(torch.as_tensor(np.asarray(values, float))).numpy()


def to_values(light):
    return linear_to_srgb(torch.as_tensor(np.asarray(light, float))).numpy()


def with_hand(images, top, *, width=50, color=(0.75, 0.55, 0.45)):
    """Images with an arm that reaches down from the upper edge: `top` has its lower end in each frame [T] [px]."""
    images = images.copy()
    left = images.shape[2] // 2
    for image, end in zip(images, np.asarray(top, int), strict=True):
        image[: max(end, 0), left : left + width] = (255 * np.array(color)).astype(np.uint8)
    return images


def recording_of(images, fps=30.0):
    """A recording of images [T, H, W, 3] that are their own reduced copy; it has no file."""
    return Recording(Path("clip.mp4"), range(len(images)), np.arange(len(images)) / fps, images.shape[1:3], images)


def save(path, images, fps=30, keyframes=250):
    return save_at(path, images, np.arange(len(images)), rate=fps, keyframes=keyframes)


def save_at(path, images, ticks, *, rate=600, keyframes=250):
    """Writes frames at given times in ticks of 1/rate s, with H.264 at crf 20 and a key frame every so often."""
    # The conversion to YUV puts chroma samples between two pixels; without chromaloc, readers assume them at the left.
    options = {"crf": "20", "x264-params": f"asm=AVX2:chromaloc=1:keyint={keyframes}"}
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as output:
        stream = output.add_stream("libx264", rate=30, options=options)
        stream.height, stream.width, stream.pix_fmt = *images.shape[1:3], "yuv420p"
        stream.codec_context.time_base = Fraction(1, rate)
        stream.codec_context.thread_count = 1
        for image, tick in zip(images, ticks, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = int(tick), Fraction(1, rate)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path
