"""The form of an answer: which kinds of values stand where, before anything reads what they say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from infralens.examiner import assert_form, form_of
from infralens.examiner.compare.forms import first_unlike
from infralens.examiner.errors import MismatchError
from infralens.examiner.run.trial import Trial, running

EVENTS = [{"name": "str", "shape": ["int"], "mean": "float|nan"}]
SOUND = {"name": "unet", "shape": (2, 4), "mean": 0.5}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (True, "bool"),
        (1, "int"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (None, "NoneType"),
        (torch.tensor(1.0), "tensor of a number"),
        (torch.ones(2), "Tensor"),
        ([(1, "a"), {"b": 0.5}], [["int", "str"], {"b": "float"}]),
    ],
    ids=repr,
)
def test_the_form_of_a_value(value: Any, form: Any) -> None:
    assert form_of(value) == form


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "it is NoneType, not list"),
        ([SOUND, 3], "[1] is int, not dict"),
        ([{**SOUND, "mean": "0.5"}], "[0]['mean'] is str, not float|nan"),
        ([{**SOUND, "mean": math.inf}], "[0]['mean'] is inf, not float|nan"),
        ([{**SOUND, "shape": 8}], "[0]['shape'] is int, not list"),
        ([{**SOUND, "shape": [2, True]}], "[0]['shape'][1] is bool, not int"),
        ([{"name": "unet"}], "[0] has the keys ['name'], not ['mean', 'name', 'shape']"),
        ([{**SOUND, "name": ["unet"]}], "[0]['name'] is list, not str"),
    ],
    ids=repr,
)
def test_what_is_of_another_form_is_told_with_its_place(answer: Any, says: str) -> None:
    assert first_unlike(form_of(answer), EVENTS) == says
    with running(Trial()), pytest.raises(MismatchError, match="the events: "):
        assert_form(answer, EVENTS, what="the events")


def test_an_answer_of_the_right_form_is_a_suspect_no_longer() -> None:
    trial, answer = Trial(), [dict(SOUND), {**SOUND, "mean": math.nan}]
    with running(trial):
        trial.received(answer)
        assert trial.suspects.within_reach_of([answer])
        assert_form(answer, EVENTS)
        assert not trial.suspects.within_reach_of([answer])


def test_the_form_alone_is_compared() -> None:
    """Two traces of one run differ in their times: that makes no other answer of one."""
    seen = []
    for time in (0.25, 0.5):
        trial = Trial()
        with running(trial):
            assert_form([{"start": time}], [{"start": "float"}])
        seen.append(trial.seen)
    assert seen[0] == seen[1] == [[{"start": "float"}]]
