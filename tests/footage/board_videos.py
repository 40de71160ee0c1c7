"""Pictures of flat patterns through a lens with distortion, by supersampling: an independent model of the camera.

A sample of a pixel is traced back through the lens (fixed-point iteration on the distortion), then to the plane of the
pattern. The samples of a pixel are spread over its area and over the exposure, in linear light; then come optical blur,
vignetting, noise and the sRGB curve. Nothing of OpenCV's camera model is used.
"""

from dataclasses import dataclass
from functools import cache

import av
import cv2
import numpy as np

LIGHT, DARK, GROUND = 0.75, 0.04, 0.3  # linear light of paper, print and background


@dataclass(frozen=True)
class TrueLens:
    """A lens; pixels have their corners at whole numbers."""

    size: tuple = (540, 960)
    fx: float = 832.0
    fy: float = 830.0
    cx: float = 488.0
    cy: float = 262.0
    k1: float = -0.14
    k2: float = 0.06
    p1: float = 0.0008
    p2: float = -0.0006
    k3: float = 0.0

    def distort(self, plane):
        """Distorted coordinates [..., 2] of points (X/Z, Y/Z)."""
        x, y = np.moveaxis(plane, -1, 0)
        r2 = x * x + y * y
        radial = 1 + r2 * (self.k1 + r2 * (self.k2 + r2 * self.k3))
        return np.stack(
            [
                x * radial + 2 * self.p1 * x * y + self.p2 * (r2 + 2 * x * x),
                y * radial + self.p1 * (r2 + 2 * y * y) + 2 * self.p2 * x * y,
            ],
            -1,
        )

    def undistort(self, pixels):
        """Directions (X/Z, Y/Z) [..., 2] of points of the picture."""
        distorted = (pixels - np.array([self.cx, self.cy])) / np.array([self.fx, self.fy])
        plane = distorted
        for _ in range(12):
            plane = plane + distorted - self.distort(plane)
        return plane

    def project(self, points):
        """Pixels [..., 2] of points in camera axes [..., 3]."""
        plane = points[..., :2] / points[..., 2:]
        return self.distort(plane) * np.array([self.fx, self.fy]) + np.array([self.cx, self.cy])


@cache
def sample_rays(lens, side):
    """Directions (X/Z, Y/Z) of side^2 samples in each pixel [S, H, W, 2]."""
    height, width = lens.size
    y, x = np.mgrid[:height, :width]
    offsets = (np.arange(side) + 0.5) / side
    rays = [lens.undistort(np.stack([x + dx, y + dy], -1)) for dy in offsets for dx in offsets]
    return np.array(rays, np.float32)


def rotation(angles):
    """Rotation matrix about x, then y, then z [rad]."""
    return cv2.Rodrigues(np.array([0.0, 0, angles[2]]))[0] @ (
        cv2.Rodrigues(np.array([0.0, angles[1], 0]))[0] @ cv2.Rodrigues(np.array([float(angles[0]), 0, 0]))[0]
    )


@dataclass(frozen=True, eq=False)
class Texture:
    """A pattern of square texels in the plane z = 0, x along a row, y from row to row.

    Between texels light is interpolated, so that edges do not alias: a texel is about as large as the distance of two
    samples.
    """

    texels: np.ndarray  # linear light [rows, columns]
    side: float  # of a texel [m]
    corner: tuple  # x, y where the first texel begins [m]

    def look_up(self, inverse, rays):
        """Linear light [H, W] of rays [H, W, 2]; `inverse` [3, 3] takes (x, y, 1) to points of the plane."""
        to_texels = np.array([[1, 0, -self.corner[0]], [0, 1, -self.corner[1]], [0, 0, self.side]]) / self.side
        to_centers = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
        places = cv2.perspectiveTransform(rays, to_centers @ to_texels @ inverse)
        return cv2.remap(self.texels, places, None, cv2.INTER_LINEAR, borderValue=GROUND)


def texture_of(cells, side, corner, detail):
    """Texture of cells of linear light, with `detail` texels along the side of each."""
    fine = np.repeat(np.repeat(cells, detail, 0), detail, 1)
    return Texture(fine.astype(np.float32), side / detail, corner)


