"""The errors along a sequence, in tolerances: where it was left, and how fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from infralens.examiner.compare.tolerance import RUN_SHARE, distance, float64
from infralens.report import CURVE_LENGTH, Curve

SHORT = 3  # of fewer places a curve says no more than their numbers
BEFORE = 8  # places shown before the first that is wrong, where not all are


def curve_along(expected: Tensor, yours: Tensor, tolerance: float, what: str) -> Curve | None:
    """The curve of two rows of numbers, such as a schedule; None of tensors with more axes."""
    if expected.shape != yours.shape or sum(length > 1 for length in expected.shape) != 1:
        return None
    gaps = (yours - expected).abs().flatten().tolist()
    return _curve([_in_tolerances(gap, tolerance) for gap in gaps], what, "place")


def curve_of_calls(pairs: Sequence[tuple[Any, Any]], what: str) -> Curve | None:
    """The curve of one argument in the calls of a run: (expected, yours) of each call."""
    return _curve([_apart(right, mine) for right, mine in pairs], what, "call")


def _apart(right: Any, mine: Any) -> float:
    """How many tolerances of a run lie between two values; inf where they are of two kinds."""
    if isinstance(right, Tensor) and isinstance(mine, Tensor):
        if right.dtype != mine.dtype or right.is_complex():
            return math.inf
    elif not (isinstance(right, float) and isinstance(mine, float)):
        return math.inf
    exact, given = float64(right), float64(mine)
    scale = float(exact.abs().max()) if exact.numel() else 0.0
    return _in_tolerances(distance(given, exact), RUN_SHARE * scale)


def _in_tolerances(gap: float, tolerance: float) -> float:
    if gap == 0:
        return 0.0
    return gap / tolerance if tolerance > 0 else math.inf


def _curve(errors: Sequence[float], what: str, place: str) -> Curve | None:
    wrong = next((turn for turn, error in enumerate(errors) if not error <= 1), None)
    if len(errors) < SHORT or wrong is None:
        return None
    start = max(0, min(wrong - BEFORE, len(errors) - CURVE_LENGTH))
    shown = errors[start : start + CURVE_LENGTH]
    return Curve(what, place, start, " ".join(f"{error:.3g}" for error in shown))
