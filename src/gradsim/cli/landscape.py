"""gradsim landscape: the residual between a video and a scene, over one or two unknowns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.console import announce_compilation, result_console
from gradsim.cli.files import make_folder, write_json
from gradsim.cli.inputs import (
    CropOption,
    FpsOption,
    FramesOption,
    SceneArgument,
    SizeOption,
    VideoArgument,
    load_inputs,
)
from gradsim.cli.options import (
    Dtype,
    DtypeOption,
    JsonOption,
    SetOption,
    SubstepsOption,
    ThreadsOption,
    parse_values,
    set_threads,
)
from gradsim.cli.progress import ProgressBar
from gradsim.fit.landscape import Landscape


def landscape(
    scene: SceneArgument,
    video: VideoArgument,
    over: Annotated[list[str], typer.Option("--over", help="An unknown, such as cube.density; one or two of them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The plot: .png, .svg or .pdf.")] = Path("landscape.png"),
    points: Annotated[
        int | None, typer.Option(help="Values per unknown; by default 61 for one unknown, 25 for two.", min=2)
    ] = None,
    values: SetOption = None,
    substeps: SubstepsOption = None,
    frames: FramesOption = None,
    crop: CropOption = None,
    size: SizeOption = None,
    fps: FpsOption = None,
    dtype: DtypeOption = Dtype.FLOAT64,
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Plot the mean squared residual between a scene and a video, over one or two unknowns.

    The other unknowns keep their guesses, or the values given by `--set`.

        gradsim landscape scene.yaml video.mp4 --over cube.mass -o mass.png

        gradsim landscape scene.yaml video.mp4 --over ground.ke --over ground.mu --set cube.mass=2.7 --size 64x64
    """
    from gradsim.fit.landscape import landscape as evaluate_landscape
    from gradsim.report.landscape import check_plot_format, save_landscape

    set_threads(threads)
    check_plot_format(out)
    inputs = load_inputs(scene, video, frames=frames, crop=crop, size=size, fps=fps, dtype=dtype)
    announce_compilation(dtype.torch)
    count = len(inputs.video)
    with ProgressBar("evaluating", count) as bar:
        result = evaluate_landscape(
            inputs.file.scene,
            inputs.video,
            over,
            points=points,
            values=parse_values(values or [], inputs.file.scene),
            fps=inputs.fps,
            substeps=substeps or inputs.substeps,
            integrator=inputs.file.time.integrator,
            dtype=dtype.torch,
            progress=lambda fraction: bar.update(count, "evaluating", f"{fraction:.0%} of the worlds"),
        )
    make_folder(out.parent)
    save_landscape(result, out)
    _print_minimum(result, out, as_json)


def _print_minimum(result: Landscape, out: Path, as_json: Path | None) -> None:
    low = ", ".join(f"{name} = {value:.4g}" for name, value in result.minimum.items())
    output = result_console(as_json)
    text = f"lowest mean squared residual {float(result.mean_square.min()):.3g} at {low}"
    output.print_line(text)
    output.print_line(f"plot: {out}")
    if as_json is not None:
        write_json(as_json, result.as_dict())
