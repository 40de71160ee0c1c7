"""From a scene to frames: exposure in linear light, sensor and H.264."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.clutter import GAMMA
from gradsim.experiments.footage_videos.conditions import TICKS, Conditions
from gradsim.experiments.footage_videos.hand import Hand
from gradsim.experiments.footage_videos.motion import Motion
from gradsim.experiments.footage_videos.raster import Image, Layer, expose, layer_bounds
from gradsim.experiments.footage_videos.shapes import Ball, Box, Look, Room, cast_shadow

Array = NDArray[np.float64]

EXPOSURES = (8, 24)  # least and most times over which a frame is averaged, about one per 1.5 pixels of motion
NOISE_MARGIN = 61  # noise of a frame is cut out of a larger field at a random place [px]
NOISE_FIELDS = 3
READ_NOISE = 0.01  # variance in the dark relative to that at full scale


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything in front of a camera.

    Args:
        motion: What moves.
        looks: Of the bodies.
        room: Surfaces that shadows fall on.
        background: [H + 2 margin, W + 2 margin, 3], encoded with gamma.
        margin: [px].
        hand: In front of the background and behind the bodies.
    """

    motion: Motion
    looks: tuple[Look, ...]
    room: Room
    background: Image
    margin: int
    hand: Hand | None = None

    def rear_layers(self, camera: TrueCamera, time: float, darkness: float) -> list[Layer]:
        """Returns shadows and the hand at a time; they are soft or slow and need no average over the exposure."""
        layers: list[Layer] = []
        if darkness > 0:
            for body, position, angle, look in self._bodies(time):
                light = np.array(look.light)
                layers.append(cast_shadow(camera, body, position, angle, light, self.room, darkness))
        if self.hand is not None:
            layers += self.hand.layers(camera, time)
        return layers

    def front_layers(self, camera: TrueCamera, time: float) -> list[Layer]:
        """Returns the bodies and their links at a time, rear ones first."""
        bodies = self._bodies(time)
        positions = np.array([position for _, position, _, _ in bodies])
        links: list[Layer] = [layer for link in self.motion.links for layer in link.layers(camera, positions)]
        return links + [body.layer(camera, position, angle, look) for body, position, angle, look in bodies]

    def _bodies(self, time: float) -> list[tuple[Ball | Box, Array, float, Look]]:
        positions, angles = (own[0] for own in self.motion.trajectory(np.array([time])))
        return list(zip(self.motion.shapes, positions, angles.tolist(), self.looks, strict=True))


@dataclass(frozen=True, eq=False)
class Shot:
    """A scene and how it is recorded in T frames.

    Args:
        scene: What is recorded.
        camera: Without its shake.
        conditions: Of the recording.
        times: Middles of the exposures [T] [s].
        shifts: Of the picture by the camera [T, 2] [px].
        zooms: Enlargements of the picture by the camera [T].
        exposures: Relative exposures [T].
        seed: Of the noise.
    """

    scene: Scene
    camera: TrueCamera
    conditions: Conditions
    times: Array
    shifts: Array
    zooms: Array
    exposures: Array
    seed: int

    def camera_of(self, frame: int) -> TrueCamera:
        """Returns the camera of a frame."""
        return self.camera.shifted((float(self.shifts[frame][0]), float(self.shifts[frame][1])), self.zooms[frame])


def frames_of(shot: Shot) -> Iterator[NDArray[np.uint8]]:
    """Yields the frames [H, W, 3] of a shot."""
    random = np.random.default_rng([17, shot.seed])
    height, width = shot.conditions.size
    field = random.standard_normal((NOISE_FIELDS, height + NOISE_MARGIN, width + NOISE_MARGIN, 3), np.float32)
    deviation = noise_table(shot.conditions.noise)
    vignette = 255 * _vignette(shot.conditions)
    for frame in range(len(shot.times)):
        light = vignette * np.float32(shot.exposures[frame] ** (1 / GAMMA))
        image = cv2.multiply(_encoded_frame(shot, frame), light)
        layer, top, left = random.integers((NOISE_FIELDS, NOISE_MARGIN, NOISE_MARGIN))
        noise = field[layer, top : top + height, left : left + width]
        scaled = cv2.LUT(cv2.convertScaleAbs(image), deviation * np.float32(random.choice([-1, 1])))
        noisy = cv2.add(image, cv2.multiply(noise, scaled))
        yield np.asarray(cv2.convertScaleAbs(np.maximum(noisy, 0)), np.uint8)


