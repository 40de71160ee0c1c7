"""The kinds of motion, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gradsim.footage.motions import bounce, flight, oscillation, pendulum, slide
from gradsim.footage.motions.draft import Draft
from gradsim.footage.motions.path import ImagePath, MotionFit
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
    """

    name: str
    text: str
    fit: Callable[[ImagePath], MotionFit | None]
    draft: Callable[[MotionFit, View], Draft]


MOTIONS: dict[str, Motion] = {
    motion.name: motion
    for motion in (
        Motion(flight.NAME, "a body that falls or is thrown", flight.fit_flight, flight.draft_flight),
        Motion(bounce.NAME, "a body that bounces on a floor", bounce.fit_bounce, bounce.draft_bounce),
        Motion(pendulum.NAME, "a pendulum", pendulum.fit_pendulum, pendulum.draft_pendulum),
        Motion(slide.NAME, "a body that slides along a straight line", slide.fit_slide, slide.draft_slide),
        Motion(
            oscillation.NAME,
            "a mass on a spring",
            oscillation.fit_oscillation,
            oscillation.draft_oscillation,
        ),
    )
}
ALIASES = {"fall": "flight", "throw": "flight", "toss": "flight", "incline": "slide", "spring": "oscillation"}


def motion_named(name: str) -> Motion:
    """Returns a kind of motion by its name or another word for it."""
    known = [*MOTIONS, *ALIASES]
    if name not in known:
        raise UnknownName("--as", repr(name), f"{did_you_mean(name, known)}the motions are {', '.join(known)}")
    return MOTIONS[ALIASES.get(name, name)]


def fit_motions(path: ImagePath) -> list[MotionFit]:
    """Returns the fits of all kinds of motion to a path, the best explanation first."""
    fits = (motion.fit(path) for motion in MOTIONS.values())
    return sorted((fit for fit in fits if fit is not None), key=lambda fit: fit.cost)
