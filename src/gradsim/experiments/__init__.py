"""Experiments as declarations: a scene, what is unknown in it, and how long it runs."""
