"""The simulation against answers known beforehand: every fact that `gradsim check physics` prints."""

import pytest

from gradsim.check.fact import Fact
from gradsim.check.physics import CHECKS
from gradsim.check.physics.measure import Check


def told(fact: Fact) -> str:
    numbers = f"expected {fact.expected:.6g}, got {fact.got:.6g}, error {fact.error:.2e} above {fact.tolerance:.1e}"
    return f"{fact.topic}, {fact.name}: {numbers}"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_reference(check: Check) -> None:
    facts = check.run()
    missed = [told(fact) for fact in facts if not fact.ok]
    assert facts
    assert not missed, "\n".join(missed)
