"""The application: its commands, and the exit codes of errors."""

from __future__ import annotations

import importlib.util
import io
import logging
import os
import sys
import warnings
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape

from gradsim import __version__
from gradsim.allocator import keep_freed_memory
from gradsim.cli.calibrate import calibrate
from gradsim.cli.check import check
from gradsim.cli.console import OutputClosed, console, stderr
from gradsim.cli.control import control
from gradsim.cli.dataset import dataset
from gradsim.cli.demo import demo
from gradsim.cli.estimate import estimate
from gradsim.cli.exit_codes import INTERRUPTED, INVALID_INPUT, OUTPUT_CLOSED
from gradsim.cli.identify import identify
from gradsim.cli.landscape import landscape
from gradsim.cli.new import new
from gradsim.cli.prepare import prepare
from gradsim.cli.reproduce import reproduce
from gradsim.cli.simulate import simulate
from gradsim.cli.view import view
from gradsim.cli.warm_up import warm_up
from gradsim.native.loading import is_compiling
from gradsim.scene.errors import GradsimError, InvalidInput
from gradsim.scene.files.load import set_default_folder

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Differentiable simulation from pixels to physics and back. Start with `gradsim demo`.",
    epilog="Exit codes: 0 success, 1 a check or claim failed, 2 invalid input, 130 interrupted, 141 output closed.",
)
for command in (new, prepare, calibrate, simulate, estimate, identify, landscape, control, view, demo, warm_up):
    app.command()(command)
app.add_typer(check, name="check")
app.add_typer(reproduce, name="reproduce")
app.add_typer(dataset, name="dataset")


class LogLevel(str, Enum):
    """Levels of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


@app.callback(invoke_without_command=True)
def start(
    show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    modules: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            metavar="FILE.py",
            help="Run a Python file first that declares forces or integrators of your own; scene files may then name "
            "them. The file is executed: import only what you trust. May be repeated.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder that holds the meshes and arrays that scene files name; by default that of the scene file.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    log: Annotated[
        LogLevel | None, typer.Option(help="Print the log of gradsim to the standard error stream, from this level on.")
    ] = None,
) -> None:
    if log is not None:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("gradsim").setLevel(log.value.upper())
    if show:
        console.print(__version__)
        raise typer.Exit
    set_default_folder(folder)
    for module in modules or ():
        _import_file(module)


def _import_file(path: Path) -> None:
    """Executes a Python file as a module of its own."""
    if path.suffix != ".py" or not path.is_file():
        raise InvalidInput("--import", str(path), "must be an existing .py file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # Warp reads the source of its functions through their module
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InvalidInput("--import", str(path), f"is not Python ({error})") from None


def main() -> None:
    """Entry point. Invalid input prints one paragraph and exits with code 2, Ctrl-C with code 130."""
    warnings.showwarning = _print_warning
    _print_any_name()
    keep_freed_memory()
    try:
        code = app(standalone_mode=False)
    except OutputClosed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left at exit
        sys.exit(OUTPUT_CLOSED)
    except typer.Abort:
        stderr.print("interrupted")
        _end(INTERRUPTED)
    except GradsimError as error:
        sys.exit(_print_error(str(error)))
    except OSError as error:
        sys.exit(_print_error(f"{error.filename or 'file'}: {error.strerror or error}"))
    except MemoryError as error:
        sys.exit(_print_error(f"not enough memory: {str(error) or 'use fewer or smaller frames, or fewer bodies'}"))
    except Exception as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):  # of Torch
            sys.exit(_print_error("not enough memory: use fewer or smaller frames, or fewer bodies"))
        if not hasattr(error, "exit_code") or not hasattr(error, "format_message"):
            raise
        sys.exit(_print_error(f"{error.format_message()} Try --help."))  # a missing or malformed option
    _end(code if isinstance(code, int) else 0)


def _end(code: int) -> NoReturn:
    """Ends the process, without waiting for a compiler that was left alone by Ctrl-C."""
    if is_compiling():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    sys.exit(code)


def _print_any_name() -> None:
    """Lets names of files be printed that are not valid text, and signs that the output's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_error(text: str) -> int:
    paragraph = " ".join(text.split())
    stderr.print(f"[bold red]error:[/] {escape(paragraph)}", highlight=False, soft_wrap=True)
    return INVALID_INPUT


def _print_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    stderr.print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True)
