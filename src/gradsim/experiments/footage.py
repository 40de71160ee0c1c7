"""Estimates from footage: real videos of which something is known, synthetic ones, and videos that must be refused.

Every video goes the way of a user: `gradsim prepare` with one known length, then `gradsim estimate`. Synthetic videos
come from `footage_videos`, which uses neither gradsim's simulator nor its renderer. Seeds 0 to 29 were used while the
method was developed; 30 to 59 were held out in a first round and are known since; 60 to 89 were run once, after it.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.footage_videos import TRAPS, SyntheticTruth, synthetic_video, trap_video
from gradsim.experiments.protocol import fit_video
from gradsim.fit.result import Fit
from gradsim.footage.choices import Choices
from gradsim.footage.lens import Lens
from gradsim.footage.prepare import Prepared, prepare
from gradsim.footage.recording import open_recording
from gradsim.scene.errors import GradsimError, InvalidInput
from gradsim.scene.files.document import parse_yaml

REAL, SYNTHETIC, TRAP = "real", "synthetic", "trap"
GROUPS = {"tuning": range(30), "once held-out": range(30, 60), "held-out": range(60, 10**6)}  # of seeds
FOUND = 0.25  # largest median error of the centre of an object that was found, in diameters
MIN_FOUND, MIN_COVERAGE = 55 / 60, 0.9
MAX_HALF_WIDTH = 0.05  # of gravity from the real videos
RESTITUTION = (0.66, 0.73)
GRAVITY_PATH = "scene.gravity[1]"
PATHS = {
    "gravity": GRAVITY_PATH,
    "restitution": "ground.restitution",
    "length": "object.length",
    "length_1": "object.lengths[0]",
    "length_2": "object.lengths[1]",
    "friction": "ground.mu",
    "rolling_resistance": "ground.mu",
    "frequency": "object.stiffness",
}  # of the values that are judged

COLUMNS = (
    Column("video", "", 22),
    Column("kind", "", 16),
    Column("motion", "", 12),
    Column("object", "", 7),
    Column("quantity", "", 18),
    Column("true", ".4g", 8),
    Column("value", ".4g", 8),
    Column("half width", ".1%", 10),
    Column("inside", "", 6),
    Column("certain", "", 7),
    Column("seconds", ".0f", 7),
    Column("status", "", 60),
)


def known_facts(folder: Path) -> Mapping[str, Any]:
    """Returns what the file known.yaml of a folder says about each recording."""
    file = folder / "known.yaml"
    if not file.is_file():
        raise InvalidInput("--data", str(folder), "must contain known.yaml, with what is known about each video")
    document = parse_yaml(file.read_text(encoding="utf-8"))
    return {} if document is None else document.data


def real_choices(facts: Mapping[str, Any]) -> Choices:
    """Returns the known length of a real video: a ruler in the picture, or the diameter of the object."""
    length = facts.get("length")
    scale = None if length is None else (*length["from"], *length["to"], length["metres"])
    return Choices(scale=scale, diameter=facts.get("diameter"))


def real_cases(folder: Path) -> list[Case]:
    """Returns a case for each video of a folder with a file known.yaml."""
    known = known_facts(folder)
    videos = {name: facts for name, facts in known.items() if name.endswith((".mp4", ".mov")) and "gravity" in facts}
    return [Case(name, partial(_run_real, folder / name, facts)) for name, facts in videos.items()]


def _run_real(file: Path, facts: Mapping[str, Any], progress: Progress) -> Row:
    truth = {"gravity": float(facts["gravity"])}
    if "restitution" in facts:
        truth["restitution"] = float(np.mean(facts["restitution"]))
    return _run(file.name, REAL, file, real_choices(facts), None, truth, progress)


def synthetic_case(seed: int) -> Case:
    """Returns the case of a synthetic video."""

    def run(progress: Progress) -> Row:
        with tempfile.TemporaryDirectory() as folder:
            truth = synthetic_video(seed, Path(folder) / f"{seed}.mp4")
            values = {name: truth.values[name] for name in truth.judged}
            choices, lens = user_choices(truth), user_lens(truth)
            row = _run(f"seed {seed}", truth.kind, truth.path, choices, lens, values, progress, truth)
        return {**row, "group": SYNTHETIC, "seeds": next(name for name, seeds in GROUPS.items() if seed in seeds)}

    return Case(f"seed {seed}", run)


def trap_case(name: str) -> Case:
    """Returns the case of a video that must be refused."""

    def run(progress: Progress) -> Row:
        with tempfile.TemporaryDirectory() as folder:
            truth = trap_video(name, Path(folder) / f"{name}.mp4")
            row = _run(name, TRAP, truth.path, user_choices(truth), user_lens(truth), {}, progress)
        return {**row, "group": TRAP, "expected": truth.refusal}

    return Case(f"trap {name}", run)


def user_choices(truth: SyntheticTruth) -> Choices:
    """Returns what a user states: a level camera, and a ruler in the picture or else the size of the object."""
    known = truth.known
    return Choices(scale=known.length, diameter=None if known.length is not None else known.diameter, level=True)


def user_lens(truth: SyntheticTruth) -> Lens | None:
    """Returns the lens of a user who calibrated it because it distorts; None otherwise."""
    height, width = truth.conditions.size
    if truth.known.k1 is None:
        return None
    focal = 0.5 * height / math.tan(math.radians(truth.known.fov) / 2)
    return Lens(focal, focal, width / 2, height / 2, (height, width), k1=truth.known.k1)


def _run(
    name: str,
    kind: str,
    file: Path,
    choices: Choices,
    lens: Lens | None,
    truth: Mapping[str, float],
    progress: Progress,
    full: SyntheticTruth | None = None,
) -> Row:
    """Prepares and estimates a video. A refusal is a row too."""
    begin = time.perf_counter()
    row: Row = {"video": name, "kind": kind, "group": kind, "certain": "no", "values": []}
    prepared: Prepared | None = None
    try:
        prepared = prepare(open_recording(file), choices, lens=lens)
        row |= {"motion": prepared.fit.kind, "object": _is_found(prepared, full)}
        fit = fit_video(prepared, None, progress)
    except GradsimError as error:
        status = f"refused: {type(error).__name__}: {' '.join(str(error).split())}"
        return {**row, "status": status, "seconds": time.perf_counter() - begin}
    truth = truth if full is None else {**truth, **_at_stated_speed(prepared, full)}
    found = (judged(fit, quantity, true) for quantity, true in truth.items())
    values = [value for value in found if value is not None]
    row |= {"status": f"{fit.status}: {fit.advice}" if fit.advice else fit.status, "values": values}
    row |= {"certain": "yes" if fit.certain else "no", "explained": fit.misfit.explained}
    row |= values[0] if values else {}
    return {**row, "seconds": time.perf_counter() - begin}


def _at_stated_speed(prepared: Prepared, truth: SyntheticTruth) -> dict[str, float]:
    """Returns the true restitution at the speed of impact for which the scene states it: it falls with the speed."""
    ground = prepared.draft.scene.ground
    if "restitution" not in truth.judged or ground is None:
        return {}
    faster = float(np.asarray(ground.restitution_speed)) - truth.values["restitution_speed"]
    return {"restitution": truth.values["restitution"] - truth.values["restitution_slope"] * faster}


def _is_found(prepared: Prepared, truth: SyntheticTruth | None) -> str:
    """Whether every tracked object is a true one, another each, from the centres in the frames of the motion."""
    if truth is None:
        return "-"
    found, numbers = set(), np.asarray(prepared.recording.numbers)  # of the frames that are not left out
    for track in prepared.tracks:
        shown = numbers[track.frames]
        centers = truth.centers[shown] - truth.shake[shown][:, None]
        errors = np.median(np.linalg.norm(track.centers[:, None] - centers, axis=-1), axis=0)
        if float(errors.min()) < FOUND * track.diameter:
            found.add(int(np.argmin(errors)))
    return "yes" if len(found) == len(prepared.tracks) else "wrong"


def judged(fit: Fit, quantity: str, true: float) -> Row | None:
    """Returns the estimate of a quantity beside the truth; None if the scene does not have it."""
    path = PATHS.get(quantity, "")
    if path not in fit.values:
        return None
    value, low, high = (float(x) for x in (fit.values[path], *fit.intervals[path]))
    if quantity == "gravity":
        value, low, high = -value, -high, -low
    if quantity == "frequency":  # of a mass of 1 kg on the spring
        value, low, high = (math.sqrt(x) / (2 * math.pi) for x in (value, low, high))
    row: Row = {"quantity": quantity, "true": true, "value": value, "low": low, "high": high}
    return row | {"half width": (high - low) / 2 / abs(true), "inside": "yes" if low <= true <= high else "no"}


def experiment(
    data: Path | None = None, *, synthetic: Sequence[int] = (), traps: Sequence[str] = tuple(TRAPS)
) -> Experiment:
    """Real videos of a folder, synthetic videos by seed, and traps by name."""
    cases = [] if data is None else real_cases(data)
    cases += [synthetic_case(seed) for seed in synthetic]
    cases += [trap_case(name) for name in traps]
    title = "Physics from footage: one known length, no other input"
    return Experiment("footage", title, COLUMNS, tuple(cases), claims)


def claims(rows: Sequence[Row]) -> list[Claim]:
    """The statements about the table."""
    found = []
    for row in (row for row in rows if row["group"] == REAL):
        for value in row["values"]:
            label = f"{row['video']}, {value['quantity']}"
            if value["quantity"] == "gravity":
                found.append(Claim(f"{label}: truth inside the interval", float(value["inside"] == "yes"), None, 1.0))
                found.append(Claim(f"{label}: half width", value["half width"], MAX_HALF_WIDTH))
            else:
                found.append(Claim(label, value["value"], RESTITUTION[1], RESTITUTION[0]))
    for name in GROUPS:
        own = [row for row in rows if row["group"] == SYNTHETIC and row["seeds"] == name]
        if own:
            found += _synthetic_claims(own, name)
    trapped = [row for row in rows if row["group"] == TRAP]
    if trapped:
        accepted = float(sum(row["certain"] == "yes" for row in trapped))
        found.append(Claim(f"called certain, of {len(trapped)} videos that must be refused", accepted, 0.0))
    return found


def _synthetic_claims(rows: Sequence[Row], label: str) -> list[Claim]:
    right = [row for row in rows if row.get("object") == "yes"]
    values = [value for row in right for value in row["values"]]
    inside = sum(value["inside"] == "yes" for value in values) / max(len(values), 1)
    wrong = sum(row.get("object") == "wrong" and row["certain"] == "yes" for row in rows)
    return [
        Claim(f"object found, of {len(rows)} {label} videos", len(right) / len(rows), None, MIN_FOUND),
        Claim(f"truth inside the interval, of {len(values)} values of {label} videos", inside, None, MIN_COVERAGE),
        Claim(f"wrong objects called certain, {label}", float(wrong), 0.0),
    ]
