"""Seconds and memory that `gradsim prepare` takes for a long 4K video, as a phone records it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Progress, Requirement, Section, new_table, no_progress
from benchmarks.timing import Machine, this_machine
from gradsim.scene.errors import InvalidInput

SIZE = (2160, 3840)  # height and width [px]
FPS, FRAMES = 60, 1800
RADIUS = 90.0  # of the ball [px]
COLOR = (150, 90, 190)  # of the ball: luma and chroma, 8 bits
NOISE = 2.0  # standard deviation of luma, 8-bit values
NOISES = 6  # different pictures of noise
BIT_RATE = 50_000_000  # [bit/s], of phones at 4K and 60 fps
MAX_SECONDS, MAX_BYTES = 90.0, 2e9


@dataclass(frozen=True)
class PrepareCost:
    """What one run of `gradsim prepare` took.

    Args:
        video: The file.
        frames: Its frames.
        megabits: Its bit rate [Mbit/s].
        seconds: Wall time [s].
        cpu_seconds: Time of all threads [s].
        peak_bytes: Largest resident memory.
    """

    video: str
    frames: int
    megabits: float
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def measure_prepare(
    video: Path | None = None, *, frames: int = FRAMES, progress: Progress = no_progress
) -> tuple[PrepareCost, Machine]:
    """Prepares a 4K video in a new process and measures it.

    Args:
        video: A video of a pendulum, written if it does not exist; a temporary one if None.
        frames: Frames of a new video.
        progress: Called with one line before each part.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = video or Path(folder) / "pendulum.mp4"
        if not file.exists():
            progress(f"writing {frames} frames of 4K to {file.name}")
            write_pendulum(file, frames)
        progress(f"preparing {file.name}")
        return _measured(file, Path(folder) / "prepared"), this_machine()


def _measured(file: Path, out: Path) -> PrepareCost:
    command = [sys.executable, "-m", "gradsim", "prepare", str(file), "--diameter", "0.06", "-o", str(out)]
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begin
        output.seek(0)
        text = output.read().decode()
    if child.returncode:
        raise InvalidInput("video", str(file), f"could not be prepared: {text.strip().splitlines()[-1]}")
    with av.open(str(file)) as container:
        stream = container.streams.video[0]
        length = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else 1.0
        count = stream.frames
    megabits = 8e-6 * file.stat().st_size / length
    return PrepareCost(str(file), count, megabits, seconds, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)


def write_pendulum(file: Path, frames: int = FRAMES, size: tuple[int, int] = SIZE) -> None:
    """Writes a video of a ball that swings in front of a textured wall, with noise, in H.264 at a phone's bit rate."""
    random = np.random.default_rng(0)
    wall = _wall(size, random)
    noises = [np.round(NOISE * random.standard_normal(size, np.float32)).astype(np.int8) for _ in range(NOISES)]
    scale = size[0] / SIZE[0]
    options = {"preset": "veryfast", "x264-params": "bframes=0:keyint=60:asm=AVX2"}
    with av.open(str(file), "w") as output:
        stream = output.add_stream("libx264", rate=FPS, options=options)
        stream.height, stream.width, stream.pix_fmt = *size, "yuv420p"
        stream.bit_rate = round(BIT_RATE * scale**2)
        for k in range(frames):
            image = wall.copy()
            angle = 0.35 * np.exp(-0.02 * k / FPS) * np.cos(2 * np.pi * 0.55 * k / FPS)
            place = np.array([0.5 * size[1], 0]) + 0.75 * size[0] * np.array([np.sin(angle), np.cos(angle)])
            _draw_ball(image, size, place, RADIUS * scale)
            luma = image[: size[0]]
            noise = np.roll(noises[k % NOISES], tuple(random.integers(0, size)), (0, 1))
            luma[:] = cv2.add(luma, noise, dtype=cv2.CV_8U)
            output.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="yuv420p")))
        output.mux(stream.encode())


def _wall(size: tuple[int, int], random: np.random.Generator) -> NDArray[np.uint8]:
    """Returns the planes of a wall with texture, shelves and pictures, one below the other [3 H / 2, W]."""
    height, width = size
    coarse = cv2.resize(
        random.uniform(-1, 1, (12, 20)).astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC
    )
    fine = cv2.resize(random.uniform(-1, 1, (height // 8, width // 8)).astype(np.float32), (width, height))
    luma = 120 + 15 * coarse + 5 * fine
    chroma = [np.full((height // 2, width // 2), 128, np.float32) for _ in range(2)]
    for _ in range(30):
        top, left = int(random.integers(0, height)), int(random.integers(0, width))
        bottom, right = top + int(random.integers(60, height // 4)), left + int(random.integers(60, width // 5))
        luma[top:bottom, left:right] += random.uniform(-50, 50)
        for plane in chroma:
            plane[top // 2 : bottom // 2, left // 2 : right // 2] = random.uniform(110, 146)
    planes = [luma, *chroma]
    return np.concatenate([np.clip(own, 16, 235).astype(np.uint8).reshape(-1, width) for own in planes])


def _draw_ball(image: NDArray[np.uint8], size: tuple[int, int], place: NDArray[np.float64], radius: float) -> None:
    """Draws a disc with a soft edge into the planes of an image."""
    height, width = size
    luma = image[:height]
    chroma = image[height:].reshape(2, height // 2, width // 2)
    for plane, value, step in ((luma, COLOR[0], 1), (chroma[0], COLOR[1], 2), (chroma[1], COLOR[2], 2)):
        x, y, reach = *(place / step), radius / step
        left, top = int(x - reach) - 2, int(y - reach) - 2
        rows, columns = np.mgrid[top : top + 2 * int(reach) + 5, left : left + 2 * int(reach) + 5]
        part = plane[rows[0, 0] : rows[-1, 0] + 1, columns[0, 0] : columns[0, -1] + 1]
        alpha = np.clip(reach + 0.5 - np.hypot(columns + 0.5 - x, rows + 0.5 - y), 0, 1)
        part[:] = np.round(alpha * value + (1 - alpha) * part).astype(np.uint8)


def section(results: tuple[PrepareCost, Machine]) -> Section:
    """Returns the table, and the required values."""
    cost, machine = results
    table = new_table("Preparing a 4K video", ("frames", "Mbit/s", "seconds", "CPU seconds", "peak memory"))
    table.add_row(
        str(cost.frames),
        f"{cost.megabits:.0f}",
        f"{cost.seconds:.0f}",
        f"{cost.cpu_seconds:.0f}",
        f"{cost.peak_bytes / 1e9:.2f} GB",
    )
    requirements = (
        Requirement(
            f"30 s of 4K at 60 fps prepared within {MAX_SECONDS:.0f} s on two cores",
            f"{cost.seconds:.0f} s",
            cost.seconds <= MAX_SECONDS,
        ),
        Requirement("in 2 GB of memory", f"{cost.peak_bytes / 1e9:.2f} GB", cost.peak_bytes <= MAX_BYTES),
    )
    return Section("Preparing a 4K video", table, {"prepare": asdict(cost), "machine": asdict(machine)}, requirements)
