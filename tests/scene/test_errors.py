"""Errors keep their type, message and attributes in copies and in other processes."""

from __future__ import annotations

import copy
import pickle

import pytest

from gradsim.scene import errors
from gradsim.scene.errors import BrokenGradient, Diverged, GradsimError, InvalidInput, MissingExtra, SceneFileError

ERRORS = [
    InvalidInput("cube.mass", -1.0, "must be > 0"),
    SceneFileError("scene.yaml", 3, "cube.mass", -1.0, "must be > 0"),
    MissingExtra("gs.Mitsuba()", "mitsuba"),
    Diverged("cube", 12, 0.1, 0, 1e-3, 1e-4),
    BrokenGradient("the gradient is not finite"),
    *(
        kind("a", 1, "b")
        for kind in vars(errors).values()
        if isinstance(kind, type) and InvalidInput in kind.__bases__ and kind is not SceneFileError
    ),
]


@pytest.mark.parametrize(
    "duplicate", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_of_an_error_has_its_message_and_attributes(error, duplicate):
    found = duplicate(error)
    assert isinstance(found, GradsimError)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
    assert found.args == error.args
