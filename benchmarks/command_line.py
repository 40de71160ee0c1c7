"""The command line: python -m benchmarks beams | cloth | rigid | worlds | physics | calls | render | ... | all."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from benchmarks import (
    answers,
    beams,
    calls,
    chain,
    cloth,
    footage,
    implicit,
    memory,
    piles,
    quick,
    render,
    render_report,
    rigid,
    scaling,
    smoothed,
    stacks,
    suite,
    viewer,
    worlds,
)
from benchmarks.render_scenes import SIZES as RENDER_SIZES
from benchmarks.report import Progress, Requirement, Section
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import GradsimError, InvalidInput

REQUIREMENT_MISSED, INVALID_INPUT, INTERRUPTED = 1, 2, 130

console = Console()
error_console = Console(stderr=True)  # progress and errors

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure gradsim's speed and memory, compared with peers timed in the same run.",
    epilog=f"Exit codes: 0 all requirements met, {REQUIREMENT_MISSED} a requirement missed, {INVALID_INPUT} invalid "
    f"input, {INTERRUPTED} interrupted.",
)

JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Also write the results to this file; - for the standard output.")
]
PeerOption = Annotated[bool, typer.Option(help="Also time Newton or DEODR, if installed.")]
SecondsOption = Annotated[float, typer.Option(help="Time spent on each number [s].", min=0.0)]
StepsOption = Annotated[int | None, typer.Option(help="Steps of a rollout; chosen by the scene if omitted.", min=1)]

Measure = Callable[[Progress], Section]


@app.callback()
def callback(
    context: typer.Context,
    check_quickly: Annotated[
        bool, typer.Option("--quick", help="Check for performance regressions in half a minute.")
    ] = False,
    seconds: SecondsOption = 0.3,
    as_json: JsonOption = None,
) -> None:
    """Measure gradsim's speed and memory, compared with peers timed in the same run."""
    if context.invoked_subcommand is not None:
        return
    if not check_quickly:
        console.print(context.get_help())
        return
    _run({"quick": lambda progress: quick.section(quick.measure_quick(seconds=seconds, progress=progress))}, as_json)


@app.command("beams")
def run_beams(
    as_json: JsonOption = None,
    size: Annotated[list[int] | None, typer.Option(help="Tetrahedra, may be repeated; all sizes if omitted.")] = None,
    steps: StepsOption = None,
    peer: PeerOption = True,
    seconds: SecondsOption = 1.0,
) -> None:
    """Steps a second of elastic beams, forward and with gradients, compared with Newton and the paper."""
    _run(_beams(tuple(size or beams.SIZES), steps=steps, peer=peer, seconds=seconds), as_json)


@app.command("smoothed")
def run_smoothed(
    as_json: JsonOption = None,
    size: Annotated[list[int] | None, typer.Option(help="Tetrahedra, may be repeated; 1000 and 5000.")] = None,
    peer: PeerOption = True,
    seconds: SecondsOption = 1.0,
) -> None:
    """Steps a second of smoothed tetrahedra, compared with constant-strain ones and Newton."""
    options: dict[str, Any] = {"peer": peer, "seconds": seconds, "sizes": tuple(size or smoothed.SIZES)}
    measured = {"smoothed": lambda progress: smoothed.section(smoothed.measure_smoothed(progress=progress, **options))}
    _run(measured, as_json)


@app.command("cloth")
def run_cloth(
    as_json: JsonOption = None,
    size: Annotated[list[int] | None, typer.Option(help="Triangles, may be repeated; all sizes if omitted.")] = None,
    steps: StepsOption = None,
    peer: PeerOption = True,
    seconds: SecondsOption = 1.0,
) -> None:
    """Steps a second of cloth, forward and with gradients, compared with Newton."""
    _run(_cloth(tuple(size or cloth.SIZES), steps=steps, peer=peer, seconds=seconds), as_json)


@app.command("rigid")
def run_rigid(
    as_json: JsonOption = None,
    batch: Annotated[list[int] | None, typer.Option(help="Worlds of one cube, may be repeated; 1, 64, 1024.")] = None,
    steps: StepsOption = None,
    peer: PeerOption = True,
    seconds: SecondsOption = 1.0,
) -> None:
    """Steps a second of rigid cubes on a plane, forward and with gradients, compared with Newton."""
    _run(_rigid(tuple(batch or rigid.BATCHES), steps=steps, peer=peer, seconds=seconds), as_json)


@app.command("stacks")
def run_stacks(as_json: JsonOption = None, peer: PeerOption = True, seconds: SecondsOption = 1.0) -> None:
    """Steps a second of a box that slides on a box, forward and with gradients, compared with Newton."""
    options: dict[str, Any] = {"peer": peer, "seconds": seconds}
    _run({"stacks": lambda progress: stacks.section(stacks.measure_stacks(progress=progress, **options))}, as_json)


