"""Nuisances: ways in which a scene or a video may be slightly wrong, each with a prior."""
