"""Where the commands print: results to the standard output, progress and errors to the standard error stream."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console

from gradsim.bridge import kernels_cached


class OutputClosed(Exception):
    """Nobody reads the output any more, as after `| head`."""


class CommandConsole(Console):
    """A console that prints the names of files as they are, and whose reader may leave."""

    def print_line(self, text: str) -> None:
        """Prints a line without markup, such as one with the name of a file; only a terminal wraps it."""
        self.print(text, highlight=False, soft_wrap=True, markup=False)

    def on_broken_pipe(self) -> None:
        """Ends the command."""
        raise OutputClosed


console = CommandConsole(emoji=False)
stderr = CommandConsole(stderr=True, emoji=False)


def result_console(as_json: Path | None) -> CommandConsole:
    """Returns the console for results: the standard error stream if the standard output is reserved for JSON."""
    return stderr if as_json is not None and str(as_json) == "-" else console


def announce_compilation(dtype: torch.dtype = torch.float64) -> None:
    """Prints that kernels will be compiled, if the kernel cache contains none of this precision."""
    if not kernels_cached(dtype):
        stderr.print("compiling kernels: the first run on this machine takes longer", soft_wrap=True)
