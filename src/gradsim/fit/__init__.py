"""Estimation and control: unknowns, optimizers, searches, uncertainty."""
