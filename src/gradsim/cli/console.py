"""Where the commands print: results to the standard output, progress and errors to the standard error stream."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console

from gradsim.bridge import kernels_cached

console = Console()
stderr = Console(stderr=True)


def result_console(as_json: Path | None) -> Console:
    """Returns the console for results: the standard error stream if the standard output is reserved for JSON."""
    return stderr if as_json is not None and str(as_json) == "-" else console


def announce_compilation(dtype: torch.dtype = torch.float64) -> None:
    """Prints that kernels will be compiled, if the kernel cache contains none of this precision."""
    if not kernels_cached(dtype):
        stderr.print("compiling kernels: the first run on this machine takes longer", soft_wrap=True)
