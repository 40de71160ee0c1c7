"""gradsim landscape: the difference between a video and a scene, over one or two unknowns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.progress import Bar
from gradsim.cli.seen import CropOption, FpsOption, FramesOption, SeenArgument, UnknownsArgument, load_seen
from gradsim.cli.shared import (
    Dtype,
    DtypeOption,
    JsonOption,
    SetOption,
    SizeOption,
    SubstepsOption,
    ThreadsOption,
    announce_kernels,
    make_folder,
    parsed_values,
    results,
    set_threads,
    steps_at,
    write_json,
)


def landscape(
    scene: UnknownsArgument,
    video: SeenArgument,
    over: Annotated[list[str], typer.Option("--over", help="An unknown, such as cube.density; once or twice.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: .png, .svg or .pdf.")] = Path("landscape.png"),
    points: Annotated[int | None, typer.Option(help="Values of each; 61 for one, 25 for two.", min=2)] = None,
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
    """Plot how far a scene is from a video, over one or two unknowns.

    The other unknowns keep their guesses, or what you `--set`.

        gradsim landscape scene.yaml video.mp4 --over cube.mass -o mass.png

        gradsim landscape scene.yaml video.mp4 --over ground.ke --over ground.mu --set cube.mass=2.7 --size 64x64
    """
    from gradsim.fit.landscape import landscape as surveyed
    from gradsim.report.landscape import check_picture, save_landscape

    set_threads(threads)
    check_picture(out)
    file, seen, rate = load_seen(scene, video, frames=frames, crop=crop, size=size, fps=fps, dtype=dtype)
    announce_kernels(dtype)
    with Bar("worlds", len(seen)) as bar:
        found = surveyed(
            file.scene,
            seen,
            over,
            points=points,
            values=parsed_values(values or []),
            fps=rate,
            substeps=substeps or steps_at(file.time, rate),
            integrator=file.time.integrator,
            dtype=dtype.torch,
            progress=lambda share: bar.moved(len(seen), "worlds", f"{share:.0%}"),
        )
    make_folder(out.parent)
    save_landscape(found, out)
    low = ", ".join(f"{name} = {value:.4g}" for name, value in found.minimum.items())
    shown = results(as_json)
    shown.print(f"least mean square {float(found.mean_square.min()):.3g} at {low}", highlight=False, soft_wrap=True)
    shown.print(f"written: {out}", highlight=False, soft_wrap=True)
    if as_json is not None:
        write_json(as_json, found.as_dict())
