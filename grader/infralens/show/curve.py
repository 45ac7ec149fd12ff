"""The errors along a sequence as a curve, with the first that rounding does not explain."""

from __future__ import annotations

import math
from dataclasses import dataclass

from infralens.report import Curve
from infralens.show.heat import number

WIDTH, HEIGHT = 640, 120
LEAST, MOST = -2.0, 12.0  # powers of ten that are told apart
EDGE = 8


@dataclass(frozen=True)
class Point:
    """One place: where it is drawn, what is told of it, and whether rounding explains it."""

    x: float
    y: float
    title: str
    wrong: bool


@dataclass(frozen=True)
class Line:
    """A drawn curve. `limit` is the height of one tolerance; `first` is the first wrong point."""

    points: tuple[Point, ...]
    limit: float
    first: Point
    told: str

    @property
    def path(self) -> str:
        return " ".join(f"{point.x},{point.y}" for point in self.points)


def drawn(curve: Curve) -> Line | None:
    """The curve over a logarithmic scale; None when nothing in it is wrong."""
    errors = [float(text) for text in curve.errors.split(" ")]
    top = max((_power(error) for error in errors if math.isfinite(error)), default=LEAST)
    top = max(top, 1.0)
    across = (WIDTH - 2 * EDGE) / max(len(errors) - 1, 1)
    points = tuple(
        Point(
            round(EDGE + turn * across, 1),
            _height(_power(error), top),
            f"{curve.place} {curve.start + turn}: {_in_words(error)}",
            not error <= 1,
        )
        for turn, error in enumerate(errors)
    )
    first = next((point for point in points if point.wrong), None)
    if first is None:
        return None
    told = f"{curve.what}: the first error beyond rounding is at {first.title}"
    return Line(points, _height(0.0, top), first, told)


def _power(error: float) -> float:
    """The power of ten; what is not finite lies as high as anything may."""
    if not math.isfinite(error):
        return MOST
    return min(max(math.log10(error), LEAST), MOST) if error > 0 else LEAST


def _height(power: float, top: float) -> float:
    share = min((power - LEAST) / (top - LEAST), 1.0)
    return round(HEIGHT - EDGE - share * (HEIGHT - 2 * EDGE), 1)


def _in_words(error: float) -> str:
    if not math.isfinite(error):
        return "no number to compare"
    return f"{number(error)} times what rounding explains"
