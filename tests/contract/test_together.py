"""One examiner grades every lab: what one of them leaves there must not touch another."""

from __future__ import annotations

import pytest

import share
from infralens.grading import examiner, grade
from variants import LABS, lost

ORDERS = {"forwards": LABS, "backwards": LABS[::-1]}


@pytest.mark.minutes
@pytest.mark.parametrize("order", ORDERS)
def test_every_solution_passes_in_one_examiner(order: str, request: pytest.FixtureRequest) -> None:
    day = share.Share.named(request.config.option.share)
    taken = day.part(share.TOGETHER, (lab.id for lab in LABS))
    with examiner(serve=True) as one:
        for lab in ORDERS[order]:
            if lab.id in taken:
                assert lab.solution is not None
                report = grade(lab, lab.solution, using=one)
                assert lost(report) == [], lab.id
                assert report.passed, lab.id
