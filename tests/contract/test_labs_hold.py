"""Every lab is proven: stub, solution over some seeds, misconceptions, margins, sabotage, texts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infralens.authoring import Proof, margin_lines, prove
from infralens.labs import Lab, find_labs

LABS = find_labs()
SEEDS = 6  # `infralens check` takes 20; three right variants have three more each


@pytest.mark.minutes
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_lab_is_proven(lab: Lab, record_property: Callable[[str, object], None]) -> None:
    proof: Proof = prove(lab, seeds=SEEDS)
    record_property("margins", margin_lines(proof))
    assert [fault.sentence for fault in proof.faults] == []
    assert proof.misconceptions >= len(lab.todos)
