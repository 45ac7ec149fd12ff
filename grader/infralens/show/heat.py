"""Regions of two tensors as heat maps: expected and yours in one scale, and the difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from infralens.report import Region

VALUES = ["#00224e", "#1a386f", "#434e6c", "#61656f", "#7d7c78"]  # cividis: alike to all eyes
VALUES += ["#9b9476", "#bcae6c", "#dec958", "#fee838"]
DIFFERENCES = ["#0b4a8f", "#4a90c8", "#a9cfe6", "#f2f2f2"]  # blue to orange
DIFFERENCES += ["#fdc68f", "#e8862f", "#994000"]
NO_NUMBER = "#ffffff"  # under the cross of what is not finite
MINUS = "\N{MINUS SIGN}"

Grid = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Cell:
    """One number: its column and row, its colour, and what is told of it."""

    x: int
    y: int
    fill: str
    title: str
    finite: bool


@dataclass(frozen=True)
class HeatMap:
    """One picture. `low` and `high` are the ends of its scale; `told` says it without colours."""

    name: str
    kind: str  # of its scale: values or differences
    width: int
    height: int
    cells: tuple[Cell, ...]
    worst: tuple[int, int]  # column and row
    low: str
    high: str
    told: str


@dataclass(frozen=True)
class Maps:
    """What is drawn of a region, and where in its tensor it lies."""

    place: str
    maps: tuple[HeatMap, ...]

    @property
    def finite(self) -> bool:
        return all(cell.finite for drawn in self.maps for cell in drawn.cells)


def heat_maps(region: Region) -> Maps:
    """The three pictures of a region."""
    expected, yours = _grid(region.expected), _grid(region.yours)
    difference = _grid(region.difference)
    low, high = _ends(expected + yours)
    _, far = _ends(tuple(tuple(map(abs, row)) for row in difference))
    maps = (
        _drawn(region, "expected", expected, low, high),
        _drawn(region, "yours", yours, low, high),
        _drawn(region, f"yours {MINUS} expected", difference, -far, far),
    )
    return Maps(_place(region, expected), maps)


def scale_of(kind: str) -> str:
    """The colours of a scale as a style sheet lists them."""
    return ", ".join(VALUES if kind == "values" else DIFFERENCES)


def _grid(rows: Sequence[str]) -> Grid:
    return tuple(tuple(float(text) for text in row.split(" ")) for row in rows)


def _ends(grid: Grid) -> tuple[float, float]:
    """The least and the largest finite number; 0 where there is none."""
    numbers = [number for row in grid for number in row if math.isfinite(number)]
    return min(numbers, default=0.0), max(numbers, default=0.0)


def _place(region: Region, grid: Grid) -> str:
    """Which part is shown, as an index of the tensor: `[1, 0:6, 0:10] of shape (2, 6, 10)`."""
    lengths = {region.axes[-1]: len(grid[0])}
    if len(region.axes) == 2:
        lengths[region.axes[0]] = len(grid)
    parts = [
        f"{start}:{start + lengths[axis]}" if axis in lengths else str(start)
        for axis, start in enumerate(region.start)
    ]
    return f"[{', '.join(parts)}] of shape {region.shape}"


def _drawn(region: Region, name: str, grid: Grid, low: float, high: float) -> HeatMap:
    kind = "values" if name in ("expected", "yours") else "differences"
    colours = VALUES if kind == "values" else DIFFERENCES
    cells = tuple(
        Cell(x, y, _colour(value, low, high, colours), _title(region, x, y, value), ok)
        for y, row in enumerate(grid)
        for x, value in enumerate(row)
        for ok in [math.isfinite(value)]
    )
    height, width = len(grid), len(grid[0])
    missing = sum(not cell.finite for cell in cells)
    least, most = map(number, _ends(grid))
    says = f"{name}: {height} by {width} numbers" if height > 1 else f"{name}: {width} numbers"
    says += "" if missing == len(cells) else f" from {least} to {most}"
    says += f", {missing} not finite" if missing else ""
    row, column = region.worst
    says += f"; in the frame {number(grid[row][column])}"
    ends = number(low), number(high)
    return HeatMap(name, kind, width, height, cells, (column, row), *ends, says)


def _title(region: Region, x: int, y: int, value: float) -> str:
    index = list(region.start)
    index[region.axes[-1]] += x
    if len(region.axes) == 2:
        index[region.axes[0]] += y
    return f"{index} {number(value)}"


def number(value: float) -> str:
    """Four digits, with a real minus sign."""
    whole = math.isfinite(value) and value.is_integer() and abs(value) < 1e6
    text = str(int(value)) if whole else f"{value:.4g}"
    return text.replace("-", MINUS)


def _colour(value: float, low: float, high: float, colours: Sequence[str]) -> str:
    """Between two colours of the scale; in its middle where all numbers are one."""
    if not math.isfinite(value):
        return NO_NUMBER
    span = high / 2 - low / 2  # halves: the numbers may be as large as floats get
    share = (value / 2 - low / 2) / span if span > 0 else 0.5
    place = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    left = min(int(place), len(colours) - 2)
    pairs = zip(_channels(colours[left]), _channels(colours[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - left)):02x}" for a, b in pairs)


def _channels(colour: str) -> bytes:
    return bytes.fromhex(colour.removeprefix("#"))
