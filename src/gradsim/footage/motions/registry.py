"""The kinds of motion, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gradsim.footage.measured import Measured
from gradsim.footage.motions import bounce, double_pendulum, flight, oscillation, pendulum, slide
from gradsim.footage.motions.depth import flight_drift
from gradsim.footage.motions.draft import Draft
from gradsim.footage.motions.path import MIN_FRAMES, ImagePath, MotionFit, moving_range
from gradsim.footage.motions.view import View
from gradsim.scene.errors import UnknownName
from gradsim.scene.spelling import did_you_mean


@dataclass(frozen=True)
class Motion:
    """A kind of motion.

    Args:
        name: Its name, such as "bounce".
        text: What it is, in words.
        fit: Fits it to a path in the picture; None if the path cannot be this motion.
        draft: Returns the draft of a scene from the fit.
        objects: Number of objects whose paths are fitted together.
        drift: Returns the speed towards the camera over the distance [1/s]; None if its path does not show it.
    """

    name: str
    text: str
    fit: Callable[[ImagePath], MotionFit | None]
    draft: Callable[[MotionFit, View], Draft]
    objects: int = 1
    drift: Callable[[ImagePath, MotionFit, View], Measured] | None = None


MOTIONS: dict[str, Motion] = {
    motion.name: motion
    for motion in (
        Motion(
            flight.NAME,
            "a body that falls or is thrown",
            flight.fit_flight,
            flight.draft_flight,
            drift=flight_drift,
        ),
        Motion(bounce.NAME, "a body that bounces on a floor", bounce.fit_bounce, bounce.draft_bounce),
        Motion(pendulum.NAME, "a pendulum", pendulum.fit_pendulum, pendulum.draft_pendulum),
        Motion(slide.NAME, "a body that slides along a straight line", slide.fit_slide, slide.draft_slide),
        Motion(
            oscillation.NAME,
            "a mass on a spring",
            oscillation.fit_oscillation,
            oscillation.draft_oscillation,
        ),
        Motion(
            double_pendulum.NAME,
            "two bobs, one hanging from the other",
            double_pendulum.fit_double_pendulum,
            double_pendulum.draft_double_pendulum,
            objects=2,
        ),
    )
}
ALIASES = {
    **dict.fromkeys(("fall", "throw", "toss"), "flight"),
    "incline": "slide",
    **dict.fromkeys(("spring", "beam"), "oscillation"),
    "double-pendulum": "double_pendulum",
}
MIN_EXPLAINED = 0.9  # part of the deviation from uniform motion that a kind of motion must explain
DEFORMING = ("cloth", "flag", "soft")  # motions that the path of a centre does not show
DEFORMING_REMEDY = (
    "is not prepared from footage: the path of a centre does not show how something bends. Write a scene with its mesh "
    "and use gradsim estimate scene.yaml video.mp4"
)


def motion_named(name: str) -> Motion:
    """Returns a kind of motion by its name or another word for it."""
    known = [*MOTIONS, *ALIASES]
    if name in DEFORMING:
        raise UnknownName("--as", repr(name), DEFORMING_REMEDY)
    if name not in known:
        raise UnknownName("--as", repr(name), f"{did_you_mean(name, known)}the motions are {', '.join(known)}")
    return MOTIONS[ALIASES.get(name, name)]


def fit_motions(path: ImagePath) -> list[MotionFit]:
    """Returns the fits of all kinds of motion of as many objects to a path, the best explanation first.

    If none explains a path of an object that rests for a while, those of the part in which it moves are returned.
    """
    fits = _sorted_fits(path)
    first, stop = moving_range(path)
    if (fits and fits[0].explained > MIN_EXPLAINED) or stop - first in (len(path), *range(MIN_FRAMES)):
        return fits
    moving = _sorted_fits(path.part(slice(first, stop)))
    if not moving or moving[0].explained < MIN_EXPLAINED:
        return fits
    return [replace(fit, first=fit.first + first, last=fit.last + first) for fit in moving]


def _sorted_fits(path: ImagePath) -> list[MotionFit]:
    fits = (motion.fit(path) for motion in MOTIONS.values() if motion.objects == path.objects)
    return sorted((fit for fit in fits if fit is not None), key=lambda fit: fit.cost)
