"""What the bench of the renderer found, as tables, and whether it clears its bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gradsim.bench.render import Bench, Cost, ExactRow, SoftRow, ThreadsRow
from gradsim.bench.result import Bar, footer, new_table, pair

DEODR_MOST = 2.0  # time of Exact in units of DEODR's, with gradients
THREADS_LEAST = 1.7  # speed-up on two threads
SOFTRAS_LEAST = 8.0  # time of the plain kernels in units of SoftRas, alone and with gradients


def bars(bench: Bench) -> list[Bar]:
    """The bars of which anything was measured."""
    result = []
    ratios = [(row.ratio.both, row) for row in bench.exact if row.ratio is not None]
    if ratios:
        worst, row = max(ratios, key=lambda item: item[0])
        what = f"Exact float64 with gradients takes at most {DEODR_MOST:g} times as long as DEODR"
        result.append(Bar(what, f"at most {worst:.2f}{_where(row.faces, row.pixels)}", worst <= DEODR_MOST))
    if bench.exact:
        share, row = max(((_single(row), row) for row in bench.exact), key=lambda item: item[0])
        got = f"at most {share:.2f} of its time{_where(row.faces, row.pixels)}"
        result.append(Bar("Exact float32 is faster than float64 at every size, forward and both", got, share < 1))
    if bench.threads:
        slow = min(bench.threads, key=lambda row: row.speedup)
        what = f"two threads are at least {THREADS_LEAST} times as fast over {bench.lengths.threads} frames"
        got = f"at least {slow.speedup:.2f}{_where(slow.faces, slow.pixels)}"
        result.append(Bar(what, got, slow.speedup >= THREADS_LEAST))
        equal = sum(row.equal for row in bench.threads)
        got = f"{equal} of {len(bench.threads)} sizes are"
        result.append(Bar("images and gradients on two threads are bitwise equal", got, equal == len(bench.threads)))
    if bench.softras:
        low = min(bench.softras, key=_least)
        what = f"SoftRas float32 is at least {SOFTRAS_LEAST:g} times as fast as plain kernels, forward and both"
        got = f"at least {_least(low):.1f}{_where(low.faces, low.pixels)}"
        result.append(Bar(what, got, _least(low) >= SOFTRAS_LEAST))
    return result


def _single(row: ExactRow) -> float:
    """Time of float32 in units of float64's, forward or with gradients, whichever is more."""
    share = row.exact32.per(row.exact64)
    return max(share.forward, share.both)


def _least(row: SoftRow) -> float:
    return min(row.ratio.forward, row.ratio.both)


def _where(faces: int, pixels: int) -> str:
    return f" ({faces:,} faces, {pixels} px)"


def as_dict(bench: Bench) -> dict[str, Any]:
    """Measurements and bars as plain values, for JSON."""
    return {**bench.as_dict(), "bars": [asdict(bar) for bar in bars(bench)]}


def report(bench: Bench) -> Group:
    """The measurements for a terminal."""
    return Group(*_parts(bench))


def _parts(bench: Bench) -> Iterator[Table | Text]:
    yield _exact_table(bench)
    yield _threads_table(bench.threads, bench.lengths.threads)
    yield _softras_table(bench.softras, bench.lengths.softras)
    yield Text(_video_lines(bench))
    yield Text()
    for bar in bars(bench):
        yield Text(str(bar), style="green" if bar.met else "bold red")
    yield Text(footer(bench.machine, bench.note), style="dim")


def _exact_table(bench: Bench) -> Table:
    measured = any(row.deodr is not None for row in bench.exact)
    title = f"Milliseconds a frame, one thread, videos of {bench.lengths.exact} frames: forward / with backward"
    peers = ("DEODR\nfloat64", "float64 per\nDEODR") if measured else ()
    table = new_table(title, ("faces", "px", "Exact\nfloat64", "Exact\nfloat32", *peers))
    for row in bench.exact:
        cells = [f"{row.faces:,}", str(row.pixels), _cost(row.exact64), _cost(row.exact32)]
        if measured:
            cells += [_cost(row.deodr), _cost(row.ratio, ".2f")]
        table.add_row(*cells)
    differences = [row.difference for row in bench.exact if row.difference is not None]
    if differences:
        table.caption = f"the images of Exact and DEODR differ by {max(differences):.3f} at most, mean over pixels"
    return table


def _threads_table(rows: Sequence[ThreadsRow], frames: int) -> Table:
    title = f"Exact float64, milliseconds a frame with backward,\nvideos of {frames} frames, on one thread and on two"
    table = new_table(title, ("faces", "px", "one", "two", "speed-up", "bitwise equal"))
    for row in rows:
        times = (f"{row.one:.3f}", f"{row.two:.3f}", f"{row.speedup:.2f}")
        table.add_row(f"{row.faces:,}", str(row.pixels), *times, "yes" if row.equal else "NO")
    return table


def _softras_table(rows: Sequence[SoftRow], frames: int) -> Table:
    title = f"SoftRas float32, milliseconds a frame, one thread,\nvideos of {frames} frames: forward / with backward"
    table = new_table(title, ("faces", "px", "SoftRas", "plain Warp kernels", "plain per SoftRas"))
    for row in rows:
        table.add_row(f"{row.faces:,}", str(row.pixels), _cost(row.softras), _cost(row.plain), _cost(row.ratio, ".1f"))
    return table


def _video_lines(bench: Bench) -> str:
    video = bench.video
    shown, kept = (count / 2**20 for count in (video.image_bytes, video.kept_bytes))
    frame = video.kept_bytes / (video.frames * video.worlds) / 2**10
    return (
        f"gs.render of a lit cube and a lit sphere, {video.frames} frames, {video.pixels} px, float64, one thread: "
        f"{_cost(video.cost)} ms a frame, forward / with backward\n"
        f"{video.frames} frames of {video.worlds} worlds in one call: {kept:.0f} MiB kept for the backward, "
        f"the video's own {shown:.0f} MiB among it; {frame:.0f} KiB a frame"
    )


def _cost(cost: Cost | None, form: str = ".3f") -> str:
    return "-" if cost is None else pair(cost.forward, cost.both, form)
