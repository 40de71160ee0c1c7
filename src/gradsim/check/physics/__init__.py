"""Physics against known answers: `gradsim check physics`."""

from __future__ import annotations

from collections.abc import Callable

from gradsim.check.fact import Fact
from gradsim.check.physics import conservation, elements, fluids, inertia, motion, pendula, rigid, statics, touching
from gradsim.check.physics.measure import Check

CHECKS: tuple[Check, ...] = (
    *elements.CHECKS,
    *conservation.CHECKS,
    *statics.CHECKS,
    *motion.CHECKS,
    *inertia.CHECKS,
    *rigid.CHECKS,
    *touching.CHECKS,
    *pendula.CHECKS,
    *fluids.CHECKS,
)


def run_checks(progress: Callable[[str], object] | None = None) -> list[Fact]:
    """All facts, in the order of `CHECKS`; `progress` is told the name of each check before it runs."""
    facts: list[Fact] = []
    for check in CHECKS:
        if progress is not None:
            progress(check.name)
        facts += check.run()
    return facts
