"""Fixtures of several test files."""

import signal

import pytest

import gradsim as gs

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts jobs in the background so; tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def forget_declarations(monkeypatch):
    """Removes the kinds that a test declares: a scene file uses the newest declaration of a name."""
    for base in (gs.Force, gs.Integrator):
        monkeypatch.setattr(base, "kinds", list(base.kinds))
