"""The command line: gradsim simulate | estimate | identify | landscape | control | demo | reproduce | check."""

from gradsim.cli.app import app, main

__all__ = ["app", "main"]
