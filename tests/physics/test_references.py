"""The simulation against known solutions: every result that `gradsim check physics` prints."""

import pytest

from gradsim.check.physics import CHECKS
from gradsim.check.physics.measure import PhysicsCheck
from gradsim.check.result import CheckResult


def describe(result: CheckResult) -> str:
    numbers = f"expected {result.expected:.6g}, got {result.got:.6g}"
    return f"{result.topic}, {result.name}: {numbers}, error {result.error:.2e} above {result.tolerance:.1e}"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_reference(check: PhysicsCheck) -> None:
    results = check.run()
    missed = [describe(result) for result in results if not result.ok]
    assert results
    assert not missed, "\n".join(missed)
