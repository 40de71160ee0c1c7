"""Observations of a motion, one file per kind, and the residuals of a simulated motion with respect to them."""