@app.command("implicit")
def run_implicit(
    as_json: JsonOption = None,
    shape: Annotated[list[str] | None, typer.Option(help="Beams, may be repeated: stubby, slender.")] = None,
    stiffness: Annotated[list[float] | None, typer.Option(help="Young's modulus [Pa], may be repeated.")] = None,
) -> None:
    """Implicit midpoint against velocity Verlet on driven beams, and its error of a vibration."""

    def measure(progress: Progress) -> Section:
        shapes, moduli = shape or tuple(implicit.SHAPES), stiffness or implicit.STIFFNESSES
        return implicit.section(implicit.measure_implicit(shapes=shapes, stiffnesses=moduli, progress=progress))

    _run({"implicit": measure}, as_json)


@app.command("piles")
def run_piles(
    as_json: JsonOption = None,
    bodies: Annotated[list[int] | None, typer.Option(help="Number of bodies, may be repeated; 30 to 1,000.")] = None,
    peer: PeerOption = True,
    seconds: SecondsOption = 1.0,
) -> None:
    """Time of a step of many bodies that rest on each other, without gradients, compared with MuJoCo."""
    options: dict[str, Any] = {"peer": peer, "seconds": seconds, "counts": tuple(bodies or piles.COUNTS)}
    _run({"piles": lambda progress: piles.section(piles.measure_piles(progress=progress, **options))}, as_json)


@app.command("worlds")
def run_worlds(as_json: JsonOption = None, steps: StepsOption = None, seconds: SecondsOption = 1.0) -> None:
    """Batches of 16 worlds on one thread and on two, compared with two processes."""
    _run(_worlds(steps=steps, seconds=seconds), as_json)


@app.command("physics")
def run_physics(
    as_json: JsonOption = None, steps: StepsOption = None, peer: PeerOption = True, seconds: SecondsOption = 1.0
) -> None:
    """The benchmarks beams, cloth, rigid and worlds, one after another."""
    options: dict[str, Any] = {"steps": steps, "seconds": seconds}
    _run(
        {
            **_beams(beams.SIZES, peer=peer, **options),
            **_cloth(cloth.SIZES, peer=peer, **options),
            **_rigid(rigid.BATCHES, peer=peer, **options),
            **_worlds(**options),
        },
        as_json,
    )


@app.command("calls")
def run_calls(
    as_json: JsonOption = None,
    count: Annotated[int, typer.Option("--calls", help="Calls of each scene.", min=1)] = calls.CALLS,
) -> None:
    """Milliseconds that a simulate() call with new parameters takes beyond its kernels, on small scenes."""
    _run({"calls": lambda progress: calls.section(calls.measure_calls(calls=count, progress=progress))}, as_json)


@app.command("render")
def run_render(
    as_json: JsonOption = None,
    size: Annotated[list[int] | None, typer.Option(help="Faces, may be repeated; all sizes if omitted.")] = None,
    pixels: Annotated[
        list[int] | None, typer.Option(help="Height and width of the images, may be repeated; 64, 128, 256.")
    ] = None,
    peer: PeerOption = True,
    seconds: SecondsOption = 0.5,
) -> None:
    """Milliseconds a frame of Exact and SoftRas, forward and with gradients, compared with DEODR and plain kernels."""

    def measure(progress: Progress) -> Section:
        sizes, widths = tuple(size or RENDER_SIZES), tuple(pixels or render.PIXELS)
        results = render.measure_render(sizes, pixels=widths, peer=peer, seconds=seconds, progress=progress)
        return render_report.section(results)

    _run({"render": measure}, as_json)


@app.command("chain")
def run_chain(as_json: JsonOption = None) -> None:
    """Seconds from a video to the mass and to five contact parameters, and from an image to the gear's control."""
    _run({"chain": lambda progress: chain.section(chain.measure_chain(progress=progress))}, as_json)


@app.command("answers")
def run_answers(
    as_json: JsonOption = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of real recordings with known.yaml.", exists=True, file_okay=False)
    ] = None,
    only: Annotated[str, typer.Option(help="Part of the names of the questions that are asked.")] = "",
    peer: PeerOption = True,
) -> None:
    """Seconds, memory and accuracy of whole estimates, compared with CMA-ES and Adam on the same videos."""

    def measure(progress: Progress) -> Section:
        return answers.section(answers.measure_answers(data, peers=peer, only=only, progress=progress))

    _run({"answers": measure}, as_json)


@app.command("memory")
def run_memory(
    as_json: JsonOption = None,
    steps: Annotated[list[int] | None, typer.Option(help="Steps of a rollout, may be repeated; 100 to 10,000.")] = None,
    with_chain: Annotated[bool, typer.Option("--chain/--no-chain", help="Also measure an estimation.")] = True,
) -> None:
    """Bytes stored for the backward pass, and growth of a process over rollouts with gradients."""

    def measure(progress: Progress) -> Section:
        counts = tuple(steps or memory.STEPS)
        return memory.section(memory.measure_memory(steps=counts, chain=with_chain, progress=progress))

    _run({"memory": measure}, as_json)


