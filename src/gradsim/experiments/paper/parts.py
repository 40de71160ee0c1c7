"""The parts of the paper's page: each an experiment, and the chapter that shows its rows beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsim.experiments.baselines import experiment as baselines
from gradsim.experiments.baselines import reinforce
from gradsim.experiments.baselines.learning import Training
from gradsim.experiments.baselines.problem import ALL
from gradsim.experiments.control import experiment as control
from gradsim.experiments.control.catalogue import TASK_FAMILIES
from gradsim.experiments.control.panels import LABELS, joined_panels
from gradsim.experiments.control.task import Method
from gradsim.experiments.experiment import Experiment, Row
from gradsim.experiments.paper import (
    charts,
    cues,
    deformable,
    determined,
    imperfect,
    landscapes,
    pictures,
    quantities,
    timing,
)
from gradsim.report.document import Chapter, Picture, Table

QUICK_TRAINING, FULL_TRAINING = (60, 8), (800, 100)  # videos and epochs
QUICK_SIZES = (100, 1000)  # tetrahedra
NAMES = {  # of the methods, as the page shows them
    "average": "Average",
    "random": "Random",
    "convlstm": "ConvLSTM",
    "efficientnet": "EfficientNet-Lite0",
    "pybullet": "PyBullet + REINFORCE",
    "mujoco": "MuJoCo's system identification, 3D states",
    "cma-es": "CMA-ES, from video",
    "diffphysics": "DiffPhysics, 3D states",
    "gradsim": "gradsim, from video",
}


@dataclass(frozen=True)
class Part:
    """A table or figure of the paper.

    Args:
        name: Of the file with its rows.
        experiment: Its rows.
        chapter: What the page shows of them.
    """

    name: str
    experiment: Experiment
    chapter: Callable[[Sequence[Row]], Chapter]


def training(folder: Path, *, quick: bool, seed: int = 0) -> Training:
    """Returns the training of the networks in a folder."""
    videos, epochs = QUICK_TRAINING if quick else FULL_TRAINING
    return Training(folder, videos, epochs, seed)


def parts(folder: Path, *, quick: bool, bullet: bool, mitsuba: bool) -> list[Part]:
    """Returns all parts in the order of the paper.

    Args:
        folder: Folder of the networks' training.
        quick: Few objects and short trainings.
        bullet, mitsuba: Whether PyBullet and Mitsuba are installed; their rows are left out otherwise, and the page
            says so.
    """
    trained = training(folder, quick=quick)
    objects = 3 if quick else 50
    chosen = [name for name in baselines.TABLE_1 if bullet or name != "pybullet"]
    wrong = imperfect.experiment(1 if quick else 90, mitsuba=mitsuba)
    searches = control.experiment(baseline_seeds=1 if quick else None, published=True)
    return [
        Part("table-1", baselines.table_1(objects, 0, trained, chosen), lambda rows: _table_1(rows, trained, bullet)),
        Part("table-2", baselines.table_2(2 if quick else 50, 0, trained), _table_2),
        Part("table-3", deformable.experiment(3 if quick else 100, coarse=quick), _table_3),
        Part("table-3-determined", determined.experiment(coarse=quick), _determined),
        Part("table-4-models", wrong, lambda rows: _table_4_models(rows, mitsuba)),
        Part("table-4-timing", timing.experiment(QUICK_SIZES if quick else tuple(timing.CELLS)), _table_4_timing),
        Part("landscapes", landscapes.experiment(11 if quick else 25, bullet=bullet), _landscapes),
        Part("control", searches, _control),
        Part("cues", cues.experiment(starts=(2.0,) if quick else cues.STARTS), _cues),
    ]


def fixed_chapters() -> list[Chapter]:
    """Returns the chapters without an experiment: Figures 3 and 13, Tables 5 and 6."""
    hyperparameters = (
        ("samples", str(reinforce.SAMPLES), "5"),
        ("optimization steps", str(reinforce.STEPS), "125"),
        ("sample noise [kg]", f"{reinforce.NOISE:g}", "0.05"),
        ("decay factor", f"{reinforce.DECAY:g}", "0.925"),
        ("bodies", "as in Table 1", "200"),
    )
    marks = quantities.table()
    rows = tuple(
        (kind, *("x" if column in marks[kind] else "" for column in quantities.COLUMNS), _marks(kind)) for kind in marks
    )
    return [
        Chapter(
            "Figure 3: parameter estimation",
            ("Whole motions in one picture: the guess, the estimate from the video, and the video.",),
            pictures=pictures.estimations(),
        ),
        Chapter("Figure 13: the objects", pictures=(pictures.objects(),)),
        Chapter("Table 5: PyBullet + REINFORCE", tables=(Table(("parameter", "here", "paper"), hyperparameters),)),
        Chapter(
            "Table 6: parameters with gradients",
            (
                "Read from the scene objects; a test compares each with finite differences. The last column has the "
                "number of marks in the paper's row.",
            ),
            tables=(Table(("body", *quantities.COLUMNS, "paper"), rows),),
        ),
    ]


def _marks(kind: str) -> str:
    return str(quantities.PAPER[kind]) if kind in quantities.PAPER else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def _beside(value: float | None, paper: float | None) -> str:
    """Returns a number, and the paper's in brackets."""
    return _number(value) + ("" if paper is None else f" ({paper:.1e})")


