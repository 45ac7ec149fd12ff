"""What came from a submission, and whether work of ours can reach it."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from infralens.examiner.compare.asserts import assert_equals, assert_matches
from infralens.examiner.errors import GraderFaultError, MismatchError
from infralens.examiner.run.suspects import Suspects
from infralens.examiner.run.trial import Trial, running

ANSWER = torch.ones(3, 4)


def holding(value: Any) -> Any:
    return lambda: value


@pytest.mark.parametrize(
    "ours",
    [
        holding(ANSWER),
        holding(ANSWER[0]),
        holding([{"x": (ANSWER,)}]),
        holding(holding(ANSWER)),
        functools.partial(holding, ANSWER),
        holding(SimpleNamespace(calls=[(ANSWER, 1)])),
    ],
    ids=["itself", "a view", "in a list", "in a function", "in a partial", "in an object"],
)
def test_an_answer_is_found_in_what_holds_it(ours: Any) -> None:
    suspects = Suspects()
    suspects.received([ANSWER])
    assert suspects.within_reach_of(ours)
    suspects.passed(ANSWER)
    assert not suspects.within_reach_of(ours)


def test_what_holds_no_answer_is_out_of_reach() -> None:
    suspects = Suspects()
    suspects.received(ANSWER, None, 7)
    assert not suspects.within_reach_of(holding(ANSWER.clone()), holding(torch))
    # An object of ours has a None of its own; a variable that is None is the answer.
    assert not suspects.within_reach_of(holding(SimpleNamespace(x=None, n=7)))
    assert suspects.within_reach_of(holding(None))


def test_a_reference_that_breaks_is_ours_without_an_answer_in_reach() -> None:
    trial, answer = Trial(), torch.ones(3, 4)
    trial.received(answer)
    with running(trial):
        with pytest.raises(GraderFaultError):
            assert_equals(answer, library=lambda: 1 / 0)
        with pytest.raises(MismatchError, match="could not be used"):
            assert_matches(
                answer, library=lambda: torch.ones(3, 4), truth=lambda: answer.squeeze(9)
            )
        assert_equals(answer, value=torch.ones(3, 4))
        with pytest.raises(GraderFaultError):
            assert_equals(answer, library=lambda: answer.squeeze(9))
