"""The corpus at process level, on the small lab and lab 03. The other labs in the sandbox alone."""

from __future__ import annotations

import pytest
from arena import Attack, SetAt, pairs

from infralens.labs import Lab

PAIRS = [(attack, lab) for attack, lab in pairs() if attack.level == "process"]


@pytest.mark.parametrize(
    ("attack", "lab"), PAIRS, ids=[f"{lab.id}-{attack.path.stem}" for attack, lab in PAIRS]
)
def test_the_grader_survives(attack: Attack, lab: Lab, set_at: SetAt) -> None:
    """It gives what the answers deserve, does not crash, keeps its limits, and leaves nothing."""
    assert set_at(attack, lab, "process").faults() == []
