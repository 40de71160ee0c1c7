"""Every bench in one run: physics beside Newton, pictures beside DEODR, calls, time to answer, memory and growth."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from gradsim.bench import calls, chain, cloth, growth, memory, physics, render, render_report, rigid, worlds
from gradsim.bench.result import Bar, Speeds
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput

WIDTH = 120  # of the tables, in characters
BOTH, FORWARD = 5.0, 3.0  # least speed in units of Newton's graph, with gradients and without
SMALL = {100: 4.0}  # least speed with gradients at small sizes
HELD = (100, 1000, 5000, 10000)  # sizes of beams that are held to the bars; the others are shown
DOUBLE = 2.2  # most time of float64 in units of float32's
CALL = 0.3  # [ms], most that a call may cost beyond its kernels
Told = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """One bench, done."""

    title: str
    shown: RenderableType
    found: dict[str, Any]
    bars: tuple[Bar, ...]


def bench_everything(folder: Path, told: Told = lambda text: None, *, peer: bool = True) -> Iterator[Part]:
    """Run all, one after another; results.md and results.json grow in the folder as they come."""
    parts: list[Part] = []
    for run in (_tets, _cloth, _rigid, _worlds, _calls, _render, _chain, _memory, _growth):
        parts.append(run(told, peer))
        _write(folder, parts)
        yield parts[-1]


def _tets(told: Told, peer: bool) -> Part:
    found = physics.bench_physics(tuple(physics.SIZES), peer=peer, progress=told)
    single = [(f"{row.tets:,} tets", row.tets, row) for row in found.rows if row.dtype == "float32"]
    held = [row for row in single if row[1] in HELD]
    bars = [*_against_newton("tets", held), *_precision("tets", [(r.tets, r.dtype, r) for r in found.rows])]
    ahead = [_ahead(row) for _, _, row in single if row.paper_forward is not None]
    if ahead:
        least = min(ahead)
        bars.append(Bar("tets: above the paper's GPU at every size", f"at least {least:.1f} times", least > 1))
    return Part("Elastic beams", physics.table(found), found.as_dict(), tuple(bars))


def _ahead(row: physics.Row) -> float:
    """Speed in units of the paper's GPU: the smaller of forward, and of forward and backward together."""
    forward, backward = row.paper_forward, row.paper_backward
    assert forward is not None
    assert backward is not None
    return min(row.forward / forward, row.both * (1.0 / forward + 1.0 / backward))


def _cloth(told: Told, peer: bool) -> Part:
    found = cloth.bench_cloth(tuple(cloth.SIZES), peer=peer, progress=told)
    single = [(f"{row.triangles:,} triangles", row.triangles, row) for row in found.rows if row.dtype == "float32"]
    return Part("Cloth", cloth.table(found), found.as_dict(), tuple(_against_newton("cloth", single, forward=False)))


def _rigid(told: Told, peer: bool) -> Part:
    found = rigid.bench_rigid(tuple(rigid.BATCHES), dtypes=("float32", "float64"), peer=peer, progress=told)
    rows = [
        (f"{r.worlds} cubes, {r.threads} thread(s)", r.worlds, r)
        for r in found.rows
        if r.dtype == "float32" and r.worlds == 64
    ]
    return Part(
        "Rigid cubes", rigid.table(found), found.as_dict(), tuple(_against_newton("rigid", rows, forward=False))
    )


def _worlds(told: Told, peer: bool) -> Part:
    found = worlds.bench_worlds(progress=told)
    return Part("Worlds on two threads", worlds.table(found), found.as_dict(), tuple(worlds.bars(found)))


def _against_newton(what: str, rows: list[tuple[str, int, Any]], *, forward: bool = True) -> list[Bar]:
    """Bars on speeds in units of Newton's recorded graph."""
    found = []
    for name, size, row in rows:
        assert isinstance(row, Speeds)
        if row.ratio_both is not None:
            least = SMALL.get(size, BOTH)
            text = f"{what}: {name} with gradients at least {least:g} times Newton's graph"
            found.append(Bar(text, f"{row.ratio_both:.2f}", row.ratio_both >= least))
        if forward and row.ratio_forward is not None:
            text = f"{what}: {name} forward at least {FORWARD:g} times Newton's graph"
            found.append(Bar(text, f"{row.ratio_forward:.2f}", row.ratio_forward >= FORWARD))
    return found


def _precision(what: str, rows: list[tuple[int, str, Any]]) -> list[Bar]:
    by = {(size, dtype): row for size, dtype, row in rows}
    ratios = [row.both / by[size, "float64"].both for (size, dtype), row in by.items() if dtype == "float32"]
    if not ratios:
        return []
    worst = max(ratios)
    return [Bar(f"{what}: float64 takes at most {DOUBLE} times as long", f"at most {worst:.2f}", worst <= DOUBLE)]


def _calls(told: Told, peer: bool) -> Part:
    found = calls.bench_calls(progress=told)
    worst = max(found.rows, key=lambda row: row.forward.median)
    cost = 1e3 * worst.forward.median
    bar = Bar(
        f"a call costs at most {CALL} ms beyond its kernels", f"at most {cost:.2f} ms ({worst.scene})", cost <= CALL
    )
    return Part("Calls", calls.table(found), found.as_dict(), (bar,))


def _render(told: Told, peer: bool) -> Part:
    found = render.bench_render(peer=peer, progress=told)
    return Part("Pictures", render_report.report(found), render_report.as_dict(found), tuple(render_report.bars(found)))


def _chain(told: Told, peer: bool) -> Part:
    found = chain.bench_chain(told)
    bars = [Bar(f"{a.question}: at most {a.most:g} s", f"{a.seconds:.1f} s", a.met) for a in found.answers]
    return Part("Time to answer", chain.table(found), found.as_dict(), tuple(bars))


def _memory(told: Told, peer: bool) -> Part:
    found = memory.bench_memory(progress=told)
    return Part("Memory", memory.report(found), found.as_dict(), ())


def _growth(told: Told, peer: bool) -> Part:
    found = growth.bench_growth(progress=told)
    return Part("Growth", growth.table(found), found.as_dict(), ())


def _write(folder: Path, parts: list[Part]) -> None:
    content = {part.title: {**part.found, "bars": [asdict(bar) for bar in part.bars]} for part in parts}
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(folder / "results.json", lambda target: target.write_text(text), InvalidInput)
    page = "\n".join(_page(parts)) + "\n"
    write_atomically(folder / "results.md", lambda target: target.write_text(page), InvalidInput)


def _page(parts: list[Part]) -> Iterator[str]:
    yield "# Benchmarks\n"
    yield "Written by `make bench` in one run; ratios are to peers that were timed in turn with gradsim.\n"
    bars = [bar for part in parts for bar in part.bars]
    if bars:
        yield f"{sum(bar.met for bar in bars)} of {len(bars)} bars are met.\n"
        yield from (f"- {bar}" for bar in bars)
    for part in parts:
        stream = io.StringIO()
        Console(file=stream, width=WIDTH, color_system=None).print(part.shown)
        lines = [line.rstrip() for line in stream.getvalue().splitlines()]
        yield f"\n## {part.title}\n\n```text"
        yield from lines
        yield "```"