def _table_1(rows: Sequence[Row], trained: Training, bullet: bool) -> Chapter:
    lines = []
    for method, means in baselines.means_1(rows).items():
        paper = baselines.PAPER_1.get(method, (None, None))
        own = (means["absolute"], means["mass"])
        lines.append((NAMES[method], *map(_beside, own, paper), f"{means['seconds']:.1f}"))
    objects = len({row["truth"] for row in rows})
    text: tuple[str, ...] = (
        f"Means over {objects} objects of the test split; the paper's in brackets. The networks were trained with "
        f"{trained.videos} videos for {trained.epochs} epochs (the paper: 800 and 100, EfficientNet-B0; here Lite0). "
        "MuJoCo sees the states before the first contact. PyBullet + REINFORCE has a target of its own engine. The "
        "masses here span a wider range than the paper's, which shows in the rows of Average and Random.",
    )
    text += () if bullet else ("PyBullet + REINFORCE was left out: pip install 'gradsim[pybullet]'.",)
    heads = ("method", "error [kg]", "relative error", "seconds")
    return Chapter("Table 1: mass", text, (Table(heads, tuple(lines)),))


def _table_2(rows: Sequence[Row]) -> Chapter:
    lines, counts = [], []
    for method, means in baselines.means_2(rows).items():
        paper = baselines.PAPER_2.get(method, (None,) * len(ALL))
        cells = [_beside(means[name], value) for name, value in zip(ALL, paper, strict=True)]
        hidden = [f"{means[f'{name} undetermined']} {name}" for name in ALL if means[f"{name} undetermined"]]
        lines.append((NAMES[method], *cells, ", ".join(hidden) or "-", f"{means['seconds']:.1f}"))
        if "accurate" in means:
            medians = [_number(means[f"{name} median"]) for name in ALL]
            lines.append((f"{NAMES[method]}: median", *medians, "", ""))
            counts.append(f"{NAMES[method]}: {means['accurate']} accurate, {means['failed']} that say they failed")
    objects = len({(row["object"], row["mass"]) for row in rows if row["method"] == "average"})
    text = (
        f"Mean relative errors over {objects} objects; the paper's in brackets. Parameters that the observation does "
        "not determine to 1e-6, judged at the true values, are left out and counted.",
        f"Objects with errors of at most 1e-6 in all parameters, and fits that say that they do not explain the "
        f"observation or have not converged: {'; '.join(counts)}.",
    )
    heads = ("method", *ALL, "left out", "seconds")
    return Chapter("Table 2: contact parameters", text, (Table(heads, tuple(lines)),))


def _table_3(rows: Sequence[Row]) -> Chapter:
    names = tuple(deformable.ALLOWED)
    lines = []
    for method, errors in deformable.mean_errors(rows).items():
        published = deformable.PAPER[method]
        lines.append((NAMES[method], *(_beside(errors.get(name), published[name]) for name in names)))
    details = tuple(
        (
            f"{row['object']}: {NAMES[row['method']]}",
            str(row["unknowns"]),
            str(row["identifiable"]),
            f"{row['start']:.2f}",
            row["status"],
            f"{row['seconds']:.0f}",
        )
        for row in rows
    )
    text = ("Relative errors ||value - truth|| / ||truth|| from exact frames and positions; the paper's in brackets.",)
    tables = (
        Table(("method", "mass of nodes", "mu", "lambda", "velocity of nodes"), tuple(lines)),
        Table(("object", "unknowns", "identifiable", "error of the guess", "status", "seconds"), details),
    )
    return Chapter("Table 3: deformable bodies", text, tables)


def _determined(rows: Sequence[Row]) -> Chapter:
    text = (
        "Singular values of the derivatives of all frames, or of all positions in metres, with respect to masses and "
        "velocities relative to their true size. Noise s makes an error of s / v along the direction of a value v. "
        "Directions count as determined if frames rounded to 8 bits, or positions with errors of 1 mm, determine them "
        "to 2 % (masses) or .1 % (velocities); the last column is the mean error that these make without any prior.",
    )
    lines = tuple(
        (
            f"{row['object']}: {NAMES[row['method']]}",
            str(row["unknowns"]),
            *(_number(row[name]) for name in ("largest", "median", "smallest")),
            str(row["determined"]),
            _number(row["error"]),
        )
        for row in rows
    )
    heads = ("object", "unknowns", "largest", "median", "smallest", "determined", "error, 8 bits or 1 mm")
    title = "Table 3: what a video determines"
    return Chapter(title, text, (Table(heads, lines),), (charts.singular_value_chart(rows),))


