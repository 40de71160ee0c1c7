"""Gradients, physics and rendering against references, on the user's machine: `gradsim check`."""
