"""Physics against known solutions: `gradsim check physics`."""

from __future__ import annotations

from gradsim.check.physics import (
    articulated,
    balls,
    conservation,
    contact,
    drag,
    dynamics,
    elements,
    fluids,
    friction,
    inertia,
    node_contact,
    pairs,
    pendula,
    rigid,
    stacks,
    statics,
)
from gradsim.check.physics.measure import PhysicsCheck
from gradsim.check.result import CheckResult, Progress, no_progress

CHECKS: tuple[PhysicsCheck, ...] = (
    *elements.CHECKS,
    *conservation.CHECKS,
    *statics.CHECKS,
    *dynamics.CHECKS,
    *inertia.CHECKS,
    *rigid.CHECKS,
    *contact.CHECKS,
    *balls.CHECKS,
    *friction.CHECKS,
    *pairs.CHECKS,
    *stacks.CHECKS,
    *drag.CHECKS,
    *node_contact.CHECKS,
    *pendula.CHECKS,
    *articulated.CHECKS,
    *fluids.CHECKS,
)


def run_checks(progress: Progress = no_progress) -> list[CheckResult]:
    """Runs all checks in the order of `CHECKS`; `progress` receives the name of each check before it runs."""
    results: list[CheckResult] = []
    for check in CHECKS:
        progress(check.name)
        results += check.run()
    return results
