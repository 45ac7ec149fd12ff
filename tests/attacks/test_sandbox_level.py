"""The corpus in the sandbox: all of it as at process level, and one of each kind on every lab."""

from __future__ import annotations

import pytest
from arena import Attack, SetAt, one_of_each_kind, pairs

from infralens.labs import Lab

PAIRS = [*pairs(), *one_of_each_kind()]


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("attack", "lab"), PAIRS, ids=[f"{lab.id}-{attack.path.stem}" for attack, lab in PAIRS]
)
def test_the_grader_survives(attack: Attack, lab: Lab, set_at: SetAt) -> None:
    """It gives what the answers deserve, does not crash, keeps its limits, and leaves nothing."""
    assert set_at(attack, lab, "sandbox").faults() == []
