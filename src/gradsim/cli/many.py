"""gradsim estimate --many: fits of independent videos, on several processes or machines."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from gradsim.cli.console import announce_compilation, console, stderr
from gradsim.cli.exit_codes import FAILED, INTERRUPTED
from gradsim.cli.files import make_folder
from gradsim.cli.manifest import FILES, TrialEntry, load_entries, read_entries
from gradsim.cli.progress import ProgressBar
from gradsim.cli.subject import manifest_subject
from gradsim.datasets.compilation import build_kernels
from gradsim.fit.checkpoint import fingerprint
from gradsim.fit.estimate import estimate
from gradsim.parallel import Workers, run_tasks
from gradsim.scene.atomic import remove_unfinished, write_atomically
from gradsim.scene.errors import GradsimError, InvalidInput
from gradsim.scene.files.save import save_scene

TABLE, NUMBERS, SCENE = "fits.csv", "fit.json", "fitted.yaml"
ARGUMENTS = "arguments"  # key of what a fit depends on, in its numbers
PART = 1 << 20  # of a file that is read at once [bytes]


def fit_many(manifest: Path, out: Path, options: Mapping[str, Any], workers: Workers) -> None:
    """Fits each trial of a manifest by itself and writes fits.csv. Exits with code 1 if a trial could not be fitted.

    The result of a trial is a folder NAME with fit.json and fitted.yaml, written in one step. Trials that have one are
    not fitted again; those that failed are. A result of other files or options is refused: it would pass for a new one.
    """
    entries = _named_entries(manifest)
    make_folder(out)
    place = out.resolve()
    tasks = [(name, entry) for name, entry in entries.items() if not (place / name / NUMBERS).is_file()]
    for name in entries.keys() - dict(tasks).keys():
        _check_arguments(place / name, _arguments(manifest.resolve(), options, entries[name]))
    fit = partial(_fit_one, manifest.resolve(), place, dict(options))
    errors: dict[str, str] = {}
    announce_compilation()
    try:
        with ProgressBar("fitting", len(entries), unit="videos") as bar:
            done = len(entries) - len(tasks)
            for (name, _), error in run_tasks(fit, tasks, workers, prepare=build_kernels):
                done += 1
                errors |= {name: error} if error else {}
                bar.update(done, "fitting", name)
    except KeyboardInterrupt:
        stderr.print_line(f"interrupted: run the same command to resume; finished fits are kept in {out}")
        raise typer.Exit(INTERRUPTED) from None
    _write_table(place, list(entries), errors)
    remove_unfinished(place)
    _print_summary(out, len(entries), len(tasks), errors)


def _arguments(manifest: Path, options: Mapping[str, Any], entry: TrialEntry) -> str:
    """Returns a text that identifies all that a fit depends on, with the contents of the files that its trial names."""
    names = [str(value) for key in (*FILES, "scene", "background") if (value := getattr(entry, key)) is not None]
    return fingerprint(entry, options, {name: _digest(manifest.parent / name) for name in names})


def _digest(place: Path) -> str:
    """Returns a digest of the content of a file, or of the files of a folder; "" if there is none."""
    found = hashlib.blake2b(digest_size=16)
    for file in sorted(place.iterdir()) if place.is_dir() else [place]:
        if file.is_file():
            found.update(f"{file.name}\n{file.stat().st_size}\n".encode(errors="surrogateescape"))
            with file.open("rb") as stream:
                while part := stream.read(PART):
                    found.update(part)
    return found.hexdigest()


def _numbers(folder: Path) -> dict[str, Any]:
    """Returns the numbers of a fit."""
    try:
        content = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInput("--out", str(folder), f"is damaged: delete it ({error})") from None
    if not isinstance(content, dict):
        raise InvalidInput("--out", str(folder), "is damaged: delete it")
    return content


def _check_arguments(folder: Path, arguments: str) -> None:
    if _numbers(folder).get(ARGUMENTS) != arguments:
        remedy = "has the fit of another scene, other files, options or version: delete it, or choose another folder"
        raise InvalidInput("--out", str(folder), remedy)


def _print_summary(out: Path, count: int, new: int, errors: Mapping[str, str]) -> None:
    for name, error in errors.items():
        stderr.print_line(f"{name}: {error}")
    text = f"{out / TABLE}: {count} videos, {new} fitted now, {len(errors)} failed"
    console.print_line(text)
    if errors:
        raise typer.Exit(FAILED)


def _named_entries(manifest: Path) -> dict[str, TrialEntry]:
    """Returns the trials by name: their own, or that of their video or table."""
    named: dict[str, TrialEntry] = {}
    for entry in read_entries(manifest, "--many"):
        name = entry.name or Path(next(getattr(entry, key) for key in FILES if getattr(entry, key))).stem
        if name in named or "/" in name or "\0" in name or name.startswith("."):
            raise InvalidInput("--many", repr(name), "every trial needs a name of its own, without / and a leading dot")
        named[name] = entry
    return named


def _fit_one(manifest: Path, out: Path, options: Mapping[str, Any], task: tuple[str, TrialEntry]) -> str:
    """Fits one trial and writes its folder. Returns the error, "" if there is none."""
    name, entry = task
    if (out / name / NUMBERS).is_file():  # a worker was lost after it had written its result
        return ""
    arguments = _arguments(manifest, options, entry)
    try:
        subject = manifest_subject(load_entries(manifest, [entry]))
        own = {"substeps": options["substeps"] or subject.substeps, "integrator": subject.file.time.integrator}
        fit = estimate(list(subject.trials), **{**options, **own})
    except GradsimError as error:
        return " ".join(str(error).split())
    if fit.status == "interrupted":
        raise KeyboardInterrupt

    def write(target: Path) -> None:
        target.mkdir()
        save_scene(fit.scene, target / SCENE, time=fit.trials[0].time)
        (target / NUMBERS).write_text(json.dumps({**fit.as_dict(), ARGUMENTS: arguments}, indent=2) + "\n")

    write_atomically(out / name, write, InvalidInput, keep=True)
    return ""


def _write_table(out: Path, names: Sequence[str], errors: Mapping[str, str]) -> None:
    """Writes one row for each trial: status, and value, interval and verdict of each parameter."""
    rows = list(_rows(out, names, errors))
    columns = dict.fromkeys(key for row in rows for key in row)

    def write(target: Path) -> None:
        with target.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(columns), restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    write_atomically(out / TABLE, write, InvalidInput)


def _rows(out: Path, names: Sequence[str], errors: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name in names:
        if name in errors:
            yield {"name": name, "status": f"failed: {errors[name]}"}
            continue
        try:
            yield {"name": name, **_row(_numbers(out / name))}
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInput("--out", str(out / name), f"is damaged: delete it ({error})") from None


def _row(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row of a fit."""
    row: dict[str, Any] = {key: content[key] for key in ("status", "certain", "seconds")}
    for path, item in content["parameters"].items():
        row |= {path: item["value"], f"{path} low": item["low"], f"{path} high": item["high"]}
        row[f"{path} verdict"] = item["identifiability"]
    return row
