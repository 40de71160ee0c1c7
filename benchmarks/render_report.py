"""The report of the render benchmark: tables and requirements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from benchmarks.render import ExactRow, FrameTime, RenderResults, SoftRasRow, ThreadsRow
from benchmarks.report import Requirement, Section, footer, format_pair, new_table

DEODR_RATIO = 2.0  # required: most time of Exact with gradients, in units of DEODR's
THREADS_SPEEDUP = 1.7  # required on two threads
PLAIN_RATIO = 8.0  # required: least time of the plain kernels in units of SoftRas, forward and forward + backward


def section(results: RenderResults) -> Section:
    """Returns the section of the report."""
    return Section("Rendering", Group(*_parts(results)), results.as_dict(), tuple(requirements(results)))


def requirements(results: RenderResults) -> list[Requirement]:
    """Returns the requirements for which there are measurements."""
    return [
        *_deodr_requirement(results.exact),
        *_precision_requirement(results.exact),
        *_threads_requirements(results.threads, results.frame_counts.threads),
        *_softras_requirement(results.softras),
    ]


def _deodr_requirement(rows: Sequence[ExactRow]) -> Iterator[Requirement]:
    ratios = [(row.ratio.forward_backward, row) for row in rows if row.ratio is not None]
    if ratios:
        worst, row = max(ratios, key=lambda item: item[0])
        text = f"Exact float64 with gradients takes at most {DEODR_RATIO:g} times as long as DEODR"
        yield Requirement(text, f"at most {worst:.2f}{_size(row.faces, row.pixels)}", worst <= DEODR_RATIO)


def _precision_requirement(rows: Sequence[ExactRow]) -> Iterator[Requirement]:
    if rows:
        share, row = max(((_single_share(row), row) for row in rows), key=lambda item: item[0])
        text = "Exact float32 is faster than float64 at every size, forward and with gradients"
        measured = f"at most {share:.2f} of its time{_size(row.faces, row.pixels)}"
        yield Requirement(text, measured, share < 1)


def _threads_requirements(rows: Sequence[ThreadsRow], frames: int) -> Iterator[Requirement]:
    if rows:
        slowest = min(rows, key=lambda row: row.speedup)
        text = f"Exact on two threads is at least {THREADS_SPEEDUP} times as fast, videos of {frames} frames"
        measured = f"at least {slowest.speedup:.2f}{_size(slowest.faces, slowest.pixels)}"
        yield Requirement(text, measured, slowest.speedup >= THREADS_SPEEDUP)
        equal = sum(row.equal for row in rows)
        text = "images and gradients on two threads are bitwise equal"
        yield Requirement(text, f"{equal} of {len(rows)} sizes", equal == len(rows))


def _softras_requirement(rows: Sequence[SoftRasRow]) -> Iterator[Requirement]:
    if rows:
        slowest = min(rows, key=_plain_ratio)
        ratio = _plain_ratio(slowest)
        text = f"SoftRas float32 is at least {PLAIN_RATIO:g} times as fast as plain kernels, forward and with gradients"
        yield Requirement(text, f"at least {ratio:.1f}{_size(slowest.faces, slowest.pixels)}", ratio >= PLAIN_RATIO)


def _single_share(row: ExactRow) -> float:
    """Returns the time of float32 in units of float64's, the larger of forward and forward + backward."""
    share = row.exact32.relative_to(row.exact64)
    return max(share.forward, share.forward_backward)


def _plain_ratio(row: SoftRasRow) -> float:
    return min(row.ratio.forward, row.ratio.forward_backward)


def _size(faces: int, pixels: int) -> str:
    return f" ({faces:,} faces, {pixels} px)"


def _parts(results: RenderResults) -> Iterator[Table | Text]:
    yield _exact_table(results)
    yield _threads_table(results.threads, results.frame_counts.threads)
    yield _softras_table(results.softras, results.frame_counts.softras)
    yield Text(_video_text(results))
    yield Text(footer(results.machine, results.note), style="dim")


def _exact_table(results: RenderResults) -> Table:
    with_deodr = any(row.deodr is not None for row in results.exact)
    frames = results.frame_counts.exact
    title = f"Milliseconds a frame, one thread, videos of {frames} frames: forward / with backward"
    headings = ("DEODR\nfloat64", "float64 /\nDEODR") if with_deodr else ()
    table = new_table(title, ("faces", "px", "Exact\nfloat64", "Exact\nfloat32", *headings))
    for row in results.exact:
        cells = [f"{row.faces:,}", str(row.pixels), _format_time(row.exact64), _format_time(row.exact32)]
        if with_deodr:
            cells += [_format_time(row.deodr), _format_time(row.ratio, ".2f")]
        table.add_row(*cells)
    differences = [row.difference for row in results.exact if row.difference is not None]
    if differences:
        table.caption = f"mean difference of the images of Exact and DEODR: at most {max(differences):.3f}"
    return table


def _threads_table(rows: Sequence[ThreadsRow], frames: int) -> Table:
    title = f"Exact float64, milliseconds a frame with backward,\nvideos of {frames} frames, on one thread and on two"
    table = new_table(title, ("faces", "px", "one", "two", "speed-up", "bitwise equal"))
    for row in rows:
        times = (f"{row.one:.3f}", f"{row.two:.3f}", f"{row.speedup:.2f}")
        table.add_row(f"{row.faces:,}", str(row.pixels), *times, "yes" if row.equal else "NO")
    return table


def _softras_table(rows: Sequence[SoftRasRow], frames: int) -> Table:
    title = f"SoftRas float32, milliseconds a frame, one thread,\nvideos of {frames} frames: forward / with backward"
    table = new_table(title, ("faces", "px", "SoftRas", "plain Warp kernels", "plain / SoftRas"))
    for row in rows:
        times = (_format_time(row.softras), _format_time(row.plain), _format_time(row.ratio, ".1f"))
        table.add_row(f"{row.faces:,}", str(row.pixels), *times)
    return table


def _video_text(results: RenderResults) -> str:
    video = results.video
    images, saved = (count / 2**20 for count in (video.image_bytes, video.saved_bytes))
    frame = video.saved_bytes / (video.frames * video.worlds) / 2**10
    return (
        f"gs.render of a lit cube and a lit sphere, {video.frames} frames, {video.pixels} px, float64, one thread: "
        f"{_format_time(video.time)} ms a frame, forward / with backward\n"
        f"{video.frames} frames of {video.worlds} worlds in one call: {saved:.0f} MiB stored for the backward pass, "
        f"{images:.0f} MiB of it the video; {frame:.0f} KiB a frame\n"
    )


def _format_time(time: FrameTime | None, form: str = ".3f") -> str:
    return "-" if time is None else format_pair(time.forward, time.forward_backward, form)
