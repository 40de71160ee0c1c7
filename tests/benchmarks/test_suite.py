"""The command line: results files, JSON, and exit codes."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from benchmarks import command_line, suite
from benchmarks.command_line import app, main
from benchmarks.report import Requirement, Section
from benchmarks.suite import run_all


def set_sections(monkeypatch, *, met):
    """Replaces all benchmarks by sections with one requirement each; the last one is met or missed."""
    sections = {
        name: Section(name.title(), f"a table of {name}", {"rows": [name]}, (Requirement("fast", "yes", True),))
        for name in suite.BENCHMARKS
    }
    sections["scaling"] = Section("Scaling", "a table of scaling", {}, (Requirement("fast", "no", met),))
    benchmarks = {name: lambda peer, progress, section=section: section for name, section in sections.items()}
    monkeypatch.setattr(suite, "BENCHMARKS", benchmarks)
    return sections


def test_results_are_written_after_every_benchmark(monkeypatch, tmp_path):
    sections = set_sections(monkeypatch, met=True)
    titles = [section.title for section in sections.values()]
    for count, section in enumerate(run_all(tmp_path), 1):
        content = json.loads((tmp_path / "results.json").read_text())
        assert list(content) == titles[:count]
        assert content[section.title]["requirements"][0]["met"]
    page = (tmp_path / "results.md").read_text()
    for section in sections.values():
        assert f"\n## {section.title}\n\n```text\n{section.report}\n```" in page


@pytest.mark.parametrize(("met", "code"), [(True, 0), (False, command_line.REQUIREMENT_MISSED)])
def test_all_fails_if_a_requirement_is_missed(monkeypatch, tmp_path, met, code):
    set_sections(monkeypatch, met=met)
    result = CliRunner().invoke(app, ["all", "--out", str(tmp_path)])
    assert result.exit_code == code
    assert (tmp_path / "results.md").exists()


@pytest.mark.parametrize(("met", "code"), [(True, 0), (False, command_line.REQUIREMENT_MISSED)])
def test_a_single_benchmark_fails_if_a_requirement_is_missed(monkeypatch, met, code):
    section = Section("Chain", "a table", {}, (Requirement("fast", "no", met),))
    monkeypatch.setattr(command_line.chain, "measure_chain", lambda progress: None)
    monkeypatch.setattr(command_line.chain, "section", lambda results: section)
    assert CliRunner().invoke(app, ["chain"]).exit_code == code


def test_a_single_benchmark_writes_json(tmp_path):
    file = tmp_path / "results.json"
    options = ["--batch", "1", "--steps", "2", "--seconds", "0", "--no-peer", "--json", str(file)]
    result = CliRunner().invoke(app, ["rigid", *options])
    assert result.exit_code == 0, result.output
    content = json.loads(file.read_text())
    assert set(content) == {"rigid"}
    assert content["rigid"]["rows"][0]["worlds"] == 1
    assert content["rigid"]["machine"]["cores"] >= 1


@pytest.mark.parametrize("arguments", [["beams", "--size", "7", "--no-peer"], ["beams", "--steps", "0"], ["unknown"]])
def test_invalid_input_is_an_error_with_its_own_exit_code(monkeypatch, capsys, arguments):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == command_line.INVALID_INPUT
    assert "error:" in capsys.readouterr().err


def test_every_benchmark_of_the_suite_has_a_command():
    commands = {command.name for command in app.registered_commands}
    assert set(suite.BENCHMARKS) <= commands
