"""gradsim warm-up: compiles the kernels of common scenes before they are needed."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from gradsim.cli.console import console
from gradsim.cli.options import MOST_THREADS, Dtype, DtypeOption
from gradsim.cli.progress import ProgressBar
from gradsim.datasets.compilation import COMMON, compile_kernels
from gradsim.parallel import Workers, run_tasks


def warm_up(
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=MOST_THREADS, help="Number of processes.")] = os.cpu_count()
    or 1,
    dtype: DtypeOption = Dtype.FLOAT64,
) -> None:
    """Compile the kernels of common scenes, so that no later command waits for it.

    Kernels are compiled at first use and kept in the kernel cache. This command compiles those of rigid bodies with and
    without contact between them, soft bodies, cloth, articulated bodies, and of the default renderer, forward and
    backward, on all cores.

    Example: `gradsim warm-up --jobs 2`
    """
    begin = time.perf_counter()
    with ProgressBar("compiling", len(COMMON), unit="modules") as bar:
        workers = Workers(jobs)
        compiling = run_tasks(lambda name: compile_kernels(name, dtype.torch), list(COMMON), workers)
        for done, (name, _) in enumerate(compiling, 1):
            bar.update(done, "compiling", name)
    console.print(f"kernels of {len(COMMON)} kinds are in the cache, {time.perf_counter() - begin:.1f} s")
