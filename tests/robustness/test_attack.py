"""A small part of the standing attack (`make fuzz`): every input is answered or refused by name."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.robustness.attack import ANSWERED, ATTACKS, REFUSED, build_kernels, outcome

EXAMPLES = 80  # of each kind


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_input_is_answered_or_refused_by_name(attack):
    build_kernels()
    found = set()

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(attack.inputs)
    def run(value):
        found.add(outcome(attack, value))

    run()
    assert found == {ANSWERED, REFUSED}
