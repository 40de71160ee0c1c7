"""Finding the moving objects of a recording."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.objects import Blob, find_blobs
from gradsim.footage.plate import Plate, background_plate, sample_numbers
from gradsim.footage.recording import Recording
from gradsim.footage.stabilization import CameraMotion, still_frames
from gradsim.footage.tracklets import Tracklet, link_blobs
from gradsim.scene.errors import NoMovingObject


@dataclass(frozen=True, eq=False)
class Detection:
    """The moving objects of a recording.

    Args:
        recording: The recording.
        camera: Motion of the camera.
        plate: Background at the size of the reduced copy, computed without the best object.
        tracklets: Moving objects, best first. The scores of the runners-up show how clear the choice is.
    """

    recording: Recording
    camera: CameraMotion
    plate: Plate
    tracklets: tuple[Tracklet, ...] = field(repr=False)

    @property
    def best(self) -> Tracklet:
        """The tracklet with the highest score."""
        return self.tracklets[0]

    def plot(self, axes: Any) -> None:
        """Draws the paths of the best objects over the plate on matplotlib axes."""
        self.plate.plot(axes)
        for tracklet in self.tracklets[:4]:
            tracklet.plot(axes, label=f"score {tracklet.score:.2f}, {len(tracklet)} frames")
        axes.legend(fontsize="small")

    def save_overlay(self, path: str | os.PathLike[str]) -> None:
        """Writes `plot` to an image file."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 6), layout="constrained")
        self.plot(figure.add_subplot())
        figure.savefig(path)


def find_moving_objects(recording: Recording) -> Detection:
    """Finds the objects that move through a recording of a still camera.

    The plate of a first pass contains an object that rests for more than half of the time. A second pass computes the
    plate without the best object of the first, and finds the objects again.

    Raises:
        MovingCamera: The camera moves.
        NoMovingObject: No blob can be followed over four frames.
    """
    frames, camera, plate = still_frames(recording)
    tracklets = _linked(find_blobs(frames, plate), recording.times)
    if not tracklets:
        remedy = "needs an object that differs from the background and crosses at least a third of its size"
        raise NoMovingObject(str(recording.path), f"nothing moves in {len(recording)} frames", remedy)
    samples = sample_numbers(len(frames))
    hidden = _hidden(tracklets[0], samples, frames.shape[1:3])
    plate = background_plate(frames[samples], hidden)
    tracklets = _linked(find_blobs(frames, plate), recording.times) or tracklets
    return Detection(recording, camera, plate, tuple(tracklets))


def _linked(blobs: Sequence[Sequence[Blob]], times: NDArray[np.float64]) -> list[Tracklet]:
    """Returns tracklets of blobs that are whole, or else of all."""
    return link_blobs(blobs, times) or link_blobs(blobs, times, at_edge=True)


def _hidden(tracklet: Tracklet, samples: NDArray[np.int64], size: tuple[int, ...]) -> NDArray[np.bool_]:
    """Returns the pixels [N, h, w] that the object hides in some frames, with a margin."""
    hidden = np.zeros((len(samples), *size), np.uint8)
    places = {int(frame): n for n, frame in enumerate(samples)}
    radius = max(2, int(0.25 * tracklet.diameter))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    for blob in tracklet.blobs:
        if blob.frame in places:
            left, top, width, height = blob.box
            image = hidden[places[blob.frame]]
            image[top : top + height, left : left + width] = blob.mask
            hidden[places[blob.frame]] = cv2.dilate(image, disc)
    return hidden.astype(np.bool_)
