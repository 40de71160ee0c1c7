"""Milliseconds a frame of the renderers, beside DEODR and plain kernels on the same machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

import gradsim as gs
from gradsim.bench.deodr_peer import DeodrVideo, import_deodr
from gradsim.bench.pictures import SIZES, Drawing, Pair, turning
from gradsim.bench.plain_softras import PlainSoftRas
from gradsim.bench.result import peer_note
from gradsim.bench.timing import Machine, least_times, this_machine

PIXELS = (64, 128, 256)


@dataclass(frozen=True)
class Lengths:
    """Frames of the videos. A call of few frames lets a processor learn their branches, which no real video does."""

    exact: int = 30  # beside DEODR
    softras: int = 8  # beside the plain kernels, which take their time
    threads: int = 60
    video: int = 60  # of a cube and a sphere
    worlds: int = 8  # whose videos make one call, for its memory


@dataclass(frozen=True)
class Cost:
    """Time of a frame [ms], alone and with gradients."""

    forward: float
    both: float

    def per(self, other: Cost) -> Cost:
        """In units of another's."""
        return Cost(self.forward / other.forward, self.both / other.both)


@dataclass(frozen=True)
class ExactRow:
    """`Exact` in both precisions beside DEODR, on one thread; None where DEODR was not measured."""

    faces: int
    pixels: int
    exact64: Cost
    exact32: Cost
    deodr: Cost | None
    difference: float | None  # mean over the images of |Exact - DEODR|

    @property
    def ratio(self) -> Cost | None:
        """Time of `Exact` in double precision in units of DEODR's."""
        return None if self.deodr is None else self.exact64.per(self.deodr)


@dataclass(frozen=True)
class ThreadsRow:
    """`Exact` with gradients in double precision, on one thread and on two."""

    faces: int
    pixels: int
    one: float  # time of a frame [ms]
    two: float
    equal: bool  # images and gradients, to the last bit

    @property
    def speedup(self) -> float:
        return self.one / self.two


@dataclass(frozen=True)
class SoftRow:
    """`SoftRas` in single precision beside plain Warp kernels, on one thread."""

    faces: int
    pixels: int
    softras: Cost
    plain: Cost

    @property
    def ratio(self) -> Cost:
        """Time of the plain kernels in units of `SoftRas`."""
        return self.plain.per(self.softras)


@dataclass(frozen=True)
class Video:
    """gs.render() of a lit cube and a lit sphere, all of it, on one thread."""

    pixels: int
    frames: int
    cost: Cost
    worlds: int
    image_bytes: int  # of the videos of all worlds
    kept_bytes: int  # what one call for all worlds keeps for its backward, its images among them


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    exact: tuple[ExactRow, ...]
    threads: tuple[ThreadsRow, ...]
    softras: tuple[SoftRow, ...]
    video: Video
    lengths: Lengths
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        exact = [{**asdict(row), "ratio": row.ratio and asdict(row.ratio)} for row in self.exact]
        threads = [{**asdict(row), "speedup": row.speedup} for row in self.threads]
        softras = [{**asdict(row), "ratio": asdict(row.ratio)} for row in self.softras]
        return {**asdict(self), "exact": exact, "threads": threads, "softras": softras}