def picture(lens, texture, pose, *, side=2, blur=0.6, noise=0.008, vignetting=0.2, seed=0):
    """A picture [H, W, 3] of 8 bits of a pattern.

    Args:
        lens: The lens.
        texture: The pattern.
        pose: Function from the time in the exposure, in [-0.5, 0.5], to (rotation [3, 3], translation [3] [m]).
        side: Samples along each side of a pixel.
        blur: Standard deviation of the optical blur [px].
        noise: Standard deviation of noise, of full scale.
        vignetting: Loss of light in the corners.
        seed: Seed of the noise.
    """
    random = np.random.default_rng(seed)
    rays = sample_rays(lens, side)
    times = (random.permutation(len(rays)) + 0.5) / len(rays) - 0.5
    light = np.zeros(lens.size, np.float32)
    for ray, time in zip(rays, times, strict=True):
        turn, shift = pose(time)
        light += texture.look_up(np.linalg.inv(np.column_stack([turn[:, 0], turn[:, 1], shift])), ray)
    light = cv2.GaussianBlur(light / len(rays), (0, 0), blur)
    y, x = (np.linspace(-1, 1, n, dtype=np.float32) ** 2 for n in lens.size)
    light = light * (1 - vignetting * (x + y[:, None]) / 2)
    coded = np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-6) ** (1 / 2.4) - 0.055)
    coded = coded + noise * random.standard_normal(coded.shape, np.float32)
    gray = (np.clip(coded, 0, 1) * 255).round().astype(np.uint8)
    return np.repeat(gray[..., None], 3, -1)


def chessboard(columns, rows, square, detail=120):
    """A chessboard with (columns, rows) inner corners, the first at the origin, and a white margin of one square."""
    dark = np.indices((rows + 1, columns + 1)).sum(0) % 2 == 0
    cells = np.pad(np.where(dark, DARK, LIGHT), 1, constant_values=LIGHT)
    return texture_of(cells, square, (-2 * square, -2 * square), detail)


def image_texture(image, width, margin=1, detail=1):
    """A black and white image [h, w] that is `width` wide [m], corner at the origin, with a white margin [cells].

    The first row is at y = 0, and y points down.
    """
    side = width / image.shape[1]
    cells = np.pad(np.where(image > 127, LIGHT, DARK), margin, constant_values=LIGHT)
    return texture_of(cells, side, (-margin * side, -margin * side), detail)


def tour(lens, width, height, count, *, seed=0, fill=0.8, tilt=0.65, speed=0.3):
    """Poses of a board of width x height [m] on a tour of the picture: functions of the time in the exposure.

    Args:
        lens: The lens.
        width, height: Size of the board [m].
        count: Frames.
        seed: Seed.
        fill: Part of the picture that the board fills at most.
        tilt: Largest tilt [rad].
        speed: Motion during the exposure [px], about.
    """
    random = np.random.default_rng(seed)
    center = np.array([width / 2, height / 2, 0.0])
    result = []
    for _ in range(count):
        part = fill * random.uniform(0.55, 1.0)
        depth = max(lens.fx * width / (part * lens.size[1]), lens.fy * height / (part * lens.size[0]))
        reach = 0.45 * max(1 - part, 0)
        pixel = (0.5 + random.uniform(-reach, reach, 2)) * np.array(lens.size[::-1])
        direction = np.array([*((pixel - [lens.cx, lens.cy]) / [lens.fx, lens.fy]), 1.0])
        angles = np.array([*random.uniform(-tilt, tilt, 2), random.uniform(-0.4, 0.4)])
        velocity = speed * depth / lens.fx * random.standard_normal(3)

        def pose(time, angles=angles, place=depth * direction, velocity=velocity):
            turn = rotation(angles)
            return turn, place + time * velocity - turn @ center

        result.append(pose)
    return result


def save_phone(path, images, quality=17):
    """Writes a video of H.264 with as many bits as phones use, .2 bit a pixel or more."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=30, options={"crf": str(quality), "x264-params": "asm=AVX2"})
        stream.height, stream.width, stream.pix_fmt = *images[0].shape[:2], "yuv420p"
        stream.codec_context.thread_count = 1
        for image in images:
            output.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        output.mux(stream.encode())
    return path
