"""One examiner grades every lab: what one of them leaves there must not touch another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from infralens.grading import examiner, grade
from infralens.labs import Lab
from variants import LABS, lost


@pytest.mark.minutes
@pytest.mark.parametrize("labs", [LABS, LABS[::-1]], ids=["forwards", "backwards"])
def test_every_solution_passes_in_one_examiner(labs: Sequence[Lab]) -> None:
    with examiner(serve=True) as one:
        for lab in labs:
            assert lab.solution is not None
            report = grade(lab, lab.solution, using=one)
            assert lost(report) == [], lab.id
            assert report.passed, lab.id
