"""The paper's comparison of methods: `gradsim reproduce baselines`, and all tables on one page, `reproduce paper`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradsim.cli.console import console, stderr
from gradsim.cli.exit_codes import FAILED, INTERRUPTED
from gradsim.cli.experiment_table import JsonOption, SeedOption, fill_table, show_experiment
from gradsim.cli.files import make_folder
from gradsim.cli.options import JobsOption, RayOption, chosen_workers
from gradsim.experiments.experiment import Row
from gradsim.parallel import Workers
from gradsim.scene.errors import InvalidInput

if TYPE_CHECKING:
    from gradsim.experiments.baselines.learning import Training

TRAINING = Path("out/training")  # default folder of the networks


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