def _table_4_models(rows: Sequence[Row], mitsuba: bool) -> Chapter:
    lines = []
    for model, own in imperfect.means(rows).items():
        causes = [row["cause"] for row in rows if row["model"] == model and row["cause"]]
        lines.append(
            (
                model,
                str(own["objects"]),
                _number(own["error"]),
                f"{imperfect.PAPER[model]:.3f}",
                f"{own['certain']:.0%}",
                f"{own['honest']:.0%}",
                causes[0] if causes else "-",
            )
        )
    text: tuple[str, ...] = (
        "Relative error of the mass, and what the fit says itself: how often it is certain, and how often it is honest "
        "(the truth is inside the interval, or the fit is not certain).",
    )
    text += () if mitsuba else ("The photorealistic target was left out: pip install 'gradsim[mitsuba]'.",)
    heads = ("model", "objects", "error", "paper", "certain", "honest", "first likely cause")
    return Chapter("Table 4, left: imperfect models", text, (Table(heads, tuple(lines)),))


def _table_4_timing(rows: Sequence[Row]) -> Chapter:
    lines = []
    for row in rows:
        own = (
            f"{row[name]:,.0f} ({paper:,})" for name, paper in zip(timing.NAMES, timing.PAPER[row["tets"]], strict=True)
        )
        lines.append((f"{row['tets']:,}", *own))
    text = ("Steps a second on this CPU, float32, frames of 64 pixels at every step; the paper's GPU in brackets.",)
    return Chapter("Table 4, right: timing", text, (Table(("tetrahedra", *timing.NAMES), tuple(lines)),))


def _landscapes(rows: Sequence[Row]) -> Chapter:
    text = (
        "The loss over the mass of a cube of 1 kg (Figure 4, left), for PyBullet (Figure 11, right), over the Lamé "
        "parameters of a hanging beam (Figures 4 and 11), and for videos of several lengths (Figure 12). REINFORCE "
        "minimizes the negative log likelihood of samples around its current estimate, times their reward (Figure 11, "
        "right): where that is lowest depends on the estimate.",
        "The paper's losses over the mass have one minimum. The cube here is thrown to the ground and tumbles: before "
        "it lands there is one minimum, and impacts add others, which the search of gs.estimate avoids by fitting the "
        "first frames first. The Lamé parameters lie in a narrow diagonal valley, in which a grid sees several minima.",
    )
    lines = tuple((row["series"], f"{row['minimum']:.4g}", str(row["minima"])) for row in rows)
    table = Table(("series", "lowest at", "number of minima"), lines)
    return Chapter("Figures 4, 11 and 12: loss landscapes", text, (table,), charts.landscape_charts(rows))


def _control(rows: Sequence[Row]) -> Chapter:
    lines: list[tuple[str, ...]] = []
    for family in TASK_FAMILIES:
        for method in Method:
            own = [row for row in rows if row["task"] == family.name and row["method"] == method.value]
            if own:
                paper: Any = family.paper(method)
                last = sum(abs(row["last"]) for row in own) / len(own)
                published = f"{paper[max(paper)]:g}" if paper else "-"
                lines.append((f"{family.name}, {method.value}", str(len(own)), f"{last:.2g}", published))
    text = ("Mean errors of the last iterates; each task has its own measure, see the page on control.",)
    table = Table(("task and method", "seeds", "error", "paper"), tuple(lines))
    return Chapter("Figures 5 and 6: control", text, (table,), charts.control_charts(rows), _control_pictures(rows))


def _control_pictures(rows: Sequence[Row]) -> tuple[Picture, ...]:
    """Returns start, result and goal of the first seed of each task (Figure 5)."""
    pictures = []
    for family in TASK_FAMILIES:
        own = [row for row in rows if row["task"] == family.name and "panels" in row]
        if own:
            first = min(own, key=lambda row: row["seed"])
            caption = f"{family.name}, seed {first['seed']}: {first['about']}; error {abs(first['last']):.2g}"
            pictures.append(Picture(joined_panels(first["panels"]), LABELS, caption))
    return tuple(pictures)


def _cues(rows: Sequence[Row]) -> Chapter:
    text = ("Relative error of the mass over steps of Adam, with colour only, with shading, and with texture.",)
    lines = tuple(
        (f"{row['cue']}, from {row['start']:g} kg", _number(row["last"]), str(row["steps"] or "-")) for row in rows
    )
    table = Table(("appearance", "last error", "steps to 1 %"), lines)
    return Chapter("Figure 7: shading and texture", text, (table,), (charts.cue_chart(rows),))
