"""Checks a user can run on their machine: gradients against finite differences, physics against known answers."""
