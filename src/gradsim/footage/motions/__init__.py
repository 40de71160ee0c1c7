"""Kinds of motion: which one a measured path shows, and the draft of a scene for it."""
