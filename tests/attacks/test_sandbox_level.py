"""In the sandbox, on lab 03: one attack of each kind, and all that only a sandbox can stop.

The whole corpus at this level: INFRALENS_ATTACK_ISOLATION=sandbox python tests/attacks/figures.py
"""

from __future__ import annotations

import pytest
from arena import Arena, Attack, pairs

from infralens.labs import Lab

FIRST = {attack.kind: attack for attack, _ in reversed(pairs()) if not attack.applies_to}
PAIRS = [(a, lab) for a, lab in pairs() if a.level == "sandbox" or a == FIRST.get(a.kind)]


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("attack", "lab"), PAIRS, ids=[f"{lab.id}-{attack.path.stem}" for attack, lab in PAIRS]
)
def test_the_grader_survives(attack: Attack, lab: Lab, arena: Arena) -> None:
    """It gives what the answers deserve, does not crash, keeps its limits, and leaves nothing."""
    assert arena.run(attack, lab, "sandbox").faults() == []
