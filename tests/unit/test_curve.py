"""The curve of errors along a sequence: the first place that is wrong, in few numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from infralens.examiner.compare.curve import curve_along, curve_of_calls
from infralens.examiner.compare.recorded import assert_calls
from infralens.examiner.errors import MismatchError
from infralens.examiner.run.trial import Trial, running
from infralens.report import CURVE_LENGTH, Curve
from infralens.show.curve import drawn


def test_a_wrong_loop_is_told_call_by_call() -> None:
    right = [(torch.full((2, 2), float(turn + 1)), turn) for turn in range(4)]
    mine = [(sample + 0.5 * (turn > 1), turn) for sample, turn in right]
    with running(Trial()), pytest.raises(MismatchError) as caught:
        assert_calls(mine, library=lambda: right, names=("sample", "t"))
    curve = caught.value.curve()
    assert curve is not None
    assert (curve.place, curve.start) == ("call", 0)
    assert curve.what == "`sample` in each call of the denoiser"
    assert curve.errors == "0 0 1.67e+04 1.25e+04"
    line = drawn(curve)
    assert line is not None
    assert line.first is line.points[2]
    assert "the first error beyond rounding is at call 2: 16700 times" in line.told


@pytest.mark.parametrize("later", [(), (10**400,), (torch.tensor([1j]),)])
def test_what_later_calls_hold_changes_no_verdict(later: Any) -> None:
    right = [(1.0,), (2.0,), (3.0,)]
    with running(Trial()), pytest.raises(MismatchError, match="in call 0") as caught:
        assert_calls([(7.0,), (2.0,), later], library=lambda: right, names=("t",))
    curve = caught.value.curve()
    assert curve is not None
    assert curve.errors == "6e+05 0 inf"


@pytest.mark.parametrize(
    "odd", [None, "x", True, torch.ones(3), torch.ones(2).int(), torch.tensor([1.0, math.nan])]
)
def test_an_argument_of_another_kind_is_as_wrong_as_can_be(odd: Any) -> None:
    right = torch.ones(2)
    curve = curve_of_calls([(right, right), (right, odd), (1.0, odd)], "x")
    assert curve is not None
    assert curve.errors == "0 inf inf"
    line = drawn(curve)
    assert line is not None
    assert line.first.title == "call 1: no number to compare"


def test_of_a_long_row_the_numbers_around_the_first_wrong_one_are_kept() -> None:
    row = torch.zeros(1000, dtype=torch.float64)
    wrong = row.clone()
    wrong[500:] = 2
    curve = curve_along(row, wrong, 1.0, "x")
    assert curve is not None
    assert curve.start == 492
    assert curve.errors.split(" ") == ["0"] * 8 + ["2"] * (CURVE_LENGTH - 8)
    wrong[:990] = 0
    curve = curve_along(row, wrong, 1.0, "x")
    assert curve is not None
    assert curve.start == 1000 - CURVE_LENGTH


def test_there_is_no_curve_of_what_is_no_row_or_is_right() -> None:
    grid, row = torch.zeros(3, 3), torch.zeros(3)
    assert curve_along(grid, grid + 9, 1.0, "x") is None
    assert curve_along(row, row + 1, 1.0, "x") is None
    assert curve_along(row[:2], row[:2] + 9, 1.0, "x") is None
    assert drawn(Curve("x", "call", 0, "0 1 0.5")) is None


@pytest.mark.parametrize("errors", ["", "1 <b>", " ".join("1" * (CURVE_LENGTH + 1)), "1  2"])
def test_a_curve_of_another_form_is_refused(errors: str) -> None:
    with pytest.raises(ValueError, match="curve"):
        Curve("x", "call", 0, errors)


@pytest.mark.parametrize("errors", ["nan inf -inf", "1e+308 0 2", "5"])
def test_any_numbers_can_be_drawn(errors: str) -> None:
    line = drawn(Curve("x", "call", 3, errors))
    assert line is not None
    assert all(0 <= point.y <= 120 and 0 <= point.x <= 640 for point in line.points)
