"""The folder that `gradsim prepare` writes: scene, tracks, background, masks and a preview."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.footage_view import FootageView, footage_view, mask_image, plate_image, shown_masks
from gradsim.footage.lens_files import load_lens, save_lens
from gradsim.footage.prepare import Prepared
from gradsim.footage.threads import map_in_threads
from gradsim.footage.track import ObjectTrack
from gradsim.footage.window import Window
from gradsim.scene.array_files import read_arrays
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.scene.files.document import dump_yaml
from gradsim.scene.files.save import save_scene
from gradsim.scene.time import Time
from gradsim.video.decode import decode_timed_frames
from gradsim.video.encoders import ENCODERS, png_bytes, write_video

MANIFEST, SCENE, TRACKS, SUMMARY = "trials.yaml", "scene.yaml", "tracks.csv", "prepared.json"
PLATE, MASKS, PREVIEW, PATHS = "plate.png", "masks.npz", "preview.mp4", "paths.png"
FRAMES, LENS = "frames.mp4", "lens.yaml"
PREVIEW_MARGIN = 15  # frames before and after those with the object
PREVIEW_SIDE = 540  # shorter side of the preview [px]
PREVIEW_PICTURES = 400  # at most: every n-th frame of a longer recording
OBSERVED, PREDICTED = (255, 220, 0), (0, 200, 255)  # colours of outlines and of the fitted motion


def is_prepared(folder: Path) -> bool:
    """Whether a folder was written by `write_prepared`."""
    return (folder / SUMMARY).is_file() and (folder / MANIFEST).is_file()


def check_replaceable(folder: Path) -> None:
    """Raises unless a folder can be written: it does not exist, is empty, or was written by `write_prepared`."""
    if folder.exists() and not is_prepared(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput("--out", str(folder), "exists and is not a prepared recording: choose another folder")


def write_prepared(prepared: Prepared, folder: Path) -> None:
    """Writes a prepared recording to a folder, atomically; an existing prepared folder is replaced."""
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(folder, lambda target: _write_files(prepared, target), InvalidInput)


def _write_files(prepared: Prepared, folder: Path) -> None:
    folder.mkdir()
    recording = prepared.recording
    rate = 1.0 / float(np.median(np.diff(prepared.times)))
    save_scene(prepared.draft.scene, folder / SCENE, time=Time(len(prepared.times), rate, prepared.substeps))
    _write_tracks(prepared, folder / TRACKS)
    height, width = recording.size
    trial: dict[str, Any] = {"tracks": TRACKS, "size": f"{height}x{width}", "name": recording.path.stem}
    trial["drift"] = round(prepared.drift, 3)
    (folder / MANIFEST).write_text(dump_yaml({"scene": SCENE, "trials": [trial]}), encoding="utf-8")
    save_lens(prepared.lens, folder / LENS)
    (folder / PLATE).write_bytes(png_bytes(plate_image(prepared)))
    map_in_threads(lambda write: write(prepared, folder), (_write_preview, _write_view, _write_masks))
    prepared.detection.save_overlay(folder / PATHS)


def _write_preview(prepared: Prepared, folder: Path) -> None:
    preview = Preview(prepared)
    fps = 1.0 / float(np.median(np.diff(prepared.recording.times))) / preview.step
    write_video(folder / PREVIEW, preview, fps, ENCODERS["h264"], 23)


def _write_view(prepared: Prepared, folder: Path) -> None:
    view = footage_view(prepared)
    rate = 1.0 / float(np.median(np.diff(prepared.times)))
    write_video(folder / FRAMES, view.pictures, rate, ENCODERS["h264"], 20)
    shown = {"rows": view.rows.tolist(), "window": list(astuple(view.window))}
    content = {**view.summary, "shown": shown}
    (folder / SUMMARY).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextmanager
def undamaged(folder: Path) -> Iterator[None]:
    """Converts errors of reading the files of a prepared recording to InvalidInput."""
    try:
        yield
    except (MemoryError, InvalidInput):
        raise
    except Exception as error:  # the readers of tables, arrays and pictures raise many kinds
        remedy = f"its files are damaged: run `gradsim prepare` again ({error})"
        raise InvalidInput("prepared recording", str(folder), remedy) from error


def load_footage_view(folder: Path) -> FootageView | None:
    """Returns what a report shows of a prepared folder; None if its pictures are missing.

    Raises:
        InvalidInput: Its files are damaged.
    """
    files = [folder / name for name in (SUMMARY, TRACKS, LENS, FRAMES, PLATE, MASKS)]
    if not all(file.is_file() for file in files):
        return None
    with undamaged(folder):
        return _read_footage_view(folder)


def _read_footage_view(folder: Path) -> FootageView:
    content = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    shown = content.pop("shown")
    first, stop = content["frames"]
    if not isinstance(first, int) or not isinstance(stop, int):
        raise TypeError("the frames of the motion are no numbers")
    if not isinstance(content["video"], str) or not isinstance(content["motion"]["kind"], str):
        raise TypeError("the names of the video and of the motion are no texts")
    table = np.loadtxt(folder / TRACKS, delimiter=",", skiprows=1, ndmin=2)
    frames = [frame.image for frame in decode_timed_frames(folder / FRAMES, range(len(shown["rows"])))]
    plate = np.asarray(cv2.imread(str(folder / PLATE)), np.uint8)[..., ::-1]
    return FootageView(
        content,
        *(table[:, 0], table[:, 1:3], table[:, 3:5]),
        load_lens(folder / LENS),
        Window(*shown["window"]),
        np.array(shown["rows"], np.int64),
        np.stack(frames).astype(np.uint8),
        np.ascontiguousarray(plate),
        _load_masks(folder / MASKS),
    )


def load_masks(file: Path, names: tuple[str, ...] | None = None) -> dict[str, NDArray[Any]]:
    """Returns arrays that `_write_masks` wrote, all if no names are given."""
    return read_arrays(file, "masks", "must be the masks of a prepared recording", names)


def _load_masks(file: Path) -> tuple[tuple[int, NDArray[np.uint8]], ...]:
    numbers = load_masks(file, ("numbers",))["numbers"]
    chosen = shown_masks(len(numbers))
    alphas = load_masks(file, tuple(f"alpha_{k}" for k in chosen))
    return tuple((int(numbers[k]), alphas[f"alpha_{k}"]) for k in chosen)


def _write_tracks(prepared: Prepared, file: Path) -> None:
    """Writes times from the first frame, centres and their standard deviations [px]."""
    part = prepared.path.part(prepared.fit.frames)
    columns = ("x", "y", "sd.x", "sd.y")
    values = np.concatenate([part.points.reshape(len(part), -1, 2), prepared.deviations.reshape(len(part), -1, 2)], -1)
    with file.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["time", *(f"{name}.{column}" for name in prepared.draft.points for column in columns)])
        for t, row in zip(prepared.times, values.reshape(len(part), -1), strict=True):
            rows.writerow([f"{t:.9g}", *(f"{value:.4f}" for value in row)])


def _write_masks(prepared: Prepared, folder: Path) -> None:
    """Writes the windows around the object [N, 4] (left, top, width, height) and their alphas, 8 bits each."""
    track, file = prepared.track, folder / MASKS
    windows = np.array([(own.left, own.top, own.width, own.height) for own in track.windows], np.int32)
    alphas = {f"alpha_{k}": mask_image(track.alpha(k)) for k in range(len(track))}
    numbers = np.asarray(track.recording.numbers)[track.frames]
    np.savez_compressed(file, frames=track.frames, numbers=numbers, windows=windows, **alphas)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Preview:
    """Frames around the motion with the outline of the object, its path and the fitted motion, one at a time."""

    prepared: Prepared

    @property
    def step(self) -> int:
        """Frames from one picture to the next."""
        return -(-(self.stop - self.first) // PREVIEW_PICTURES)

    @property
    def first(self) -> int:
        """The first frame that is shown."""
        return max(0, int(self.prepared.track.frames[0]) - PREVIEW_MARGIN)

    @property
    def stop(self) -> int:
        """The frame after the last that is shown."""
        return min(len(self.prepared.recording), int(self.prepared.track.frames[-1]) + 1 + PREVIEW_MARGIN)

    @property
    def shape(self) -> tuple[int, ...]:
        recording = self.prepared.recording
        return (
            -(-(self.stop - self.first) // self.step),
            *(int(side * self.factor) // 2 * 2 for side in recording.size),
            3,
        )

    @property
    def factor(self) -> float:
        """Pixels of the preview per pixel of the picture."""
        return PREVIEW_SIDE / min(self.prepared.recording.size)

    def __getitem__(self, number: int, /) -> NDArray[np.uint8]:
        track, fit, frame = self.prepared.track, self.prepared.fit, self.first + number * self.step
        _, height, width, _ = self.shape
        image = self.prepared.recording.reduced[frame]
        picture = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
        seen = np.flatnonzero(track.frames <= frame)
        if len(seen) and track.frames[seen[-1]] == frame:
            k = int(seen[-1])
            for own in self.prepared.tracks:
                _draw_outline(picture, own, k, self.factor)
            if fit.first <= k <= fit.last:
                for predicted in fit.predicted[k - fit.first].reshape(-1, 2):
                    _draw_cross(picture, predicted * self.factor)
        if len(seen) > 1:
            paths = [np.round(own.centers[seen] * self.factor * 8).astype(np.int32) for own in self.prepared.tracks]
            cv2.polylines(picture, paths, False, OBSERVED, 1, cv2.LINE_AA, 3)
        return np.asarray(picture, np.uint8)


def _draw_outline(picture: NDArray[Any], track: ObjectTrack, k: int, factor: float) -> None:
    window, alpha = track.windows[k], track.alpha(k)
    outlines, _ = cv2.findContours((alpha > 0.5).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    for outline in outlines:
        points = (outline.astype(np.float64) + np.array([window.left + 0.5, window.top + 0.5])) * factor
        cv2.polylines(picture, [np.round(points * 8).astype(np.int32)], True, OBSERVED, 1, cv2.LINE_AA, 3)


def _draw_cross(picture: NDArray[Any], point: NDArray[np.float64]) -> None:
    x, y = (int(number) for number in np.round(point))
    cv2.drawMarker(picture, (x, y), PREDICTED, cv2.MARKER_CROSS, 12, 1, cv2.LINE_AA)