def noise_table(noise: float) -> NDArray[np.float32]:
    """Returns the standard deviation of the noise [256] of encoded levels, in levels.

    The variance is that of photons and of reading the sensor, a + b L in linear light. The deviation is `noise` of full
    scale at half of the encoded range.
    """
    encoded = np.maximum((np.arange(256) + 0.5) / 255, 0.08)
    deviation = np.sqrt(READ_NOISE + encoded**GAMMA) / encoded ** (GAMMA - 1)
    middle = np.sqrt(READ_NOISE + 0.5**GAMMA) / 0.5 ** (GAMMA - 1)
    return (255 * noise * deviation / middle).astype(np.float32)


def _vignette(conditions: Conditions) -> Image:
    height, width = conditions.size
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].astype(np.float32)
    light = 1 - np.float32(conditions.vignette) * (x * x * width**2 + y * y * height**2) / (width**2 + height**2)
    return np.repeat(np.asarray(light ** np.float32(1 / GAMMA), np.float32)[..., None], 3, 2)


def _encoded_frame(shot: Shot, frame: int) -> Image:
    """Returns a frame before the sensor [H, W, 3], encoded with gamma."""
    image, camera, scene = _still_frame(shot, frame), shot.camera_of(frame), shot.scene
    rear = scene.rear_layers(camera, float(shot.times[frame]), shot.conditions.darkness)
    exposures = [scene.front_layers(camera, time) for time in _exposure_times(shot, frame)]
    for layers, parts in ((rear, [rear]), ([own for part in exposures for own in part], exposures)):
        if layers:
            _draw_encoded(image, layers, parts)
    return image


def _draw_encoded(image: Image, layers: Sequence[Layer], exposures: Sequence[Sequence[Layer]]) -> None:
    """Draws exposures into an encoded picture, in linear light; `layers` are all of theirs."""
    bounds = layer_bounds(layers, image.shape[:2])
    left, top, right, bottom = bounds
    if right > left and bottom > top:
        window = cv2.pow(image[top:bottom, left:right], GAMMA)
        drawn = expose(np.asarray(window, np.float32), exposures, bounds)
        image[top:bottom, left:right] = cv2.pow(np.maximum(drawn, 0), 1 / GAMMA)


def _still_frame(shot: Shot, frame: int) -> Image:
    """Returns the background as the camera sees it in a frame."""
    height, width = shot.conditions.size
    margin, background = shot.scene.margin, shot.scene.background
    zoom = shot.zooms[frame]
    if zoom == 1 and not shot.shifts[frame].any():
        return background[margin : margin + height, margin : margin + width].copy()
    middle = np.array([width, height]) / 2
    offset = middle + zoom * (0.5 - margin - middle) + shot.shifts[frame] - 0.5
    matrix = np.array([[zoom, 0, offset[0]], [0, zoom, offset[1]]])
    flags = cv2.INTER_CUBIC
    moved = cv2.warpAffine(background, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT)
    return np.maximum(np.asarray(moved, np.float32), 0)


def _exposure_times(shot: Shot, frame: int) -> Array:
    """Returns times that divide the exposure of a frame evenly [s]."""
    length = shot.conditions.shutter / shot.conditions.fps
    ends = shot.times[frame] + length * np.array([-0.5, 0.5])
    positions, _ = shot.scene.motion.trajectory(ends)
    travel = np.linalg.norm(positions[1] - positions[0], axis=-1).max(initial=0.0) * shot.camera.scale
    count = int(np.clip(np.ceil(travel / 1.5), *EXPOSURES))
    return np.asarray(shot.times[frame] + length * ((np.arange(count) + 0.5) / count - 0.5))


def write_video(path: Path, frames: Iterable[NDArray[np.uint8]], times: Array, conditions: Conditions) -> None:
    """Writes frames at given times [s] with H.264."""
    # One thread and one instruction set make the file the same everywhere. Chroma lies between pixels: chromaloc.
    options = {"crf": str(conditions.crf), "preset": "veryfast", "x264-params": "asm=AVX2:chromaloc=1"}
    height, width = conditions.size
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as output:
        stream = output.add_stream("libx264", rate=Fraction(conditions.fps).limit_denominator(1001), options=options)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.codec_context.time_base = Fraction(1, TICKS)
        stream.codec_context.thread_count = 1
        for image, time in zip(frames, times, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = round(time * TICKS), Fraction(1, TICKS)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
