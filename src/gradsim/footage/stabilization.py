"""Whether the camera stands still, and stabilization where it shakes.

The picture is divided into tiles. Phase correlation of the gradients finds how far each tile has shifted from the first
frame. A shaking camera shifts all tiles alike, which can be undone; a camera that turns, zooms or travels does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.background_motion import common_motion
from gradsim.footage.exposure import ExposureDrift, exposure_drift
from gradsim.footage.plate import Plate, background_plate, sample_numbers
from gradsim.footage.recording import Recording
from gradsim.scene.errors import MovingCamera, NoMovingObject

ROWS, COLUMNS = 2, 3  # tiles
CHECKED = 240  # frames in which the camera is checked; in all of them if it shakes
MAX_NOISE = 0.03  # of full scale: the plate of a still camera varies less
MAX_GRAIN = 0.1  # the same in low light
GRAIN_WIDTH = 7  # of the square over which the grain of low light vanishes [px of the reduced copy]
MAX_SHIFT = 0.4  # shift of a still camera [px of the reduced copy]
MAX_TURN = 1.2  # motion of most features of a picture from a still camera [px of the reduced copy]
AGREEMENT = 0.6  # tiles agree if they differ from their median by less [px of the reduced copy]
MIN_AGREEING = 2 / 3  # part of the tiles, in four fifths of the frames
MIN_TILES = 3  # with texture
SMALL_SHIFT = 1.0  # is not verified: it changes a tile too little [px of the reduced copy]
MAX_REMAINDER = 0.75  # of the difference from the first frame, after the shift of a tile is undone
MIN_TEXTURE = 8.0  # high quantile of the smoothed gradient of a tile with texture [8-bit values, Sobel]: noise has 1-2
MIN_SIMILARITY = 0.15  # correlation of successive frames of a scene
PAIRS = 16  # of successive frames that are compared
EDGES = 85  # percentile of the gradients of a plate above which there is an edge
MIN_RESPONSE = 0.3  # least height of a correlation peak: a tile without texture has a lower one


@dataclass(frozen=True, eq=False)
class CameraMotion:
    """The motion of the camera against the first frame.

    Args:
        shift: Shift of the picture [T, 2], x right and y down [px of the reduced copy]; zero for a still camera.
        agreement: Part of the textured tiles that agree with the shift [T]; one for a still camera.
        stabilized: Whether the shift has been removed from the frames.
    """

    shift: NDArray[np.float64] = field(repr=False)
    agreement: NDArray[np.float64] = field(repr=False)
    stabilized: bool

    @property
    def is_still(self) -> bool:
        """Whether the camera stands still."""
        return not self.stabilized

    def plot(self, axes: Any) -> None:
        """Draws the shift over the frames on matplotlib axes."""
        axes.plot(self.shift[:, 0], label="x")
        axes.plot(self.shift[:, 1], label="y")
        axes.set_xlabel("frame")
        axes.set_ylabel("shift of the camera [px of the reduced copy]")
        axes.legend()


@dataclass(frozen=True, eq=False)
class StillPicture:
    """A recording as a still camera with constant exposure would take it.

    Args:
        frames: Stabilized frames of the reduced copy [T, h, w, 3], with the exposure of the recording.
        camera: Motion of the camera.
        exposure: Gains of the frames against the plate.
        plate: A first background plate.
    """

    frames: NDArray[np.uint8] = field(repr=False)
    camera: CameraMotion
    exposure: ExposureDrift
    plate: Plate


def still_picture(recording: Recording) -> StillPicture:
    """Returns the reduced frames as a still camera would record them, its motion, and a first background plate.

    Raises:
        MovingCamera: The camera moves, and its motion is not a common shift of the picture.
        NoMovingObject: Successive frames have nothing in common, as in noise.
    """
    tiles, camera = _measured_motion(recording.reduced)
    frames = recording.reduced
    if camera.stabilized:
        frames = np.empty_like(recording.reduced)
        for k, image in enumerate(recording.reduced):
            frames[k] = shift_image(image, -camera.shift[k])
    exposure = exposure_drift(frames, sampled_plate(frames, ExposureDrift.none(len(frames))))
    plate = sampled_plate(frames, exposure)
    motion = 0.0 if camera.stabilized else _whole_motion(frames, tiles, plate)
    if plate.noise_level > MAX_NOISE:
        _check_related(recording)
    if motion or (plate.noise_level > MAX_NOISE and not is_grain(frames, plate)):
        largest = max(motion, float(np.percentile(np.abs(tiles), 90)) if tiles.size else 0.0)
        pixels = recording.scale.max() * largest
        found = f"the camera moves by about {pixels:.0f} px, plate noise {plate.noise_level:.3f} of full scale"
        remedy = f"needs a still camera (noise at most {MAX_NOISE}): use a tripod, or select frames=(start, stop)"
        raise MovingCamera(str(recording.path), found, remedy)
    return StillPicture(frames, camera, exposure, plate)


def is_grain(frames: NDArray[np.uint8], plate: Plate) -> bool:
    """Whether the noise of a plate is the grain of low light, which vanishes in blurred frames as motion does not."""
    numbers = sample_numbers(len(frames))
    blurred = np.stack([cv2.blur(frames[k], (GRAIN_WIDTH, GRAIN_WIDTH)) for k in numbers])
    return plate.noise_level < MAX_GRAIN and background_plate(blurred).noise_level < MAX_NOISE / 2


def _check_related(recording: Recording) -> None:
    """Raises if successive frames do not resemble each other, so that there is no background at all."""
    numbers = sample_numbers(len(recording) - 1, PAIRS)
    alike = float(np.median([_similarity(*recording.reduced[k : k + 2]) for k in numbers]))
    if alike < MIN_SIMILARITY:
        found = f"successive frames have nothing in common (correlation {alike:.2f})"
        remedy = "needs a background that stays: this is noise, a damaged file, or a camera that moves too fast"
        raise NoMovingObject(str(recording.path), found, remedy)


def _similarity(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Returns the correlation of two pictures [h, w, 3]; one if they have no contrast."""
    deviations = [image.mean(-1) - image.mean() for image in (first, second)]
    norms = [float(np.linalg.norm(own)) for own in deviations]
    return float((deviations[0] * deviations[1]).sum()) / (norms[0] * norms[1]) if min(norms) > 0 else 1.0


