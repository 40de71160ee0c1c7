"""Procedural backgrounds: walls with posters, shelves, plants, pages and furniture, and a floor in perspective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.raster import Image
from gradsim.experiments.footage_videos.shapes import Room

Random = np.random.Generator
Bytes = NDArray[np.uint8]
Box = tuple[int, int, int, int]  # left, top, right, bottom [px]

GAMMA = 2.2
WALLS = ((205, 200, 188), (178, 186, 190), (214, 205, 178), (160, 172, 158), (196, 180, 172), (132, 140, 150))
FLOORS = ((150, 112, 78), (120, 86, 60), (140, 138, 134), (172, 150, 120), (96, 92, 90))
ITEMS = (3, 8)  # least and most on a wall


def clutter(random: Random, camera: TrueCamera, room: Room) -> Image:
    """Returns a background [H, W, 3] in linear light."""
    height, width = camera.size
    image: Bytes = np.empty((height, width, 3), np.uint8)
    image[:] = np.clip(np.array(random.choice(WALLS)) + random.integers(-12, 13, 3), 0, 255)
    skirting = _row(camera, room.floor, room.wall)
    for _ in range(random.integers(ITEMS[0], ITEMS[1] + 1)):
        item = PAINTERS[random.integers(len(PAINTERS))]
        item(random, image, _place(random, camera.size, skirting))
    if room.floor is not None:
        _floor(random, image, camera, room.floor, room.wall)
    if random.uniform() < 0.5:
        _furniture(random, image, skirting)
    blurred = cv2.GaussianBlur(image, (0, 0), random.uniform(0.6, 1.6) * height / 720)
    return _light(random, (np.asarray(blurred, np.float32) / np.float32(255)) ** np.float32(GAMMA))


def _row(camera: TrueCamera, floor: float | None, wall: float) -> int:
    """Returns the row in which wall and floor meet [px]; the last one without a floor."""
    if floor is None:
        return camera.size[0]
    return int(np.clip(camera.project(np.array([0.0, floor, wall]))[1], 0, camera.size[0]))


def _place(random: Random, size: tuple[int, int], bottom: int) -> Box:
    height, width = size
    h, w = random.uniform(0.15, 0.45) * height, random.uniform(0.12, 0.35) * width
    left, top = random.uniform(-0.1, 0.9) * width, random.uniform(-0.05, 0.75) * bottom
    return int(left), int(top), int(left + w), int(min(top + h, bottom))


def _color(random: Random, low: int = 40, high: int = 225) -> tuple[int, int, int]:
    red, green, blue = (int(c) for c in random.integers(low, high, 3))
    gray = (red + green + blue) // 3
    return (red + gray) // 2, (green + gray) // 2, (blue + gray) // 2  # interiors are rarely saturated


def _rectangle(image: Bytes, box: Box, color: tuple[int, int, int], thickness: int = -1) -> None:
    cv2.rectangle(image, box[:2], box[2:], color, thickness, cv2.LINE_AA)


def _inset(box: Box, pixels: int) -> Box:
    return box[0] + pixels, box[1] + pixels, box[2] - pixels, box[3] - pixels


def _poster(random: Random, image: Bytes, box: Box) -> None:
    """A framed picture of large shapes."""
    _rectangle(image, box, _color(random, 30, 120))
    inner = _inset(box, max(3, (box[2] - box[0]) // 25))
    _rectangle(image, inner, _color(random, 90, 235))
    reach = max(6, (inner[2] - inner[0]) // 3)
    for _ in range(6):
        x, y = (
            random.integers(inner[0], max(inner[2], inner[0] + 1)),
            random.integers(inner[1], max(inner[3], inner[1] + 1)),
        )
        radius = int(random.integers(reach // 4, reach // 2 + 2))
        center = (
            int(np.clip(x, inner[0] + radius, max(inner[2] - radius, inner[0] + radius))),
            int(np.clip(y, inner[1] + radius, max(inner[3] - radius, inner[1] + radius))),
        )
        axes = (radius, max(2, int(radius * random.uniform(0.4, 1))))
        cv2.ellipse(image, center, axes, float(random.uniform(0, 180)), 0, 360, _color(random), -1, cv2.LINE_AA)


def _page(random: Random, image: Bytes, box: Box) -> None:
    """A sheet with lines that look like text."""
    _rectangle(image, box, _color(random, 190, 250))
    line = max(4, (box[3] - box[1]) // 16)
    for top in range(box[1] + 2 * line, box[3] - line, line):
        x = box[0] + line
        while x < box[2] - 2 * line:
            word = int(random.integers(line // 2 + 1, 4 * line))
            end = min(x + word, box[2] - line)
            _rectangle(image, (x, top, end, top + max(1, line // 3)), (70, 70, 75))
            x += word + line // 2 + 1


def _shelf(random: Random, image: Bytes, box: Box) -> None:
    """Rows of books."""
    _rectangle(image, box, _color(random, 40, 110))
    rows = int(random.integers(1, 4))
    depth = max(8, (box[3] - box[1]) // rows)
    for top in range(box[1], box[3] - depth // 2, depth):
        x = box[0] + 3
        while x < box[2] - 5:
            thick = int(random.integers(depth // 14 + 2, depth // 5 + 4))
            tall = int(depth * random.uniform(0.6, 0.9))
            _rectangle(image, (x, top + depth - tall, min(x + thick, box[2] - 3), top + depth - 3), _color(random))
            x += thick + 1


def _plant(random: Random, image: Bytes, box: Box) -> None:
    """Leaves in several greens."""
    middle = np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2])
    spread = np.array([box[2] - box[0], box[3] - box[1]]) / 5
    leaf = max(4.0, (box[3] - box[1]) / 14)
    for _ in range(90):
        x, y = (int(c) for c in middle + spread * random.normal(size=2))
        color = (int(random.integers(20, 80)), int(random.integers(60, 130)), int(random.integers(20, 70)))
        axes = (int(leaf * random.uniform(0.8, 2)), max(1, int(leaf * random.uniform(0.2, 0.5))))
        cv2.ellipse(image, (x, y), axes, float(random.uniform(0, 180)), 0, 360, color, -1, cv2.LINE_AA)


def _window(random: Random, image: Bytes, box: Box) -> None:
    """A window with a bright sky."""
    _rectangle(image, box, (235, 232, 225))
    inner = _inset(box, max(4, (box[2] - box[0]) // 16))
    _rectangle(image, inner, (200, 215, 232))
    middle = (inner[0] + inner[2]) // 2
    _rectangle(image, (middle - 2, inner[1], middle + 2, inner[3]), (228, 226, 220))


def _blocks(random: Random, image: Bytes, box: Box) -> None:
    """Blurred things of all colours."""
    part = image[max(box[1], 0) : max(box[3], 0), max(box[0], 0) : max(box[2], 0)]
    if min(part.shape[:2]) < 4:
        return
    for _ in range(8):
        y, x = random.integers(0, part.shape[0]), random.integers(0, part.shape[1])
        h, w = random.integers(3, part.shape[0] // 2 + 4), random.integers(3, part.shape[1] // 2 + 4)
        part[y : y + h, x : x + w] = _color(random)
    part[:] = cv2.GaussianBlur(part, (0, 0), max(1.0, part.shape[0] / 60))


def _curtain(random: Random, image: Bytes, box: Box) -> None:
    """Vertical folds."""
    left, right = max(box[0], 0), max(min(box[2], image.shape[1]), 0)
    fold = np.sin(np.arange(left, right) / max(3.0, image.shape[0] / 60) + random.uniform(0, 6))
    color = np.array(_color(random, 90, 210))
    image[: max(box[3], 0), left:right] = np.clip(color + 18 * fold[:, None], 0, 255)


def _furniture(random: Random, image: Bytes, skirting: int) -> None:
    """A cabinet at one side that stands on the floor."""
    height, width = image.shape[:2]
    side, wide = random.integers(0, 2), int(width * random.uniform(0.1, 0.2))
    left = 0 if side == 0 else width - wide
    top = int(skirting - height * random.uniform(0.15, 0.45))
    box = (left, top, left + wide, min(skirting + int(0.04 * height), height))
    _rectangle(image, box, _color(random, 50, 150))
    for line in np.linspace(top, box[3], 4)[1:3]:
        cv2.line(image, (left, int(line)), (left + wide, int(line)), (45, 40, 38), max(1, height // 300), cv2.LINE_AA)


def _floor(random: Random, image: Bytes, camera: TrueCamera, floor: float, wall: float) -> None:
    """Boards that run from the wall towards the camera, with a skirting board at the wall."""
    color = np.clip(np.array(random.choice(FLOORS)) + random.integers(-12, 13, 3), 0, 255)
    # Slightly more than the picture shows: far outside of it, the polynomial of the distortion has no meaning.
    slope = 1.2 * np.hypot(*camera.size) / 2 / camera.focal
    reach = slope * (camera.distance - wall)
    edges = np.arange(-reach, reach, random.uniform(0.08, 0.2))
    near = camera.distance - np.maximum(np.abs(edges), -floor) / slope
    far = camera.project(np.stack([edges, np.full_like(edges, floor), np.full_like(edges, wall)], -1))
    ends = camera.project(np.stack([edges, np.full_like(edges, floor), np.maximum(near, wall)], -1))
    for k in range(len(edges) - 1):
        corners = np.array([far[k], far[k + 1], ends[k + 1], ends[k]])
        shade = tuple(int(c) for c in np.clip(color * random.uniform(0.92, 1.06), 0, 255))
        cv2.fillPoly(image, [np.round(corners).astype(np.int32)], shade, cv2.LINE_AA)
    top = camera.project(np.stack([edges, np.full_like(edges, floor + 0.06), np.full_like(edges, wall)], -1))
    cv2.fillPoly(image, [np.round(np.concatenate([far, top[::-1]])).astype(np.int32)], (224, 220, 214), cv2.LINE_AA)


def _light(random: Random, image: Image) -> Image:
    """Returns a picture under uneven light, with a fine texture."""
    height, width = image.shape[:2]
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].astype(np.float32)
    a, b, cx, cy = random.uniform(-1, 1, 4)
    light = 1 + 0.15 * a * x + 0.15 * b * y + 0.15 * np.exp(-((x - cx) ** 2 + (y - cy) ** 2))
    texture = sum(_noise(random, image.shape[:2], cells) for cells in (4, 30, 200))
    return np.asarray(image * (light * (1 + 0.025 * texture))[..., None] * random.uniform(0.75, 1.0), np.float32)


def _noise(random: Random, size: tuple[int, ...], cells: int) -> NDArray[Any]:
    """Returns smooth noise [H, W] with about `cells` cells per height."""
    coarse = random.standard_normal((cells, max(2, cells * size[1] // size[0])), np.float32)
    return cv2.resize(coarse, (size[1], size[0]), interpolation=cv2.INTER_CUBIC)


PAINTERS: tuple[Callable[[Random, Bytes, Box], None], ...] = (
    _poster,
    _page,
    _shelf,
    _plant,
    _window,
    _blocks,
    _blocks,
    _curtain,
)
