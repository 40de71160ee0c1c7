"""The command line: gradsim simulate | estimate | landscape | demo | reproduce | check."""

from gradsim.cli.app import app, main

__all__ = ["app", "main"]