def _whole_motion(frames: NDArray[np.uint8], tiles: NDArray[np.float64], plate: Plate) -> float:
    """Returns how far the stillest tile moves, or else the features of the picture together [px of the reduced copy].

    Zero for a still camera.
    """
    shift = least_shift(tiles)
    if shift > MAX_SHIFT and edge_noise(plate) > MAX_NOISE:
        return shift
    turned = common_motion(frames[sample_numbers(len(frames), CHECKED)])
    return turned if turned > MAX_TURN else 0.0


def edge_noise(plate: Plate) -> float:
    """Returns the median noise of a plate at its edges, as a part of full scale.

    A camera that moves by a pixel changes the colours at edges by their contrast. Where they do not change, tiles that
    seem to shift contain something that moves.
    """
    gradients = _gradients(np.clip(np.rint(255 * plate.color), 0, 255).astype(np.uint8))
    return float(np.median(plate.noise[gradients >= np.percentile(gradients, EDGES)]))


def sampled_plate(frames: NDArray[np.uint8], exposure: ExposureDrift, hidden: NDArray[np.bool_] | None = None) -> Plate:
    """Returns the plate of some of the frames [T, h, w, 3], at the same exposure.

    Args:
        frames: Frames of a still camera.
        exposure: Gains of the frames.
        hidden: Pixels of the frames of `sample_numbers` in which an object hides the background [N, h, w].
    """
    numbers = sample_numbers(len(frames))
    even = np.stack([255 * exposure.values(frames[k], int(k)) for k in numbers])
    return background_plate(np.clip(np.rint(even), 0, 255).astype(np.uint8), hidden)


def _measured_motion(frames: NDArray[np.uint8]) -> tuple[NDArray[np.float64], CameraMotion]:
    """Returns the shifts of the tiles [N, n, 2] in the checked frames, and the motion of the camera in all frames."""
    numbers = sample_numbers(len(frames), CHECKED)
    tiles = tile_shifts(frames[numbers] if len(numbers) < len(frames) else frames)
    camera = camera_motion(tiles)
    if len(numbers) == len(frames):
        return tiles, camera
    if camera.stabilized:
        tiles = tile_shifts(frames)
        return tiles, camera_motion(tiles)
    return tiles, CameraMotion(np.zeros((len(frames), 2)), np.ones(len(frames)), False)


