"""What the page sends: checked, and merged into the choices that were there before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradsim.footage.choices import Box, Choices
from gradsim.footage.recording import Recording
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName

MAX_BOXES = 100  # rectangles that are ignored


class Picked(BaseModel):
    """The choices that the page offers, all of them present; None where nothing was chosen. Units as in `Choices`."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    object: tuple[float, float] | None
    object_frame: int | None
    scale: tuple[float, float, float, float, float] | None
    diameter: float | None
    floor: Box | None
    ignore: tuple[Box, ...] = Field(max_length=MAX_BOXES)
    motion: str | None
    gravity: float | None
    mass: float | None


def merge_picked(body: bytes, choices: Choices, recording: Recording, motions: Collection[str]) -> Choices:
    """Returns the choices with those that the page sent.

    Args:
        body: A `Picked`, as JSON.
        choices: What was known before; what the page does not offer is kept.
        recording: The recording.
        motions: Names of the kinds of motion that the page offered.

    Raises:
        InvalidInput: The JSON is damaged, or a choice is invalid.
    """
    try:
        picked = Picked.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"])) or "choices"
        raise InvalidInput(name, "the value that the page sent", first["msg"]) from None
    _check_place(picked, recording)
    if picked.motion is not None and picked.motion not in motions:
        raise UnknownName("motion", repr(picked.motion), f"the motions are {', '.join(motions) or 'automatic only'}")
    return replace(choices, **{name: getattr(picked, name) for name in Picked.model_fields})


def _check_place(picked: Picked, recording: Recording) -> None:
    """Checks that the object was picked in the picture, and in a frame of the recording."""
    height, width = recording.size
    if picked.object is not None and not (0 <= picked.object[0] <= width and 0 <= picked.object[1] <= height):
        raise OutOfRange("object", picked.object, f"must lie in the picture of {width} x {height} pixels")
    if picked.object_frame is not None and picked.object_frame not in recording.numbers:
        first, last = recording.numbers[0], recording.numbers[-1]
        raise OutOfRange("object_frame", picked.object_frame, f"must be one of the selected frames {first} to {last}")
