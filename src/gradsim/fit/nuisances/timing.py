"""Nuisances of the times of a video's frames."""

from __future__ import annotations

from collections.abc import Iterator

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.nuisance import Nuisance

FPS = 0.1  # [%]
OFFSET = 0.3  # [frame]; a video that is cut at the frame next to the start is off by up to half a frame
EXPOSURE = 0.5  # [frame]


def time_nuisances() -> Iterator[Nuisance]:
    text = wording.larger("frame rate", words=("higher", "lower"))
    yield Nuisance("video.fps", "time", "%", FPS, text, time="fps", changes=("fps",))
    text = wording.of("time offset of the video", "frame")
    yield Nuisance("video.offset", "delay", "frame", OFFSET, text, time="offset", changes=("offset",))
    # The mean over an exposure from the time of the frame on is not linear in its length: a difference over a tenth of
    # a frame includes the blur.
    text = wording.of("exposure", "frame")
    yield Nuisance(
        "video.exposure",
        "time",
        "frame",
        EXPOSURE,
        text,
        time="exposure",
        changes=("exposure",),
        low=0.0,
        step=EXPOSURE,
    )
