"""Whether two answers are one: for naming a mistake, not for paying."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from infralens.examiner.compare.tolerance import AGREEMENT_ULPS, allowed_agreement, float64, ulp_of
from infralens.wire import Raised


def same_answer(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two answers are the same up to rounding: kind, shape, dtype and numbers."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not one.is_floating_point():
            return torch.equal(one.cpu(), other.cpu())
        a, b = float64(one), float64(other)
        both = a.isfinite() & b.isfinite()
        if a.numel() and not bool(both.any()):
            return False  # any two answers without a number are alike: that says nothing
        if not torch.allclose(a[~both], b[~both], equal_nan=True):
            return False
        reach = ulp_of(one, a.where(both, torch.zeros(())))
        gap = (a - b)[both].abs()
        near = max(tolerance, allowed_agreement(one.dtype) * reach)
        return gap.numel() == 0 or bool(gap.max() <= near)
    if isinstance(one, Raised) and isinstance(other, Raised):
        theirs = bool(one.frames or other.frames)  # raised by a line of the learner's own
        (kind_, text), (other_kind, other_text) = _first_raised(one), _first_raised(other)
        return kind_ == other_kind and (theirs or text == other_text)
    if isinstance(one, float) and isinstance(other, float):
        if not (math.isfinite(one) and math.isfinite(other)):
            return False
        reach = torch.finfo(torch.float32).eps * abs(one)
        return one == other or abs(one - other) <= max(tolerance, AGREEMENT_ULPS * reach)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(
            _same_part(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same_part(one[key], other[key], tolerance) for key in one
        )
    return same_plain(one, other)


def _same_part(one: Any, other: Any, tolerance: float) -> bool:
    """Inside an answer, NaN is NaN and an infinity is itself: what stands beside says more."""
    if isinstance(one, float) and isinstance(other, float) and not math.isfinite(one):
        return one == other or (math.isnan(one) and math.isnan(other))
    return same_answer(one, other, tolerance)


def _first_raised(raised: Raised) -> tuple[str, str]:
    """Type and text; what a lent object raised over there is told as it was raised here."""
    if raised.type_name == "RemoteError":
        kind_, _, text = raised.text.partition(": ")
        return kind_, text
    return raised.type_name, raised.text


def same_plain(one: Any, other: Any) -> bool:
    """Equality of plain values, in which True is not 1 and 1.0 is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(
            same_plain(a, b) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_plain(one[k], other[k]) for k in one)
    plain = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)
    return type(one) is type(other) and isinstance(one, plain) and bool(one == other)