@app.command("footage")
def run_footage(
    as_json: JsonOption = None,
    video: Annotated[
        Path | None, typer.Option(help="4K video of one moving object; a pendulum is written if it does not exist.")
    ] = None,
    frames: Annotated[int, typer.Option(help="Frames of a video that is written.", min=60)] = footage.FRAMES,
) -> None:
    """Seconds and memory of preparing 30 s of 4K video at 60 fps; not part of `all`."""

    def measure(progress: Progress) -> Section:
        return footage.section(footage.measure_prepare(video, frames=frames, progress=progress))

    _run({"footage": measure}, as_json)


@app.command("viewer")
def run_viewer(as_json: JsonOption = None) -> None:
    """Frames per second of a scrub through 20,000 faces in the viewer, in headless chromium; not part of `all`."""
    _run({"viewer": lambda progress: viewer.section(viewer.measure_scrubs(progress))}, as_json)


@app.command("scaling")
def run_scaling(as_json: JsonOption = None, seconds: SecondsOption = 0.5) -> None:
    """Growth of the cost with elements, pixels, frames, worlds and unknowns."""

    def measure(progress: Progress) -> Section:
        return scaling.section(scaling.measure_scaling(seconds=seconds, progress=progress))

    _run({"scaling": measure}, as_json)


@app.command("all")
def run_all(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.md and results.json.")] = Path(
        "benchmarks"
    ),
    peer: PeerOption = True,
) -> None:
    """All benchmarks in one run, 10 to 25 minutes on an otherwise idle machine."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("--out", str(out), f"must be a folder that can be created ({error.strerror})") from error
    requirements: list[Requirement] = []
    with error_console.status("compiling kernels (first use only)") as status:
        for section in suite.run_all(out, peer=peer, progress=status.update):
            console.print(section.report)
            requirements += section.requirements
    _print_requirements(requirements)
    console.print(f"written: {out / 'results.md'}", highlight=False, soft_wrap=True)
    _exit_on_miss(requirements)


def _beams(sizes: tuple[int, ...], **options: Any) -> dict[str, Measure]:
    return {"beams": lambda progress: beams.section(beams.measure_beams(sizes, progress=progress, **options))}


def _cloth(sizes: tuple[int, ...], **options: Any) -> dict[str, Measure]:
    return {"cloth": lambda progress: cloth.section(cloth.measure_cloth(sizes, progress=progress, **options))}


def _rigid(batches: tuple[int, ...], **options: Any) -> dict[str, Measure]:
    return {"rigid": lambda progress: rigid.section(rigid.measure_rigid(batches, progress=progress, **options))}


def _worlds(**options: Any) -> dict[str, Measure]:
    return {"worlds": lambda progress: worlds.section(worlds.measure_worlds(progress=progress, **options))}


def _run(benchmarks: Mapping[str, Measure], as_json: Path | None) -> None:
    """Runs benchmarks, prints their sections, writes JSON, and exits with 1 if a requirement is missed."""
    to_stdout = as_json is not None and str(as_json) == "-"
    output = error_console if to_stdout else console
    sections: dict[str, Section] = {}
    with error_console.status("compiling kernels (first use only)") as status:
        for name, measure in benchmarks.items():
            sections[name] = measure(status.update)
            output.print(sections[name].report)
    requirements = [requirement for section in sections.values() for requirement in section.requirements]
    _print_requirements(requirements, output)
    if as_json is not None:
        text = json.dumps({name: section.as_dict() for name, section in sections.items()}, indent=2) + "\n"
        if to_stdout:
            typer.echo(text, nl=False)
        else:
            write_atomically(as_json, lambda target: target.write_text(text), InvalidInput)
    _exit_on_miss(requirements)


def _print_requirements(requirements: Iterable[Requirement], output: Console = console) -> None:
    for requirement in requirements:
        style = "green" if requirement.met else "bold red"
        output.print(str(requirement), style=style, highlight=False, markup=False, soft_wrap=True)


def _exit_on_miss(requirements: Iterable[Requirement]) -> None:
    if not all(requirement.met for requirement in requirements):
        raise typer.Exit(REQUIREMENT_MISSED)


def main() -> None:
    """Runs the command line; invalid input becomes one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        error_console.print("interrupted")
        sys.exit(INTERRUPTED)
    except GradsimError as error:
        sys.exit(_print_error(str(error)))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        sys.exit(_print_error(f"{error.format_message()} Try --help."))  # a missing or malformed option
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(text: str) -> int:
    error_console.print(f"[bold red]error:[/] {escape(' '.join(text.split()))}", highlight=False, soft_wrap=True)
    return INVALID_INPUT
