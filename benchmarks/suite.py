"""All benchmarks in one run, with their results in results.md and results.json."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from benchmarks import (
    answers,
    beams,
    calls,
    chain,
    cloth,
    implicit,
    memory,
    render,
    render_report,
    rigid,
    scaling,
    smoothed,
    stacks,
    worlds,
)
from benchmarks.report import Progress, Section, no_progress
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput

WIDTH = 120  # of the tables, in characters

Benchmark = Callable[[bool, Progress], Section]  # whether to time peers too, and where to report progress

BENCHMARKS: dict[str, Benchmark] = {
    "beams": lambda peer, progress: beams.section(beams.measure_beams(peer=peer, progress=progress)),
    "smoothed": lambda peer, progress: smoothed.section(smoothed.measure_smoothed(peer=peer, progress=progress)),
    "cloth": lambda peer, progress: cloth.section(cloth.measure_cloth(peer=peer, progress=progress)),
    "rigid": lambda peer, progress: rigid.section(rigid.measure_rigid(peer=peer, progress=progress)),
    "stacks": lambda peer, progress: stacks.section(stacks.measure_stacks(peer=peer, progress=progress)),
    "implicit": lambda peer, progress: implicit.section(implicit.measure_implicit(progress=progress)),
    "worlds": lambda peer, progress: worlds.section(worlds.measure_worlds(progress=progress)),
    "calls": lambda peer, progress: calls.section(calls.measure_calls(progress=progress)),
    "render": lambda peer, progress: render_report.section(render.measure_render(peer=peer, progress=progress)),
    "chain": lambda peer, progress: chain.section(chain.measure_chain(progress=progress)),
    "answers": lambda peer, progress: answers.section(answers.measure_answers(peers=peer, progress=progress)),
    "memory": lambda peer, progress: memory.section(memory.measure_memory(progress=progress)),
    "scaling": lambda peer, progress: scaling.section(scaling.measure_scaling(progress=progress)),
}


def run_all(folder: Path, *, peer: bool = True, progress: Progress = no_progress) -> Iterator[Section]:
    """Runs all benchmarks and yields their sections; results.md and results.json are rewritten after each.

    Args:
        folder: Folder of the two files.
        peer: Whether to time Newton and DEODR too.
        progress: Called with one line before each measurement.
    """
    sections: list[Section] = []
    for benchmark in BENCHMARKS.values():
        sections.append(benchmark(peer, progress))
        _write(folder, sections)
        yield sections[-1]


def _write(folder: Path, sections: list[Section]) -> None:
    text = json.dumps({section.title: section.as_dict() for section in sections}, indent=2) + "\n"
    write_atomically(folder / "results.json", lambda target: target.write_text(text), InvalidInput)
    page = "\n".join(_page(sections)) + "\n"
    write_atomically(folder / "results.md", lambda target: target.write_text(page), InvalidInput)


def _page(sections: list[Section]) -> Iterator[str]:
    yield "# Benchmarks\n"
    yield "Written by `make bench` in one run. Peers are timed alternately with gradsim in the same run.\n"
    requirements = [requirement for section in sections for requirement in section.requirements]
    if requirements:
        yield f"{sum(requirement.met for requirement in requirements)} of {len(requirements)} requirements are met.\n"
        yield from (f"- {requirement}" for requirement in requirements)
    for section in sections:
        stream = io.StringIO()
        Console(file=stream, width=WIDTH, color_system=None).print(section.report)
        lines = [line.rstrip() for line in stream.getvalue().rstrip().splitlines()]
        yield f"\n## {section.title}\n\n```text"
        yield from lines
        yield "```"
