"""Experiments of the paper as declarations: a scene, its unknowns, the protocol, and the paper's numbers."""
