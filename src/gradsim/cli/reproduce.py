"""gradsim reproduce: the experiments of the paper and further claims, as tables that are filled row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradsim.cli.console import console, stderr
from gradsim.cli.exit_codes import FAILED, INTERRUPTED
from gradsim.cli.files import make_folder
from gradsim.cli.options import SEED_RANGE, JobsOption, RayOption, chosen_workers, parse_frames
from gradsim.experiments.control.catalogue import Subject
from gradsim.experiments.control.task import Method
from gradsim.experiments.experiment import Experiment, Row, run_experiment
from gradsim.parallel import Workers
from gradsim.scene.errors import InvalidInput

if TYPE_CHECKING:
    from gradsim.experiments.baselines.learning import Training

reproduce = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Repeat the experiments of the paper. Tables are filled row by row; exits with code 1 if a claim fails.",
)

JsonOption = Annotated[
    Path | None,
    typer.Option("--json", "-o", help="Save each row to this JSON file; rows already in it are not computed again."),
]


class MassMethod(str, Enum):
    """Methods that estimate a mass."""

    AVERAGE = "average"
    RANDOM = "random"
    CONV_LSTM = "convlstm"
    EFFICIENT_NET = "efficientnet"
    PYBULLET = "pybullet"
    MUJOCO = "mujoco"
    CMA_ES = "cma-es"
    DIFF_PHYSICS = "diffphysics"
    GRADSIM = "gradsim"


SeedOption = Annotated[int, typer.Option(help="Random seed.", **SEED_RANGE)]
TRAINING = Path("out/training")  # default folder of the networks


@reproduce.command()
def mass(
    objects: Annotated[int, typer.Option(help="Number of objects.", min=1)] = 20,
    seed: SeedOption = 0,
    jobs: JobsOption = None,
    ray: RayOption = None,
    as_json: JsonOption = None,
) -> None:
    """Mass of pushed objects, from exact, 8-bit and compressed videos (Table 1).

    gradsim reproduce mass --objects 5 --json mass.json
    """
    from gradsim.experiments.mass import experiment

    show_experiment(experiment(objects, seed), as_json, workers=chosen_workers(jobs, ray))


@reproduce.command()
def baselines(
    objects: Annotated[int, typer.Option(help="Number of objects of the test split; 200 for all.", min=1)] = 5,
    method: Annotated[
        list[MassMethod] | None, typer.Option(help="Run only this method; may be repeated. All by default.")
    ] = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="Estimate mass and contact parameters jointly, as in Table 2.")
    ] = False,
    training: Annotated[
        Path, typer.Option(help="Folder of the networks: their videos, features and weights.")
    ] = TRAINING,
    videos: Annotated[int, typer.Option(help="Videos that the networks are trained with.", min=1, max=800)] = 800,
    epochs: Annotated[int, typer.Option(help="Passes of the training over them.", min=1)] = 100,
    seed: SeedOption = 0,
    jobs: JobsOption = None,
    ray: RayOption = None,
    as_json: JsonOption = None,
) -> None:
    """Mass of objects of the data set by the methods of Table 1, or five parameters by those of Table 2.

    Needs the extras paper (CMA-ES, EfficientNet, MuJoCo's system identification) and pybullet. The networks are trained
    first: with all 800 videos this takes up to two hours, and goes on where it was interrupted.

        gradsim reproduce baselines --objects 5 --method gradsim --method average --json baselines.json

        gradsim reproduce baselines --joint --objects 50 --videos 100 --epochs 10 --jobs 2
    """
    from gradsim.experiments.baselines.experiment import TABLE_1, TABLE_2, table_1, table_2
    from gradsim.experiments.baselines.learning import Training

    table, names = (table_2, TABLE_2) if joint else (table_1, TABLE_1)
    chosen = [item.value for item in method] if method else list(names)
    for name in chosen:
        if name not in names:
            raise InvalidInput("--method", name, f"with --joint must be one of {', '.join(names)}")
    workers = chosen_workers(jobs, ray)
    settings = Training(training, videos, epochs, seed)
    train_networks(chosen, settings, workers)
    show_experiment(table(objects, seed, settings, chosen), as_json, workers=workers)


def train_networks(methods: Sequence[str], settings: Training, workers: Workers) -> None:
    """Trains the networks among some methods, with a line about the current step. Exits with code 130 on Ctrl-C."""
    from gradsim.experiments.baselines.learning import train
    from gradsim.experiments.baselines.methods import LEARNED

    try:
        with stderr.status("training") as status:
            for name in methods:
                if name in LEARNED:
                    train(name, settings, status.update, workers)
    except KeyboardInterrupt:
        stderr.print_line(f"interrupted: run the same command to resume; {settings.folder} is kept")
        raise typer.Exit(INTERRUPTED) from None


@reproduce.command()
def paper(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the page and of the rows of its tables.")] = Path(
        "out/paper"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Few objects and short trainings.")] = False,
    jobs: JobsOption = None,
    ray: RayOption = None,
) -> None:
    """Every table and figure of the paper's experiments, on one page: OUT/paper.html.

    Rows are saved as they are computed, and an interrupted run is resumed by the same command. Rows that need an extra
    which is not installed are left out, and the page says so: pip install 'gradsim[paper,pybullet,mitsuba]'.

        gradsim reproduce paper --quick --jobs 2
    """
    from importlib.util import find_spec

    from gradsim.experiments.paper.page import write_paper
    from gradsim.experiments.paper.parts import parts, training

    make_folder(out)
    workers = chosen_workers(jobs, ray)
    train_networks(("convlstm", "efficientnet"), training(out / "training", quick=quick), workers)
    bullet, mitsuba = (find_spec(name) is not None for name in ("pybullet", "mitsuba"))
    found: dict[str, list[Row]] = {}
    failed = False
    kind = "quick" if quick else "full"
    listed = parts(out / "training", quick=quick, bullet=bullet, mitsuba=mitsuba)
    for part in listed:
        alone = part.name == "table-4-timing"  # nothing else runs while times are measured
        rows, ok = fill_table(part.experiment, out / f"{part.name}-{kind}.json", Workers() if alone else workers)
        found[part.name], failed = rows, failed or not ok
    page = write_paper(out, listed, found, quick=quick)
    console.print_line(f"page: {page}")
    if failed:
        raise typer.Exit(FAILED)


@reproduce.command()
def contact(
    objects: Annotated[int | None, typer.Option(help="Number of objects; all by default.", min=1)] = None,
    seed: SeedOption = 0,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Use the objects that were not used during development.")
    ] = False,
    eight_bit: Annotated[
        bool, typer.Option("--eight-bit", help="Estimate from frames rounded to 8 bits as well.")
    ] = False,
    jobs: JobsOption = None,
    ray: RayOption = None,
    as_json: JsonOption = None,
) -> None:
    """Density and four contact parameters, jointly, of objects that bounce and slide (Table 2).

    gradsim reproduce contact --objects 5 --json contact.json
    """
    from gradsim.experiments.contact import experiment

    show_experiment(
        experiment(objects, seed, held_out=held_out, eight_bit=eight_bit), as_json, workers=chosen_workers(jobs, ray)
    )


@reproduce.command()
def deformable(as_json: JsonOption = None) -> None:
    """Lamé parameters of a hanging beam, and the initial velocity of a cloth (Table 3).

    gradsim reproduce deformable --json deformable.json
    """
    from gradsim.experiments.deformable import experiment

    show_experiment(experiment(), as_json)


@reproduce.command()
def touching(as_json: JsonOption = None) -> None:
    """Mass, restitution and friction of bodies that touch: own videos, closed forms, and path tracing.

    Needs the extra mitsuba.

        gradsim reproduce touching --json touching.json
    """
    from gradsim.experiments.contact_pairs import experiment

    show_experiment(experiment(), as_json)


@reproduce.command()
def arm(as_json: JsonOption = None) -> None:
    """A two-link arm: friction, damping and inertia from telemetry, beside MuJoCo's identification, and from video.

    gradsim reproduce arm --json arm.json
    """
    from gradsim.experiments.arm import experiment

    show_experiment(experiment(), as_json)


@reproduce.command()
def pendula(as_json: JsonOption = None) -> None:
    """Lengths of a simple and a double pendulum.

    gradsim reproduce pendula --json pendula.json
    """
    from gradsim.experiments.pendula import experiment

    show_experiment(experiment(), as_json)


@reproduce.command()
def coverage(
    noisy: Annotated[int, typer.Option(help="Number of videos with Gaussian noise.", min=0)] = 200,
    compressed: Annotated[int, typer.Option(help="Number of H.264 videos.", min=0)] = 20,
    seed: SeedOption = 0,
    jobs: JobsOption = None,
    ray: RayOption = None,
    as_json: JsonOption = None,
) -> None:
    """Fraction of 95 % intervals that contain the true value.

    gradsim reproduce coverage --noisy 20 --compressed 2 --json coverage.json
    """
    from gradsim.experiments.coverage import experiment

    show_experiment(experiment(noisy, compressed, seed), as_json, workers=chosen_workers(jobs, ray))


@reproduce.command("many-unknowns")
def many_unknowns(seed: SeedOption = 0, as_json: JsonOption = None) -> None:
    """Masses of 300 nodes of a soft body and velocities of 81 nodes of a cloth, from video and from 3D states.

    gradsim reproduce many-unknowns --json many-unknowns.json
    """
    from gradsim.experiments.many_unknowns import experiment

    show_experiment(experiment(seed), as_json)


@reproduce.command()
def tosses(
    data: Annotated[Path, typer.Option(help="Folder with cube_tosses.npz.", exists=True, file_okay=False)],
    splits: Annotated[int, typer.Option(help="Number of random splits; options were chosen on the first.", min=1)] = 3,
    as_json: JsonOption = None,
) -> None:
    """Friction and mass distribution of a tossed cube, from motion capture of 50 tosses that predicts 100 others.

    gradsim reproduce tosses --data recordings/ --json tosses.json
    """
    from gradsim.experiments.tosses import experiment

    show_experiment(experiment(data, splits), as_json)


@reproduce.command()
def control(
    only: Annotated[
        list[Subject] | None, typer.Option(help="Run only this task; may be repeated. All by default.")
    ] = None,
    method: Annotated[
        list[Method] | None, typer.Option(help="Run only this method; may be repeated. All by default.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds per task; all by default.", min=1)] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Use the goals that were not used during development.")
    ] = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for plots of the error over iterates.")] = None,
    as_json: JsonOption = None,
) -> None:
    """A walker, a gear and a cloth, controlled to reach goals given as one image.

    The baselines are searches from 3D states and random search. A full run takes long: `--only`, `--method` and
    `--seeds` select a part, and with `--json` an interrupted run can be resumed.

        gradsim reproduce control --only gear --method image --json gear.json --plots plots/
    """
    from gradsim.experiments.control.experiment import experiment

    if plots is not None:
        make_folder(plots)
    table = experiment(only or (), method or tuple(Method), seeds, held_out=held_out)
    show_experiment(table, as_json, lambda rows: None if plots is None else _save_plots(rows, plots))


def _save_plots(rows: Sequence[Row], folder: Path) -> None:
    """Saves a plot for each task family."""
    from gradsim.experiments.control.catalogue import TASK_FAMILIES
    from gradsim.experiments.control.experiment import curve
    from gradsim.report.convergence import save_convergence

    for family in TASK_FAMILIES:
        mine = [row for row in rows if row["task"] == family.name]
        methods = [method for method in Method if any(row["method"] == method.value for row in mine)]
        if mine:
            curves = {m.value: [curve(row) for row in mine if row["method"] == m.value] for m in methods}
            published = {m.value: family.paper(m) for m in methods if family.paper(m)}
            file = folder / f"{family.name.replace(' ', '-')}.png"
            save_convergence(file, family.name, curves, published)
            stderr.print_line(f"wrote {file}")


@reproduce.command("closed-loop")
def closed_loop(seed: SeedOption = 0, as_json: JsonOption = None) -> None:
    """A walker trained to walk to any goal, tested on goals that are not used in training.

    gradsim reproduce closed-loop --json closed-loop.json
    """
    from gradsim.experiments.control.closed_loop import experiment

    show_experiment(experiment(seed), as_json)


@reproduce.command("model-error")
def model_error(
    quick: Annotated[bool, typer.Option("--quick", help="A sixth of the errors with one seed.")] = False,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Use the seeds that were not used during development.")
    ] = False,
    scene: Annotated[list[str] | None, typer.Option(help="Only this scene: rigid, soft or cloth; repeatable.")] = None,
    right: Annotated[int | None, typer.Option(help="Number of videos with a right model.", min=0)] = None,
    jobs: JobsOption = None,
    ray: RayOption = None,
    as_json: JsonOption = None,
) -> None:
    """Scenes that are slightly wrong, and videos of something else: is a wrong answer called certain?

    Every video is fitted with everything in the scene declared exact, and with camera, start, light and shape declared
    rough. With `--json` an interrupted run can be resumed.

        gradsim reproduce model-error --quick --json model-error.json
    """
    from gradsim.experiments.model_error.experiment import experiment

    table = experiment(quick=quick, held_out=held_out, scenes=tuple(scene or ()), right=right)
    show_experiment(table, as_json, workers=chosen_workers(jobs, ray))


@reproduce.command()
def footage(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with real videos and known.yaml.", exists=True, file_okay=False),
    ] = None,
    synthetic: Annotated[str | None, typer.Option(help="Seeds of synthetic videos, start:stop, such as 0:30.")] = None,
    traps: Annotated[bool, typer.Option("--traps", help="Videos that must be refused.")] = False,
    jobs: JobsOption = None,
    ray: RayOption = None,
    as_json: JsonOption = None,
) -> None:
    """Gravity, restitution, lengths and friction from real and from synthetic videos, with one known length each.

    Seeds 0 to 29 were used during development, 30 to 59 in a first table, 60 to 89 once, after it.

        gradsim reproduce footage --data recordings/ --json footage.json

        gradsim reproduce footage --synthetic 30:60 --traps --jobs 2 --json footage.json
    """
    from gradsim.experiments.footage import experiment
    from gradsim.experiments.footage_videos import TRAPS

    if data is None and synthetic is None and not traps:
        raise InvalidInput("footage", "no videos", "give --data DIR, --synthetic 0:30 or --traps")
    start, stop = (0, 0) if synthetic is None else parse_frames(synthetic)
    seeds = range(start, start + 30 if stop is None else stop)
    show_experiment(
        experiment(data, synthetic=seeds, traps=tuple(TRAPS) if traps else ()),
        as_json,
        workers=chosen_workers(jobs, ray),
    )


@reproduce.command()
def modulus(
    bar: Annotated[bool, typer.Option("--bar", help="A hanging bar with three loads on three meshes.")] = False,
    jobs: JobsOption = None,
    ray: RayOption = None,
    as_json: JsonOption = None,
) -> None:
    """Young's modulus from video, by element and mesh: a swinging beam, or a hanging bar.

    The recorded bars are computed by another finite-element code on finer meshes.

        gradsim reproduce modulus --json modulus.json

        gradsim reproduce modulus --bar --json bar.json
    """
    from gradsim.experiments.modulus import bar_experiment, beam_experiment

    show_experiment(bar_experiment() if bar else beam_experiment(), as_json, workers=chosen_workers(jobs, ray))


def show_experiment(
    experiment: Experiment,
    file: Path | None,
    plot: Callable[[Sequence[Row]], None] = lambda rows: None,
    workers: Workers = Workers(),
) -> None:
    """Prints the table while it is filled, then the claims. Exits with code 1 if a claim fails."""
    _, ok = fill_table(experiment, file, workers, plot)
    if not ok:
        raise typer.Exit(FAILED)


def fill_table(
    experiment: Experiment,
    file: Path | None,
    workers: Workers = Workers(),
    plot: Callable[[Sequence[Row]], None] = lambda rows: None,
) -> tuple[list[Row], bool]:
    """Prints the table while it is filled, then the claims. Returns the rows, and whether all claims hold."""
    console.print(f"[bold]{experiment.title}[/]", soft_wrap=True)
    if experiment.paper:
        console.print_line(f"paper: {experiment.paper}")
    console.print_line("  ".join(column.head() for column in experiment.columns))
    rows: list[Row] = []
    try:
        with stderr.status("compiling kernels (first use only)") as status:
            for row in run_experiment(experiment, file, status.update, workers):
                rows.append(row)
                line = "  ".join(column.cell(row) for column in experiment.columns)
                console.print_line(line.rstrip())
    except KeyboardInterrupt:
        resume = (
            f"{len(rows)} rows are saved in {file}; run the same command to resume"
            if file
            else "use --json FILE to save rows and resume later"
        )
        stderr.print_line(f"interrupted: {resume}")
        raise typer.Exit(INTERRUPTED) from None
    plot(rows)
    for text in experiment.summary(rows):
        console.print_line(text)
    claims = experiment.claims(rows)
    for claim in claims:
        mark = "[green]ok  [/]" if claim.ok else "[bold red]FAIL[/]"
        console.print(f"{mark} {claim}", highlight=False, soft_wrap=True)
    return rows, all(claim.ok for claim in claims)
