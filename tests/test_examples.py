"""Every example runs, its own assertions hold, and it stays short."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_examples_are_found():
    assert len(EXAMPLES) >= 5


@pytest.mark.usefixtures("forget_declarations")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip(), "an example says what it found"
    assert len(example.read_text().splitlines()) <= 60
