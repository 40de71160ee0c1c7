"""The command line: what it prints, writes and returns."""

import json

import numpy as np
import pytest
import typer

from gradsim import __version__, cli
from gradsim.check.fact import relative, small


def test_a_report_prints_writes_and_fails_on_a_miss(tmp_path, capsys):
    good = small("a topic", "a length [m]", np.float64(1e-12), 1e-10)
    bad = relative("a topic", "a time [s]", 2.0, np.float64(2.1), 1e-3)
    file = tmp_path / "facts.json"
    cli._report(lambda progress: [good], "title", ("expected", "got"), file)
    assert "a length [m]" in capsys.readouterr().out
    assert json.loads(file.read_text()) == [good.as_dict()]
    with pytest.raises(typer.Exit) as stopped:
        cli._report(lambda progress: [good, bad], "title", ("expected", "got"), None)
    assert stopped.value.exit_code == 1
    assert "MISS" in capsys.readouterr().out


def test_demo_saves_its_picture(tmp_path, capsys):
    cli.demo(tmp_path)
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    shown = capsys.readouterr().out
    adjoint, difference = (float(word) for word in shown.split("Young")[1].replace(")", "").split() if "e-0" in word)
    assert adjoint == pytest.approx(difference, rel=1e-4)


def test_errors_are_one_paragraph_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gradsim", "bench", "physics", "--only", "tets", "--size", "7", "--no-peer"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert "error:" in told
    assert "Traceback" not in told


def test_version(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gradsim", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert __version__ in capsys.readouterr().out
