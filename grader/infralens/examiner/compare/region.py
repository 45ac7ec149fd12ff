"""The few numbers of two tensors, around a difference, that a picture of it is drawn from.

Which numbers these are follows from the shape and the place of the difference alone.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from infralens.examiner.compare.tolerance import float64
from infralens.report import REGION_SIDE, Region

COLOURS = (3, 4)  # what the last axis of an image of bytes holds
EXACT = 10**6  # whole numbers below are told in full


def region_of(expected: Tensor, yours: Tensor, index: tuple[int, ...]) -> Region | None:
    """The region around `index`; None where there is nothing to lay out.

    It lies in the plane of the last two axes that are longer than 1, which of an image of bytes
    are its rows and columns. Both tensors have one shape.
    """
    shape = tuple(expected.shape)
    if yours.shape != expected.shape or expected.is_complex() or yours.is_complex():
        return None
    axes = _axes(shape, image=expected.dtype == torch.uint8)
    if not axes:
        return None
    start, place = list(index), list[int | slice](index)
    for axis in axes:
        begin = _beginning(index[axis], shape[axis])
        start[axis], place[axis] = begin, slice(begin, begin + REGION_SIDE)
    cut = tuple(place)
    right, mine = (_flat(float64(tensor[cut])) for tensor in (expected, yours))
    column = index[axes[-1]] - start[axes[-1]]
    row = index[axes[0]] - start[axes[0]] if len(axes) == 2 else 0
    return Region(
        shape=shape,
        axes=axes,
        start=tuple(start),
        worst=(row, column),
        expected=_rows(right),
        yours=_rows(mine),
        difference=_rows(torch.where(right == mine, 0.0, mine - right)),
    )


def _axes(shape: tuple[int, ...], *, image: bool) -> tuple[int, ...]:
    axes = [axis for axis, length in enumerate(shape) if length > 1]
    if image and len(axes) > 2 and axes[-1] == len(shape) - 1 and shape[-1] in COLOURS:
        axes.pop()
    return tuple(axes[-2:])


def _beginning(place: int, length: int) -> int:
    """Where a stretch with `place` in its middle begins; at an end of the axis it is pushed in."""
    return max(0, min(place - REGION_SIDE // 2, length - REGION_SIDE))


def _flat(cut: Tensor) -> Tensor:
    return cut.reshape(1, -1) if cut.dim() == 1 else cut


def _rows(grid: Tensor) -> tuple[str, ...]:
    return tuple(" ".join(map(_brief, row)) for row in grid.tolist())


def _brief(value: float) -> str:
    """Four digits; small whole numbers in full."""
    if math.isfinite(value) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    return f"{value:.4g}"
