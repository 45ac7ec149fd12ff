"""Which numbers of a difference a report holds for a picture: few, and around it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from infralens.examiner.compare.region import region_of
from infralens.report import REGION_SIDE, Region

SMALL = Region((2,), (0,), (0,), (0, 1), ("1 2",), ("1 2.5",), ("0 0.5",))


def cut(shape: tuple[int, ...], index: tuple[int, ...], *, add: float = 1.0) -> Region:
    """The region of numbered tensors of which one number differs."""
    expected = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    yours = expected.clone()
    yours[index] += add
    region = region_of(expected, yours, index)
    assert region is not None
    row, column = region.worst
    assert float(region.difference[row].split()[column]) == add
    assert float(region.expected[row].split()[column]) == pytest.approx(
        float(expected[index]), 1e-3
    )
    return region


@pytest.mark.parametrize(
    ("shape", "index", "axes", "start"),
    [
        ((5,), (3,), (0,), (0,)),
        ((1000,), (500,), (0,), (492,)),
        ((1000,), (999,), (0,), (984,)),
        ((2, 4, 8, 12), (1, 2, 7, 11), (2, 3), (1, 2, 0, 0)),
        ((1, 40, 50), (0, 39, 25), (1, 2), (0, 24, 17)),
        ((3, 4, 1, 1), (2, 1, 0, 0), (0, 1), (0, 0, 0, 0)),
        ((1, 7, 1), (0, 2, 0), (1,), (0, 0, 0)),
    ],
)
def test_a_region_lies_around_the_difference(
    shape: tuple[int, ...], index: tuple[int, ...], axes: tuple[int, ...], start: tuple[int, ...]
) -> None:
    region = cut(shape, index)
    assert (region.axes, region.start) == (axes, start)
    width = min(shape[axes[-1]], REGION_SIDE)
    assert {len(row.split()) for row in region.yours} == {width}
    assert len(region.yours) == (min(shape[axes[0]], REGION_SIDE) if len(axes) == 2 else 1)


def test_an_image_of_bytes_is_cut_along_rows_and_columns() -> None:
    image = torch.zeros(1, 30, 40, 3, dtype=torch.uint8)
    region = region_of(image, image + 1, (0, 9, 20, 2))
    assert region is not None
    assert (region.axes, region.start) == ((1, 2), (0, 1, 12, 2))
    assert region.difference[0] == " ".join("1" * REGION_SIDE)


@pytest.mark.parametrize(
    ("expected", "yours"),
    [
        (torch.tensor(1.0), torch.tensor(2.0)),
        (torch.ones(1, 1), torch.zeros(1, 1)),
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2) * 1j, torch.ones(2) * 1j),
    ],
)
def test_there_is_nothing_to_lay_out(expected: Tensor, yours: Tensor) -> None:
    assert region_of(expected, yours, (0,) * expected.dim()) is None


def test_what_is_no_number_is_told_as_it_is() -> None:
    expected = torch.tensor([0.0, 1.0, -math.inf, 1e308, 123456.0, 1 / 3], dtype=torch.float64)
    yours = torch.tensor([math.nan, math.inf, -math.inf, -1e308, -0.0, 5e-324], dtype=torch.float64)
    region = region_of(expected, yours, (0,))
    assert region is not None
    assert region.expected == ("0 1 -inf 1e+308 123456 0.3333",)
    assert region.yours == ("nan inf -inf -1e+308 0 4.941e-324",)
    assert region.difference == ("nan inf 0 -inf -123456 -0.3333",)


@pytest.mark.parametrize(
    "odd",
    [
        {"yours": ("1 <b>",)},
        {"yours": ("1",)},
        {"yours": ()},
        {"yours": (" ".join("1" * (REGION_SIDE + 1)),)},
        {"yours": ("1 2\n",)},
        {"yours": (f"1 {'9' * 99}",)},
        dict.fromkeys(("expected", "yours", "difference"), ("1 2",) * (REGION_SIDE + 1)),
        {"worst": (1, 0)},
        {"worst": (0, -1)},
        {"axes": (1,)},
        {"axes": ()},
        {"start": (0, 0)},
    ],
)
def test_a_region_of_another_form_is_refused(odd: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ValueError, match="region"):
        replace(SMALL, **odd)
