"""Images of frames that are spread over a recording, encoded in the background."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.recording import Recording
from gradsim.scene.errors import VideoFileError

MAX_SHOWN = 40  # frames on the page: 4K frames then take about 100 MB
JPEG_OPTIONS = (int(cv2.IMWRITE_JPEG_QUALITY), 95)

Images = tuple["Future[bytes]", ...]


def spread_frames(recording: Recording) -> Recording:
    """Returns every n-th frame of a recording, at most MAX_SHOWN of them, the first included."""
    step = slice(None, None, math.ceil(len(recording) / MAX_SHOWN))
    return replace(
        recording, numbers=recording.numbers[step], times=recording.times[step], reduced=recording.reduced[step]
    )


@contextmanager
def encoded_frames(shown: Recording) -> Iterator[Images]:
    """Yields the JPEG images of all frames, at full resolution, as futures: a thread decodes the file meanwhile.

    Leaving the context stops the thread and cancels the images that are not there yet.
    """
    images: Images = tuple(Future() for _ in shown.numbers)
    stop = Event()
    thread = Thread(target=_encode_all, args=(shown, images, stop), name="encode-frames", daemon=True)
    thread.start()
    try:
        yield images
    finally:
        stop.set()
        thread.join()


def _encode_all(shown: Recording, images: Images, stop: Event) -> None:
    reason: BaseException = VideoFileError(str(shown.path), "the file", "has fewer frames than when it was opened")
    try:
        for image, frame in zip(images, shown.full_frames(), strict=False):
            if stop.is_set():
                break
            image.set_result(_jpeg(frame))
    except Exception as error:  # reported by the page, in place of the image
        reason = error
    for image in images:
        if not image.done():
            image.cancel() if stop.is_set() else image.set_exception(reason)


def _jpeg(frame: NDArray[np.uint8]) -> bytes:
    """Returns the JPEG file of an RGB image [H, W, 3]."""
    encoded, data = cv2.imencode(".jpg", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), JPEG_OPTIONS)
    if not encoded:
        height, width = frame.shape[:2]
        raise VideoFileError(
            "frame", f"{height} x {width}", "is too large to be shown: JPEG has at most 65500 pixels a side"
        )
    return data.tobytes()
