"""Fixtures of several test files."""

import pytest

import gradsim as gs


@pytest.fixture
def forget_declarations(monkeypatch):
    """Removes the kinds that a test declares: a scene file uses the newest declaration of a name."""
    for base in (gs.Force, gs.Integrator):
        monkeypatch.setattr(base, "kinds", list(base.kinds))
