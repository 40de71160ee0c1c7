"""What `gradsim estimate` estimates from: a scene with one or several videos, or the trials of a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gradsim.cli.inputs import checked_camera, checked_unknowns, load_background, load_clip, load_mask, substeps_at
from gradsim.cli.manifest import Manifest, load_manifest
from gradsim.cli.options import frame_time, unknown_offset
from gradsim.fit.trials import Trial
from gradsim.footage.footage_view import FootageView
from gradsim.scene.errors import InvalidInput
from gradsim.scene.files.load import SceneFile, load_scene_file
from gradsim.video.video import Video


@dataclass(frozen=True, eq=False)
class Subject:
    """The trials of an estimate, and how they are described."""

    trials: tuple[Trial, ...]
    file: SceneFile  # of the first trial
    substeps: int | None  # physics steps per frame, from the scene file
    frames: int  # of the longest trial
    title: str
    source: str  # description of the observation
    mask: torch.Tensor | None = None  # weights of the pixels of all videos, [H, W] or [T, H, W]
    footage: FootageView | None = None  # of a prepared recording


@dataclass(frozen=True)
class VideoOptions:
    """Options of `gradsim estimate` that concern all videos; None where not given."""

    frames: str | None = None
    crop: str | None = None
    size: str | None = None
    fps: float | None = None
    mask: Path | None = None
    background: str | None = None
    offset: float | None = None
    shutter: str | None = None
    readout: str | None = None


def load_subject(scene: str | None, videos: list[Path], manifest: Path | None, options: VideoOptions) -> Subject:
    """Loads a scene and its videos, a manifest, or a folder that `gradsim prepare` wrote."""
    if scene is not None and not videos and manifest is None and Path(scene).is_dir():
        return _prepared_subject(Path(scene), options)
    if manifest is not None:
        given = {"SCENE": scene, "VIDEO": videos or None, **given_options(options)}
        check_none(given, "does not apply to --trials: give it in the manifest")
        return manifest_subject(load_manifest(manifest))
    if scene is None or not videos:
        missing = "scene" if scene is None else "video"
        raise InvalidInput(missing, "missing", "give a scene file and a video of it, or --trials MANIFEST")
    file = load_scene_file(scene)
    checked_unknowns(file)
    checked_camera(file)
    return _video_subject(file, videos, options)


def given_options(options: VideoOptions) -> dict[str, Any]:
    return {f"--{name}": value for name, value in vars(options).items()}


def check_none(given: Mapping[str, Any], remedy: str) -> None:
    """Raises InvalidInput if one of some options is given."""
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(name, value, remedy)


def _prepared_subject(folder: Path, options: VideoOptions) -> Subject:
    """Returns the subject of a folder that `gradsim prepare` wrote."""
    from gradsim.footage.prepared_files import MANIFEST, is_prepared, load_footage_view

    if not is_prepared(folder):
        raise InvalidInput("scene", str(folder), "must be a scene file, or a folder that `gradsim prepare` wrote")
    check_none(given_options(options), "does not apply to a prepared folder: give it to `gradsim prepare`")
    subject = manifest_subject(load_manifest(folder / MANIFEST))
    view = load_footage_view(folder)
    if view is None:
        return replace(subject, title=folder.name)
    first, stop = view.summary["frames"]
    video, kind = view.summary["video"], view.summary["motion"]["kind"]
    source = f"{folder}: {kind} in frames {first} to {stop - 1} of {video}, centres in {subject.frames} frames"
    return replace(subject, title=Path(video).stem, source=source, footage=view)


def _video_subject(file: SceneFile, videos: list[Path], options: VideoOptions) -> Subject:
    selected = {name: getattr(options, name) for name in ("frames", "crop", "size", "fps")}
    clips = [load_clip(video, **selected) for video in videos]
    rates = [options.fps or clip.fps or file.time.fps for clip in clips]
    timing: dict[str, Any] = {
        "offset": unknown_offset(options.offset, per_trial=len(clips) > 1) or 0.0,
        "exposure": frame_time("--shutter", options.shutter, rates[0]),
        "readout": frame_time("--readout", options.readout, rates[0]),
    }
    trials = [
        Trial(_with_background(file, clip, options), clip, fps=rate, name=name, **timing)
        for clip, rate, name in zip(clips, rates, _names(videos), strict=True)
    ]
    steps = [count for rate in rates if (count := substeps_at(file.time, rate)) is not None]
    weights = None if options.mask is None else load_mask(options.mask, options.crop, clips[0].size)
    lengths = [len(clip) for clip in clips]
    source = _video_source(videos[0], clips[0], rates[0])
    if len(clips) > 1:
        listed = ", ".join(map(str, videos))
        source = f"{listed}: {len(clips)} trials of {min(lengths)} to {max(lengths)} frames"
    return Subject(tuple(trials), file, max(steps, default=None), max(lengths), file.path.stem, source, weights)


def _with_background(file: SceneFile, clip: Video, options: VideoOptions) -> Any:
    if options.background is None:
        return file.scene
    return replace(file.scene, background=load_background(options.background, clip, options.crop))


def _names(videos: list[Path]) -> list[str | None]:
    """Names of trials: those of the files, with a number where they are equal; None for a single one."""
    if len(videos) == 1:
        return [None]
    stems = [video.stem for video in videos]
    return [stem if stems.count(stem) == 1 else f"{stem}-{k}" for k, stem in enumerate(stems)]


def _video_source(video: Path, clip: Video, fps: float) -> str:
    height, width = clip.size
    return f"{video}: {len(clip)} frames of {height} x {width} pixels at {fps:g} fps, {clip.codec}"


def manifest_subject(manifest: Manifest) -> Subject:
    """Returns the subject of the trials of a manifest."""
    lengths = [manifest.length(number) for number in range(len(manifest.trials))]
    source = f"{manifest.path}: {len(lengths)} trials of {min(lengths)} to {max(lengths)} frames"
    return Subject(manifest.trials, manifest.file, manifest.substeps, max(lengths), manifest.path.stem, source)
