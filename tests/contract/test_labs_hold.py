"""Every lab is proven: stub, solution over some seeds, misconceptions, margins, sabotage, texts.

All of it in a run of everything, and of a lab that was changed; else over two seeds, with a part
of the misconceptions. The seeds are fresh ones in every run.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import share
from infralens.authoring import Proof, margin_lines, prove
from infralens.grading import Examiner
from infralens.labs import Lab, find_labs

LABS = find_labs()
SEEDS = 6  # `infralens check` takes 20; three right variants have three more each
SEEDS_OF_A_SHARE = 2


@pytest.mark.minutes
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_lab_is_proven(
    lab: Lab,
    record_property: Callable[[str, object], None],
    base_seed: int,
    request: pytest.FixtureRequest,
    warm: Examiner,
) -> None:
    day = share.Share.named(request.config.option.share)
    if share.whole(day, lab):
        proof: Proof = prove(
            lab, seeds=SEEDS, first_seed=base_seed, crossing=day.crossing, using=warm
        )
    else:
        proof = prove(
            lab,
            seeds=SEEDS_OF_A_SHARE,
            first_seed=base_seed,
            chosen=lambda names: day.part(share.MISCONCEPTIONS, names),
            using=warm,
        )
    record_property("margins", margin_lines(proof))
    assert [fault.sentence for fault in proof.faults] == []
    assert proof.misconceptions >= len(lab.todos)
