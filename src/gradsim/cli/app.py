"""The application: its commands, and what becomes of errors."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from rich.markup import escape

from gradsim import __version__
from gradsim.cli.check import check
from gradsim.cli.control import control
from gradsim.cli.demo import demo
from gradsim.cli.estimate import estimate
from gradsim.cli.landscape import landscape
from gradsim.cli.reproduce import reproduce
from gradsim.cli.shared import aside, console
from gradsim.cli.simulate import simulate
from gradsim.scene.errors import GradsimError

BAD_INPUT, INTERRUPTED = 2, 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Differentiable simulation from pixels to physics and back.",
    epilog="Exit codes: 0 done, 1 a check missed, 2 input that cannot be used, 130 interrupted.",
)
for command in (simulate, estimate, landscape, control, demo):
    app.command()(command)
app.add_typer(check, name="check")
app.add_typer(reproduce, name="reproduce")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if show:
        console.print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: errors of the user's input become one paragraph and exit code 2, Ctrl-C exit code 130."""
    warnings.showwarning = _say_warning
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        aside.print("interrupted")
        sys.exit(INTERRUPTED)
    except GradsimError as error:
        sys.exit(_failed(str(error)))
    except OSError as error:
        sys.exit(_failed(f"{error.filename or 'file'}: {error.strerror or error}"))
    except Exception as error:
        if not hasattr(error, "exit_code") or not hasattr(error, "format_message"):
            raise
        sys.exit(_failed(f"{error.format_message()} Try --help."))  # an option that is missing or malformed
    sys.exit(code if isinstance(code, int) else 0)


def _failed(text: str) -> int:
    paragraph = " ".join(text.split())
    aside.print(f"[bold red]error:[/] {escape(paragraph)}", highlight=False, soft_wrap=True)
    return BAD_INPUT


def _say_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    aside.print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True)
