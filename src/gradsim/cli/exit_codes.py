"""Exit codes of the commands."""

FAILED = 1  # a check or a claim failed
INVALID_INPUT = 2
INTERRUPTED = 130  # by Ctrl-C, as shells report it
OUTPUT_CLOSED = 141  # by `| head`, as shells report it
