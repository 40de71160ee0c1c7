"""gradsim estimate --many: fits of independent videos, on several processes or machines."""

from __future__ import annotations

import csv
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
from gradsim.fit.estimate import estimate
from gradsim.parallel import Workers, run_tasks
from gradsim.scene.atomic import remove_unfinished, write_atomically
from gradsim.scene.errors import GradsimError, InvalidInput
from gradsim.scene.files.save import save_scene

TABLE, NUMBERS, SCENE = "fits.csv", "fit.json", "fitted.yaml"


def fit_many(manifest: Path, out: Path, options: Mapping[str, Any], workers: Workers) -> None:
    """Fits each trial of a manifest by itself and writes fits.csv. Exits with code 1 if a trial could not be fitted.

    The result of a trial is a folder NAME with fit.json and fitted.yaml, written in one step. Trials that have one are
    not fitted again; those that failed are.
    """
    entries = _named_entries(manifest)
    make_folder(out)
    place = out.resolve()
    tasks = [(name, entry) for name, entry in entries.items() if not (place / name / NUMBERS).is_file()]
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
        if name in named or "/" in name or name.startswith("."):
            raise InvalidInput("--many", name, "every trial needs a name of its own, without / and a leading dot")
        named[name] = entry
    return named


def _fit_one(manifest: Path, out: Path, options: Mapping[str, Any], task: tuple[str, TrialEntry]) -> str:
    """Fits one trial and writes its folder. Returns the error, "" if there is none."""
    name, entry = task
    if (out / name / NUMBERS).is_file():  # a worker was lost after it had written its result
        return ""
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
        fit.save(target / NUMBERS)

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
        content = json.loads((out / name / NUMBERS).read_text())
        row: dict[str, Any] = {key: content[key] for key in ("status", "certain", "seconds")}
        for path, item in content["parameters"].items():
            row |= {path: item["value"], f"{path} low": item["low"], f"{path} high": item["high"]}
            row[f"{path} verdict"] = item["identifiability"]
        yield {"name": name, **row}
