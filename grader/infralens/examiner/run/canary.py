"""A check that nobody can pass. If it passes, the run is void: the comparison itself is broken."""

from __future__ import annotations

from infralens.examiner.compare.asserts import assert_matches
from infralens.examiner.compare.inputs import Draw


def test_nobody_can_pass(draw: Draw) -> None:
    """The canary: an answer that is wrong everywhere."""
    right = draw.latents(2, 3)
    assert_matches(right + 1, library=lambda: right, truth=lambda: right.double())
