"""Rendering: milliseconds a frame of Exact and SoftRas, compared with DEODR and with plain Warp kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch

import gradsim as gs
from benchmarks.deodr_video import DeodrVideo, import_deodr
from benchmarks.plain_softras import PlainSoftRas
from benchmarks.render_internals import saved_bytes
from benchmarks.render_scenes import SIZES, CubeAndSphere, RasterizerRun, rotating_mesh
from benchmarks.report import Progress, missing_peer_note, no_progress
from benchmarks.timing import Machine, minimum_times, this_machine, torch_threads

PIXELS = (64, 128, 256)


@dataclass(frozen=True)
class FrameCounts:
    """Frames of the videos; with few frames a call, branch prediction would learn them and the times be too short."""

    exact: int = 30  # compared with DEODR
    softras: int = 8  # compared with the plain kernels, which are slow
    threads: int = 60
    video: int = 60  # of a cube and a sphere
    worlds: int = 8  # worlds of the call whose memory is measured


@dataclass(frozen=True)
class FrameTime:
    """Time of a frame [ms], or a ratio of such times."""

    forward: float
    forward_backward: float

    def relative_to(self, other: FrameTime) -> FrameTime:
        return FrameTime(self.forward / other.forward, self.forward_backward / other.forward_backward)


@dataclass(frozen=True)
class ExactRow:
    """`Exact` in both precisions and DEODR, on one thread; None where DEODR was not measured."""

    faces: int
    pixels: int
    exact64: FrameTime
    exact32: FrameTime
    deodr: FrameTime | None
    difference: float | None  # mean over the images of |Exact - DEODR|

    @property
    def ratio(self) -> FrameTime | None:
        """Time of `Exact` in double precision, in units of DEODR's."""
        return None if self.deodr is None else self.exact64.relative_to(self.deodr)


@dataclass(frozen=True)
class ThreadsRow:
    """`Exact` with gradients in double precision, on one thread and on two."""

    faces: int
    pixels: int
    one: float  # time of a frame [ms]
    two: float
    equal: bool  # whether images and gradients are bitwise equal

    @property
    def speedup(self) -> float:
        return self.one / self.two


@dataclass(frozen=True)
class SoftRasRow:
    """`SoftRas` in single precision and plain Warp kernels, on one thread."""

    faces: int
    pixels: int
    softras: FrameTime
    plain: FrameTime

    @property
    def ratio(self) -> FrameTime:
        """Time of the plain kernels, in units of `SoftRas`."""
        return self.plain.relative_to(self.softras)


@dataclass(frozen=True)
class VideoResult:
    """gs.render() of a lit cube and a lit sphere, on one thread."""

    pixels: int
    frames: int
    time: FrameTime
    worlds: int
    image_bytes: int  # of the videos of all worlds
    saved_bytes: int  # stored by one call for all worlds for its backward pass, the images included


@dataclass(frozen=True)
class RenderResults:
    """The measurements, and the machine they were made on."""

    exact: tuple[ExactRow, ...]
    threads: tuple[ThreadsRow, ...]
    softras: tuple[SoftRasRow, ...]
    video: VideoResult
    frame_counts: FrameCounts
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        exact = [{**asdict(row), "ratio": row.ratio and asdict(row.ratio)} for row in self.exact]
        threads = [{**asdict(row), "speedup": row.speedup} for row in self.threads]
        softras = [{**asdict(row), "ratio": asdict(row.ratio)} for row in self.softras]
        return {**asdict(self), "exact": exact, "threads": threads, "softras": softras}


