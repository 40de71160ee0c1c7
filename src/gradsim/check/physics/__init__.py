"""Physics against known answers: `gradsim check physics`."""

from __future__ import annotations

from collections.abc import Callable

from gradsim.check.fact import Fact
from gradsim.check.physics import elements
from gradsim.check.physics.measure import Check

CHECKS: tuple[Check, ...] = (*elements.CHECKS,)
