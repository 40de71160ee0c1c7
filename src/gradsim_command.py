"""Entry point of the command `gradsim`, outside the package: importing that takes seconds, in which Ctrl-C may come."""

import signal


def main() -> None:
    """Imports the command line and runs it. Ctrl-C during the import ends the process at once, without a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.SIG_IGN:  # of a job in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gradsim.cli import main as run

    signal.signal(signal.SIGINT, handler)
    run()
