"""Hostile scene files are refused with an error of their own, quickly and in little memory."""

from __future__ import annotations

import tracemalloc

import pytest

import gradsim as gs
from gradsim.scene.errors import SceneFileError
from gradsim.scene.spelling import abbreviate

DOUBLINGS = 40
ALIAS_BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{k + 1}: &a{k + 1} [*a{k}, *a{k}]\n" for k in range(DOUBLINGS))
MERGE_BOMB = "a0: &a0 {x0: 0}\n" + "".join(
    f"a{k + 1}: &a{k + 1} {{<<: [*a{k}, *a{k}], x{k + 1}: 0}}\n" for k in range(DOUBLINGS)
)
HOSTILE = {
    "alias bomb": (ALIAS_BOMB, "expand to more than"),
    "merge bomb": (MERGE_BOMB, "expand to more than"),
    "self-containing list": ("bodies: &a [*a]", "inside of its own anchor"),
    "nested brackets": ("bodies: " + "[" * 1000 + "]" * 1000, "nested more than"),
    "nested mappings": ("{a: " * 1000 + "1" + "}" * 1000, "nested more than"),
    "explicit bool": ("bodies: !!bool x", "'x' is not true or false"),
    "timestamp": ("bodies: !!timestamp abc", "could not determine a constructor"),
    "date": ("bodies: !!timestamp 2020-01-01", "could not determine a constructor"),
    "binary": ("bodies: !!binary abc", "could not determine a constructor"),
    "set": ("bodies: !!set {a, b}", "could not determine a constructor"),
    "python object": ("bodies: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    "integer": ("bodies: !!int x", "'x' is not a number"),
    "digits": ("bodies: " + "9" * 5000, "is not a number"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_in_little_memory(case, tmp_path):
    text, message = HOSTILE[case]
    file = tmp_path / "scene.yaml"
    file.write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(SceneFileError, match=message):
            gs.load_scene(file)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_an_alias_may_be_used_several_times(tmp_path):
    file = tmp_path / "scene.yaml"
    file.write_text(
        "bodies:\n"
        "  - rigid: {name: a, mesh: {box: {size: 0.1}}, mass: &m {unknown: 2.0}}\n"
        "  - rigid: {name: b, mesh: {box: {size: 0.1}}, mass: *m, position: [1, 0, 0]}\n"
    )
    first, second = gs.load_scene(file).bodies
    assert first.mass is second.mass


def test_the_text_of_a_value_is_not_computed_as_a_whole():
    class Endless(list):
        def __iter__(self):
            for k in range(10**9):
                assert k < 1000
                yield k

        def __len__(self):
            return 10**9

    assert len(abbreviate([Endless()] * 5)) <= 60
    assert abbreviate([1, 2, 3]) == "[1, 2, 3]"
