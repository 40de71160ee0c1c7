"""gradsim reproduce: the experiments of the paper and further claims, as tables that are filled row by row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.console import stderr
from gradsim.cli.experiment_table import JsonOption, SeedOption, show_experiment
from gradsim.cli.files import make_folder
from gradsim.cli.options import JobsOption, RayOption, chosen_workers, parse_frames
from gradsim.cli.reproduce_paper import baselines, paper
from gradsim.experiments.control.catalogue import Subject
from gradsim.experiments.control.task import Method
from gradsim.experiments.experiment import Row
from gradsim.scene.errors import InvalidInput

reproduce = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Repeat the experiments of the paper. Tables are filled row by row; exits with code 1 if a claim fails.",
)


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


reproduce.command()(baselines)
reproduce.command()(paper)


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

    Seeds 0 to 29 were used during development; others were run once, after it.

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
