"""From a recording to a scene with unknowns: object, path, kind of motion, view and draft."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gradsim.footage.alpha import measure_object
from gradsim.footage.choices import Choices
from gradsim.footage.detection import Detection, find_moving_objects
from gradsim.footage.focal import focal_length
from gradsim.footage.lens import Lens, pinhole_lens, undistort_points
from gradsim.footage.linked import common_tracks, linked_pair
from gradsim.footage.measured import Measured
from gradsim.footage.motions.draft import Draft
from gradsim.footage.motions.objections import objections, scale_objection
from gradsim.footage.motions.path import ImagePath, MotionFit
from gradsim.footage.motions.registry import MIN_EXPLAINED, MOTIONS, fit_motions, motion_named
from gradsim.footage.motions.view import PITCH, TILT, View
from gradsim.footage.recording import Recording
from gradsim.footage.track import ObjectTrack
from gradsim.scene.errors import UnexplainedMotion

DEPTH_SD = 0.015  # of the distance between a ruler and the plane of the motion, relative to that of the camera
DIAMETER_SD = (0.016, 0.08)  # of the diameter in the picture of a round and of another object, relative
EDGE_SD = 0.5  # of any diameter: compression and colour at half the resolution blur outlines [px]
MIN_LINKED = 0.97  # of a motion of two linked objects, which is preferred to that of one of them
MIN_LINKED_FRAMES = 14  # in which both are measured
LOW_CONTRAST = 0.13  # difference of an object from the background, as a part of full scale
FAINT_SD = 0.15  # of the diameter of an object with less: its outline is lost in places, relative
NOTED_DRIFT = 0.03  # speed of an object along the view that is worth a note, relative to its distance [1/s]
DRIFT = (0.004, 0.1)  # errors of centres that last for several frames, in diameters and in pixels of the picture
CLOSE_COST = 3.0  # difference of the costs of two motions, per frame, below which both are possible


@dataclass(frozen=True, eq=False)
class Prepared:
    """A recording that is ready for an estimate.

    Example:
        `gs.prepare("throw.mp4", diameter=0.0687).draft.scene`

    Args:
        detection: The moving objects.
        track: The measured object; the lower one of two that are linked.
        path: Its path, without lens distortion, or the paths of linked objects.
        fits: Kinds of motion that were fitted to it, the best first.
        fit: The chosen one.
        view: Camera and scale.
        lens: Lens of the camera.
        draft: Scene with unknowns.
        times: Times of the frames of the motion from the first [s], [M].
        notes: What is uncertain, in words.
        linked: The object from which the measured one hangs, in the same frames; none if it moves alone.
    """

    detection: Detection
    track: ObjectTrack
    path: ImagePath
    fits: tuple[MotionFit, ...]
    fit: MotionFit
    view: View
    lens: Lens
    draft: Draft
    times: np.ndarray = field(repr=False)
    notes: tuple[str, ...] = ()
    linked: tuple[ObjectTrack, ...] = ()

    @property
    def tracks(self) -> tuple[ObjectTrack, ...]:
        """All measured objects, in the order of the columns of the path."""
        return (self.track, *self.linked)

    @property
    def recording(self) -> Recording:
        """The video file, its size and frame times."""
        return self.detection.recording

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviations of the coordinates of the motion [px], [M, 2 K], for K objects."""
        part = self.path.part(self.fit.frames)
        return np.broadcast_to(np.hypot(part.sigma[:, None], self.fit.spread), part.points.shape)

    @property
    def drift(self) -> float:
        """Standard deviation of errors of the centres that last for several frames [px]."""
        return math.hypot(DRIFT[0] * self.path.diameter, DRIFT[1])

    @property
    def substeps(self) -> int | None:
        """Time steps between two frames that the motion needs for accuracy; None for any number that is stable."""
        dt = self.draft.dt
        return None if dt is None else max(1, math.ceil(float(np.median(np.diff(self.times))) / dt))

    @property
    def frames(self) -> np.ndarray:
        """Numbers of the frames of the motion in the file [M]."""
        return np.asarray(self.recording.numbers)[self.track.frames[self.fit.frames]]

    @property
    def findings(self) -> tuple[str, ...]:
        """What was found, in lines."""
        track, fit = self.track, self.fit
        numbers = self.recording.numbers
        return (
            f"object: {track.diameter:.0f} px wide, in {len(track)} of {len(numbers)} frames",
            f"motion: {fit.kind}, frames {self.frames[0]} to {self.frames[-1]}, explains "
            f"{100 * fit.explained:.2f} % of the path",
            f"scale: {self.view.scale or 'unknown'}",
            f"estimates: {', '.join(self.draft.wanted)}",
        )

    def __str__(self) -> str:
        return "\n".join([*self.findings, *(f"note: {note}" for note in self.notes)])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes the folder that `gradsim estimate` reads: scene, tracks, background, masks and a preview.

        Args:
            folder: New, or a prepared folder, which is replaced.
        """
        from gradsim.footage.prepared_files import write_prepared

        write_prepared(self, Path(folder))
        return Path(folder)


def prepare(recording: Recording, choices: Choices = Choices(), *, lens: Lens | None = None) -> Prepared:
    """Finds the moving object of a recording, measures its path, and drafts a scene that moves like it.

    Args:
        recording: The recording, from `open_recording`.
        choices: What is known about it.
        lens: Calibrated lens; if None, a pinhole camera with the focal length that the file states, or a usual one.

    Raises:
        MovingCamera: The camera moves.
        NoMovingObject: Nothing moves, or nothing at the chosen place.
        AmbiguousObject: Two objects move alike, and none was chosen.
        UnexplainedMotion: No kind of motion explains the path.
    """
    if choices.motion is not None:
        motion_named(choices.motion)  # checked before the search, which takes longer
    point, frame = choices.object, choices.object_frame
    detection = find_moving_objects(recording, object_at=point, at_frame=frame, ignore=choices.ignore)
    focal = focal_length(recording.path) if lens is None else replace(lens.focal, source="the calibrated lens")
    view_lens = lens.scaled(recording.size) if lens else pinhole_lens(recording.size, focal)
    found = _linked_motion(detection, choices, view_lens) or _single_motion(detection, choices, view_lens)
    track, path, fits, fit = found.tracks[0], found.path, found.fits, found.fit
    part = path.part(fit.frames)
    view = make_view(choices, view_lens, track, usual_diameter(track, fit), detection.best.contrast)
    view = replace(view, focal=replace(view.focal, source=focal.source))
    doubts = _doubts(recording, path, fit, view)
    if doubts and choices.motion is None:
        remedy = "if it is right, name the kind of motion with --as"
        raise UnexplainedMotion(str(recording.path), "; ".join(doubts), remedy)
    measure_drift = MOTIONS[fit.kind].drift
    drift = None if measure_drift is None else measure_drift(part, fit, view)
    at_start = view if drift is None else view.at_start(drift, _scale_time(choices, track, fit))
    draft = MOTIONS[fit.kind].draft(fit, at_start)
    notes = (
        *doubts,
        *detection_notes(detection, track),
        *_motion_notes(fits, fit, path),
        *_depth_notes(drift),
        *_view_notes(view, lens),
    )
    times, linked = part.times - part.times[0], found.tracks[1:]
    return Prepared(detection, track, path, fits, fit, view, view_lens, draft, times, notes, linked)


def _doubts(recording: Recording, path: ImagePath, fit: MotionFit, view: View) -> list[str]:
    """Returns why a motion that fits the path cannot be right."""
    scale = scale_objection(fit, view, 1.0 / float(np.median(np.diff(recording.times))))
    return [*objections(path, fit), *([] if scale is None else [scale])]


@dataclass(frozen=True, eq=False)
class _Motion:
    """Measured objects, and the kinds of motion that were fitted to their path."""

    tracks: tuple[ObjectTrack, ...]
    path: ImagePath
    fits: tuple[MotionFit, ...]
    fit: MotionFit


def _single_motion(detection: Detection, choices: Choices, lens: Lens) -> _Motion:
    """Returns the motion of the best object."""
    detection.check_unambiguous()
    if not detection.chosen:
        detection.check_unbroken()
    track = measure_object(detection)
    path = _image_path((track,), lens, choices.rolling_shutter)
    fits = tuple(fit_motions(path))
    return _Motion((track,), path, fits, _chosen_fit(detection.recording, path, fits, choices.motion))


def _linked_motion(detection: Detection, choices: Choices, lens: Lens) -> _Motion | None:
    """Returns the motion of two objects that a rod links; None if there are none, or if it is not wanted."""
    named = None if choices.motion is None else motion_named(choices.motion)
    if named is not None and named.objects == 1:
        return None
    pair = linked_pair(detection)
    if pair is not None:
        tracks = common_tracks(*(measure_object(detection, own, attached=True) for own in pair))
        path = _image_path(tracks, lens, choices.rolling_shutter)
        fits = tuple(fit_motions(path)) if len(path) >= MIN_LINKED_FRAMES else ()
        if fits and (named is not None or fits[0].explained > MIN_LINKED):
            return _Motion(tracks, path, fits, fits[0])
    if named is None:
        return None
    found = "no two objects keep their distance" if pair is None else "it does not fit the paths of the two bobs"
    raise UnexplainedMotion("--as", named.name, f"{found}: both bobs must be seen, in front of another colour")


def _image_path(tracks: tuple[ObjectTrack, ...], lens: Lens, rolling_shutter: float) -> ImagePath:
    """Returns the paths of tracks of the same frames in the undistorted picture.

    Each row of a rolling shutter has a time of its own; that of the first track is used.
    """
    first = tracks[0]
    rows = first.centers[:, 1] / first.recording.size[0]
    points = np.concatenate([undistort_points(lens, own.centers) for own in tracks], 1)
    sigma = np.linalg.norm(np.concatenate([own.center_std for own in tracks], 1), axis=1) / math.sqrt(2 * len(tracks))
    diameter = float(np.mean([own.diameter for own in tracks]))
    extent = float(np.ptp(points, axis=0).max())
    return ImagePath(first.times + rolling_shutter * rows, points, diameter, sigma, extent)


def _chosen_fit(recording: Recording, path: ImagePath, fits: tuple[MotionFit, ...], name: str | None) -> MotionFit:
    """Returns the fit of the named kind of motion, or the best one."""
    if name is not None:
        motion = motion_named(name)
        found = next((fit for fit in fits if fit.kind == motion.name), None)
        if found is None:
            remedy = f"{motion.text} cannot be fitted to the path of {len(path)} frames: check --object and --frames"
            raise UnexplainedMotion("--as", name, remedy)
        return found
    if not fits or fits[0].explained < MIN_EXPLAINED:
        best = f"at best {fits[0].kind}, {100 * max(fits[0].explained, 0):.0f} %" if fits else "none could be fitted"
        remedy = "check --object and --frames, or name the kind of motion with --as to use it all the same"
        raise UnexplainedMotion(str(recording.path), f"no kind of motion explains the path ({best})", remedy)
    return fits[0]


def usual_diameter(track: ObjectTrack, fit: MotionFit) -> float:
    """Returns the diameter of the object during the motion [px], from the frames in which it is slow."""
    return float(np.median(track.diameters[fit.frames][_slow_frames(track, fit)]))


def _slow_frames(track: ObjectTrack, fit: MotionFit) -> np.ndarray:
    """Returns which frames of the motion are the slower half [M]."""
    smears = np.linalg.norm(track.smears[fit.frames], axis=1)
    return np.asarray(smears <= np.median(smears))


def _scale_time(choices: Choices, track: ObjectTrack, fit: MotionFit) -> float:
    """Returns the time after the first frame of the motion for which the scale is known [s].

    A known length is taken to lie in the middle of the motion; the diameter is measured in the slow frames.
    """
    times = track.times[fit.frames] - track.times[fit.first]
    return float(times[-1] / 2 if choices.scale is not None else times[_slow_frames(track, fit)].mean())


def make_view(choices: Choices, lens: Lens, track: ObjectTrack, diameter_px: float, contrast: float) -> View:
    """Returns the view of a recording from what is known about it: a length in the picture, or the object's size.

    Args:
        choices: What is known.
        lens: Lens of the camera.
        track: The object.
        diameter_px: Its diameter [px].
        contrast: Its difference from the background, as a part of full scale.
    """
    return View(
        size=lens.size,
        focal=lens.focal,
        scale=_scale(choices, lens, track, diameter_px, contrast),
        diameter_px=diameter_px,
        diameter=choices.diameter,
        mass=choices.mass,
        gravity=choices.gravity,
        floor=choices.floor,
        pitch=TILT if choices.level else PITCH,
    )


def _scale(choices: Choices, lens: Lens, track: ObjectTrack, diameter_px: float, contrast: float) -> Measured | None:
    """Returns pixels per metre in the plane of the motion; None if no length is known."""
    if choices.scale is not None:
        *ends, length = choices.scale
        points = undistort_points(lens, np.array(ends).reshape(2, 2))
        pixels = float(np.linalg.norm(points[1] - points[0]))
        relative = math.hypot(DEPTH_SD, math.sqrt(2) / pixels)
        return Measured(pixels / length, relative * pixels / length, "px/m", "a known length in the picture")
    if choices.diameter is not None:
        value = diameter_px / choices.diameter
        usual = FAINT_SD if contrast < LOW_CONTRAST else DIAMETER_SD[0 if track.is_round else 1]
        relative = math.hypot(usual, track.diameter_uncertainty / diameter_px, EDGE_SD / diameter_px)
        return Measured(value, relative * value, "px/m", "the diameter of the object")
    return None


def detection_notes(detection: Detection, track: ObjectTrack) -> tuple[str, ...]:
    """Returns what is uncertain about the object that was found."""
    notes = [f"{remark[:1].lower()}{remark[1:]}".removesuffix(".") for remark in track.remarks]
    repeated = _repeated_frames(detection.recording, track)
    if repeated:
        notes.append(
            f"{repeated} frames repeat the one before and are left out: was the video converted "
            "from another frame rate? The times of the others may then be off by a part of a frame"
        )
    if detection.camera.stabilized:
        notes.append("the camera shakes: positions are those of the stabilized picture")
    if detection.best.contrast < LOW_CONTRAST:
        notes.append("the object hardly differs from the background: parts of it may be missing, its size is uncertain")
    if track.diameter < 10:
        notes.append(f"the object is only {track.diameter:.0f} px wide: its centre is uncertain")
    return tuple(notes)


def _repeated_frames(recording: Recording, track: ObjectTrack) -> int:
    """Returns how many frames were left out as repetitions while the object was followed; before it, all may rest."""
    first, last = (int(track.frames[k]) for k in (0, -1))
    return recording.numbers[last] - recording.numbers[first] - (last - first)


def _motion_notes(fits: tuple[MotionFit, ...], fit: MotionFit, path: ImagePath) -> list[str]:
    notes = []
    left_out = len(path) - (fit.last - fit.first + 1)
    if left_out:
        notes.append(f"{left_out} of {len(path)} frames with the object are not part of the motion")
    others = [other for other in fits if other is not fit]
    if others:
        runner_up = others[0]
        close = runner_up.cost - fit.cost < CLOSE_COST * math.sqrt(len(path))
        word = "is almost as likely" if close else "is the runner-up"
        notes.append(f"{runner_up.kind} {word}: it explains {100 * max(runner_up.explained, 0):.1f} % of the motion")
    if fit.explained < MIN_EXPLAINED:
        notes.append(f"{fit.kind} explains only {100 * max(fit.explained, 0):.0f} % of the motion")
    return notes


def _depth_notes(drift: Measured | None) -> list[str]:
    """Returns a note about an object that clearly moves along the view."""
    if drift is None or abs(drift.value) < max(2 * drift.sd, NOTED_DRIFT):
        return []
    direction, part = ("towards" if drift.value > 0 else "away from"), 100 * abs(drift.value)
    return [
        f"the object moves {direction} the camera, by about {part:.0f} % of its distance in a second: the known length "
        "is taken to lie where the object is in the middle of its motion"
    ]


def _view_notes(view: View, lens: Lens | None) -> list[str]:
    notes = []
    if lens is None:
        notes.append(f"the lens is not calibrated: focal length {view.focal}; see gradsim calibrate")
    if view.scale is None:
        notes.append("no length is known: it follows from gravity of 9.81 m/s^2; give --scale or --diameter")
    return notes