def measure_render(
    sizes: Sequence[int] = SIZES,
    *,
    pixels: Sequence[int] = PIXELS,
    peer: bool = True,
    seconds: float = 0.5,
    frame_counts: FrameCounts = FrameCounts(),
    progress: Progress = no_progress,
) -> RenderResults:
    """Measures milliseconds a frame.

    Args:
        sizes: Numbers of faces, from `SIZES`.
        pixels: Heights and widths of the images [px]; only the comparison with DEODR uses all of them, the others use
            the middle one.
        peer: Whether to time DEODR too.
        seconds: Time spent on each number [s].
        frame_counts: Frames of the videos.
        progress: Called with one line before each measurement.
    """
    for size in sizes:
        if size not in SIZES:
            raise gs.InvalidInput("sizes", size, f"must be among {', '.join(map(str, SIZES))}")
    if not pixels or min(pixels) < 1:
        raise gs.InvalidInput("pixels", tuple(pixels), "must be one or more whole numbers, each >= 1")
    note = missing_peer_note(import_deodr) if peer else None
    with_deodr = peer and note is None
    exact, threads, softras = [], [], []
    middle = sorted(pixels)[len(pixels) // 2]
    with torch_threads(1):
        for size in sizes:
            for width in pixels:
                progress(f"Exact{' and DEODR' if with_deodr else ''}, {size} faces, {width} px")
                exact.append(_measure_exact(size, width, frame_counts.exact, with_deodr, seconds))
            progress(f"Exact on two threads, {size} faces, {middle} px")
            threads.append(_measure_threads(size, middle, frame_counts.threads, seconds))
            progress(f"SoftRas and plain kernels, {size} faces, {middle} px")
            softras.append(_measure_softras(size, middle, frame_counts.softras, seconds))
        progress(f"gs.render of a cube and a sphere, {middle} px")
        video = _measure_video(middle, frame_counts, seconds)
    machine = this_machine("torch", "warp-lang", "deodr")
    return RenderResults(tuple(exact), tuple(threads), tuple(softras), video, frame_counts, machine, note)


class _Timed(Protocol):
    def forward(self) -> object: ...

    def forward_backward(self) -> object: ...


def _frame_times(runs: Mapping[str, _Timed], frames: int, seconds: float) -> dict[str, FrameTime]:
    """Returns the time of a frame of each run; all calls are interleaved."""
    ways = ("forward", "forward_backward")
    calls = {f"{name} {way}": getattr(run, way) for name, run in runs.items() for way in ways}
    times = {name: 1e3 * time / frames for name, time in minimum_times(calls, seconds=seconds).items()}
    return {name: FrameTime(times[f"{name} forward"], times[f"{name} forward_backward"]) for name in runs}


def _measure_exact(size: int, pixels: int, frames: int, with_deodr: bool, seconds: float) -> ExactRow:
    triangles = rotating_mesh(size, pixels, frames)
    double, single = (RasterizerRun(gs.Exact(), triangles, pixels, dtype) for dtype in (torch.float64, torch.float32))
    runs: dict[str, _Timed] = {"exact64": double, "exact32": single}
    difference = None
    if with_deodr:
        deodr = runs["deodr"] = DeodrVideo(triangles, (pixels, pixels), double.weights.numpy())
        difference = deodr_difference(double, deodr)
    times = _frame_times(runs, frames, seconds)
    return ExactRow(double.face_count, pixels, times["exact64"], times["exact32"], times.get("deodr"), difference)


def deodr_difference(run: RasterizerRun, deodr: DeodrVideo) -> float:
    """Returns the mean difference of the images.

    DEODR blurs silhouettes by a pixel and interpolates colours without perspective correction.
    """
    deodr.forward()
    return _image_difference("DEODR", run.forward().numpy(), deodr.images, 0.01 + 1.0 / run.pixels)


def _image_difference(name: str, images: np.ndarray, others: np.ndarray, limit: float) -> float:
    """Returns the mean difference of two sets of images.

    Raises:
        RuntimeError: The difference is above `limit`, so that a comparison of times would be meaningless.
    """
    difference = float(np.abs(images - others).mean())
    if not difference <= limit:
        raise RuntimeError(f"the images of {name} differ by {difference:.2g} in the mean, more than {limit:.2g}")
    return difference


def _measure_threads(size: int, pixels: int, frames: int, seconds: float) -> ThreadsRow:
    run = RasterizerRun(gs.Exact(), rotating_mesh(size, pixels, frames), pixels)

    def forward_backward(threads: int) -> tuple[torch.Tensor, ...]:
        with torch_threads(threads):
            return run.forward_backward()

    equal = all(torch.equal(a, b) for a, b in zip(forward_backward(1), forward_backward(2), strict=True))
    calls = {"one": lambda: forward_backward(1), "two": lambda: forward_backward(2)}
    times = minimum_times(calls, seconds=seconds)
    one, two = (1e3 * times[name] / frames for name in ("one", "two"))
    return ThreadsRow(run.face_count, pixels, one, two, equal)


class PlainRun:
    """The plain SoftRas kernels on the triangles of a run."""

    def __init__(self, run: RasterizerRun, softras: gs.SoftRas):
        triangles = run.triangles
        vertices, colors = triangles.vertices.detach().numpy(), triangles.attributes.detach().numpy()
        faces, size = triangles.connectivity.faces.numpy(), (run.pixels, run.pixels)
        self._plain = PlainSoftRas(vertices, faces, colors, size, softras=softras, near=triangles.near)
        self._weights = run.weights.numpy()

    def forward(self) -> np.ndarray:
        return self._plain.forward()

    def forward_backward(self) -> None:
        self._plain.forward()
        self._plain.backward(self._weights)


def _measure_softras(size: int, pixels: int, frames: int, seconds: float) -> SoftRasRow:
    softras = gs.SoftRas()
    run = RasterizerRun(softras, rotating_mesh(size, pixels, frames), pixels, torch.float32, alpha=True)
    plain = PlainRun(run, softras)
    _image_difference("the plain SoftRas kernels", run.forward().numpy(), plain.forward(), 1e-3)
    times = _frame_times({"softras": run, "plain": plain}, frames, seconds)
    return SoftRasRow(run.face_count, pixels, times["softras"], times["plain"])


def _measure_video(pixels: int, frame_counts: FrameCounts, seconds: float) -> VideoResult:
    frames, worlds = frame_counts.video, frame_counts.worlds
    times = _frame_times({"video": CubeAndSphere(frames, pixels)}, frames, seconds)
    image_bytes, total_bytes = saved_bytes(CubeAndSphere(frames, pixels, worlds).render)
    return VideoResult(pixels, frames, times["video"], worlds, image_bytes, total_bytes)