def camera_motion(tiles: NDArray[np.float64]) -> CameraMotion:
    """Returns the common shift of the tiles [T, N, 2], or none if they do not agree on one."""
    still = CameraMotion(np.zeros((len(tiles), 2)), np.ones(len(tiles)), False)
    if tiles.shape[1] < MIN_TILES:
        return still
    shift = np.median(tiles, 1)
    agreement = (np.abs(tiles - shift[:, None]).max(-1) < AGREEMENT).mean(1)
    shakes = np.percentile(np.abs(shift).max(1), 90) > MAX_SHIFT and np.percentile(agreement, 20) >= MIN_AGREEING
    return CameraMotion(shift, agreement, True) if shakes else still


def tile_shifts(frames: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Returns the shift against the first frame of those tiles of frames [T, h, w, 3] that have texture.

    Returns:
        Shifts [T, N, 2], x right and y down [px], of N <= 6 tiles.
    """
    tiles = _tiles(frames.shape[1:3])
    first = _gradients(frames[0])
    window = cv2.createHanningWindow(first[tiles[0]].shape[::-1], cv2.CV_32F)
    shifts, responses = np.empty((len(frames), len(tiles), 2)), np.empty((len(frames), len(tiles)))
    for k, image in enumerate(frames):
        gradients = _gradients(image)
        for n, tile in enumerate(tiles):
            # OpenCV multiplies its arguments by the window in place where it does not pad them.
            shift, responses[k, n] = cv2.phaseCorrelate(first[tile].copy(), gradients[tile].copy(), window)
            shifts[k, n] = _verified_shift(first[tile], gradients[tile], np.array(shift))
    smooth = _gradients(np.asarray(cv2.GaussianBlur(frames[0], (0, 0), 1.5), np.uint8))
    textured = [float(np.percentile(smooth[tile], 98)) > MIN_TEXTURE for tile in tiles]
    return shifts[:, (np.median(responses, 0) > MIN_RESPONSE) & textured]


def _verified_shift(
    first: NDArray[np.float32], tile: NDArray[np.float32], shift: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns a shift if it is small or undoing it makes a tile much more similar to the first one, else zero.

    An object that passes through a tile may have the highest correlation peak.
    """
    if np.abs(shift).max() < SMALL_SHIFT:
        return shift
    target, smooth = (cv2.GaussianBlur(own, (0, 0), 1.5) for own in (first, tile))  # noise is not texture
    before = float(np.abs(smooth - target).mean())
    after = float(np.abs(shift_image(smooth, -shift) - target).mean())
    return shift if after < MAX_REMAINDER * before else np.zeros(2)


def least_shift(tiles: NDArray[np.float64]) -> float:
    """Returns how far the stillest of the tiles [T, N, 2] shifts, in three quarters of the frames [px].

    If the tiles have no common shift, a tile that stands still shows that the camera does: other tiles contain
    something that moves.
    """
    if tiles.shape[1] < MIN_TILES:
        return 0.0
    return float(np.percentile(np.abs(tiles).max(-1), 75, axis=0).min())


def shift_image(image: NDArray[Any], shift: NDArray[np.float64]) -> NDArray[Any]:
    """Moves an image [H, W, ...] by a shift (x, y) [px], with its border repeated."""
    matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float64)
    size = (image.shape[1], image.shape[0])
    return cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def _tiles(size: tuple[int, ...]) -> list[tuple[slice, slice]]:
    height, width = _transform_length(size[0] // ROWS), _transform_length(size[1] // COLUMNS)
    corners = [(i * size[0] // ROWS, j * size[1] // COLUMNS) for i in range(ROWS) for j in range(COLUMNS)]
    return [(slice(top, top + height), slice(left, left + width)) for top, left in corners]


def _transform_length(limit: int) -> int:
    """Returns the largest even length up to a limit that is not padded: padding to odd ones biases by half a pixel."""
    lengths = (n for n in range(limit - limit % 2, 2, -2) if cv2.getOptimalDFTSize(n) == n)
    return next(lengths, 2)


def _gradients(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    magnitude = cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    return np.asarray(magnitude, np.float32)
