"""Distances between rendered and observed videos."""