def bench_render(
    sizes: Sequence[int] = SIZES,
    *,
    pixels: Sequence[int] = PIXELS,
    peer: bool = True,
    seconds: float = 0.5,
    lengths: Lengths = Lengths(),
    progress: Callable[[str], None] | None = None,
) -> Bench:
    """Measure milliseconds a frame.

    Args:
        sizes: Meshes to draw, by their number of faces, of `SIZES`.
        pixels: Heights and widths of the images [px]; all but the comparison with DEODR takes the middle one.
        peer: Whether to time DEODR too.
        seconds: Time spent on each number [s].
        lengths: Frames of the videos.
        progress: Called with a line before each measurement.
    """
    for size in sizes:
        if size not in SIZES:
            raise gs.InvalidInput("sizes", size, f"must be among {', '.join(map(str, SIZES))}")
    if not pixels or min(pixels) < 1:
        raise gs.InvalidInput("pixels", tuple(pixels), "must be one or more whole numbers, each >= 1")
    say = progress or (lambda _: None)
    note = peer_note(import_deodr) if peer else None
    rival = peer and note is None
    exact, threads, softras = [], [], []
    middle = sorted(pixels)[len(pixels) // 2]
    with torch_threads(1):
        for size in sizes:
            for width in pixels:
                say(f"Exact{' and DEODR' if rival else ''}, {size} faces, {width} px")
                exact.append(_exact_row(size, width, lengths.exact, rival, seconds))
            say(f"Exact on two threads, {size} faces, {middle} px")
            threads.append(_threads_row(size, middle, lengths.threads, seconds))
            say(f"SoftRas and plain kernels, {size} faces, {middle} px")
            softras.append(_soft_row(size, middle, lengths.softras, seconds))
        say(f"gs.render of a cube and a sphere, {middle} px")
        video = _video(middle, lengths, seconds)
    machine = this_machine("torch", "warp-lang", "deodr")
    return Bench(tuple(exact), tuple(threads), tuple(softras), video, lengths, machine, note)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """As many threads as that, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _costs(rivals: dict[str, Any], frames: int, seconds: float) -> dict[str, Cost]:
    """Cost of everything that has a forward() and a both(); all take turns."""
    calls = {f"{name} {kind}": getattr(rival, kind) for name, rival in rivals.items() for kind in ("forward", "both")}
    times = {name: 1e3 * time / frames for name, time in least_times(calls, seconds=seconds).items()}
    return {name: Cost(times[f"{name} forward"], times[f"{name} both"]) for name in rivals}


def _exact_row(size: int, pixels: int, frames: int, rival: bool, seconds: float) -> ExactRow:
    seen = turning(size, pixels, frames)
    double, single = (Drawing(gs.Exact(), seen, pixels, dtype) for dtype in (torch.float64, torch.float32))
    rivals: dict[str, Any] = {"exact64": double, "exact32": single}
    difference = None
    if rival:
        deodr = rivals["deodr"] = DeodrVideo(seen, (pixels, pixels), double.weights.numpy())
        difference = deodr_difference(double, deodr)
    costs = _costs(rivals, frames, seconds)
    faces = len(seen.connectivity.faces)
    return ExactRow(faces, pixels, costs["exact64"], costs["exact32"], costs.get("deodr"), difference)


def deodr_difference(drawing: Drawing, deodr: DeodrVideo) -> float:
    """Mean difference of the images: DEODR blurs outlines by a pixel and interpolates colours without perspective."""
    deodr.forward()
    return _alike("DEODR", drawing.forward().numpy(), deodr.images, 0.01 + 1.0 / drawing.pixels)


def _alike(name: str, own: np.ndarray, other: np.ndarray, limit: float) -> float:
    """Mean difference of images, which must be small or a ratio of times says nothing."""
    difference = float(np.abs(own - other).mean())
    if not difference <= limit:
        raise RuntimeError(f"{name} draws something else: its images differ by {difference:.2g}, more than {limit:.2g}")
    return difference


def _threads_row(size: int, pixels: int, frames: int, seconds: float) -> ThreadsRow:
    drawing = Drawing(gs.Exact(), turning(size, pixels, frames), pixels)

    def both(threads: int) -> tuple[torch.Tensor, ...]:
        with torch_threads(threads):
            return drawing.both()

    equal = all(torch.equal(a, b) for a, b in zip(both(1), both(2), strict=True))
    times = least_times({"one": lambda: both(1), "two": lambda: both(2)}, seconds=seconds)
    one, two = (1e3 * times[name] / frames for name in ("one", "two"))
    return ThreadsRow(len(drawing.seen.connectivity.faces), pixels, one, two, equal)


class Plain:
    """The plain kernels on a drawing's triangles."""

    def __init__(self, drawing: Drawing, softras: gs.SoftRas):
        seen, faces = drawing.seen, drawing.seen.connectivity.faces
        vertices, colors = seen.vertices.detach().numpy(), seen.attributes.detach().numpy()
        size = (drawing.pixels, drawing.pixels)
        self._plain = PlainSoftRas(vertices, faces.numpy(), colors, size, softras=softras, near=seen.near)
        self._weights = drawing.weights.numpy()

    def forward(self) -> np.ndarray:
        return self._plain.forward()

    def both(self) -> None:
        self._plain.forward()
        self._plain.backward(self._weights)


def _soft_row(size: int, pixels: int, frames: int, seconds: float) -> SoftRow:
    softras = gs.SoftRas()
    drawing = Drawing(softras, turning(size, pixels, frames), pixels, torch.float32, alpha=True)
    plain = Plain(drawing, softras)
    _alike("the plain SoftRas", drawing.forward().numpy(), plain.forward(), 1e-3)
    costs = _costs({"softras": drawing, "plain": plain}, frames, seconds)
    return SoftRow(len(drawing.seen.connectivity.faces), pixels, costs["softras"], costs["plain"])


def _video(pixels: int, lengths: Lengths, seconds: float) -> Video:
    costs = _costs({"video": Pair(lengths.video, pixels)}, lengths.video, seconds)
    image_bytes, kept_bytes = kept_memory(Pair(lengths.video, pixels, lengths.worlds).render)
    return Video(pixels, lengths.video, costs["video"], lengths.worlds, image_bytes, kept_bytes)


def kept_memory(render: Callable[[], torch.Tensor]) -> tuple[int, int]:
    """Bytes of a video, and of all that its backward needs, the video among it: tensors and the rasterizer's lists."""
    storages: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        video = render()
    keep(video)
    return video.nbytes, sum(storages.values()) + sum(lists.nbytes for lists in _lists(video.grad_fn))


def _lists(node: Any) -> list[Any]:
    """What rasterizers left for their backward, anywhere in a graph."""
    seen: set[Any] = set()
    waiting, found = [node], list[Any]()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if hasattr(node, "lists"):
                found.append(node.lists)
            waiting += [before for before, _ in node.next_functions]
    return found
