"""Report, TodoResult, CheckResult, Environment: plain records, to JSON and back."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = 1

CheckStatus = Literal["passed", "failed", "error", "timeout", "not_run"]
TodoStatus = Literal["passed", "failed", "not_started", "error"]


def place_in_words(line: int, cell: int | None) -> str:
    """Where something stands: `line 4`, in a notebook `line 4 of cell 12`."""
    return f"line {line}" if cell is None else f"line {line} of cell {cell}"


@dataclass(frozen=True)
class Frame:
    """One line of the learner's own file on the way to an exception.

    In a notebook `line` counts within its `cell`, and cells count from 1, texts among them.
    """

    line: int
    function: str
    code: str
    cell: int | None = None

    @property
    def place(self) -> str:
        return place_in_words(self.line, self.cell)


REGION_SIDE = 16  # rows and columns of a region, at most: a report stays short
_NUMBER = r"(?:-?\d{1,8}(?:\.\d{1,8})?(?:e[+-]\d{1,3})?|-?inf|nan)"
_ROW = re.compile(rf"{_NUMBER}(?: {_NUMBER}){{0,{REGION_SIDE - 1}}}")


@dataclass(frozen=True)
class Region:
    """A few numbers of two tensors around a difference, for a picture.

    It is cut along `axes` (one, or rows and columns) of tensors of this `shape`; `start` is the
    index of its first number. `worst` is the row and column of the place it is for.
    A row is a text of numbers with blanks between: short, and JSON has no NaN.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    start: tuple[int, ...]
    worst: tuple[int, int]
    expected: tuple[str, ...]
    yours: tuple[str, ...]
    difference: tuple[str, ...]

    def __post_init__(self) -> None:
        grids = (self.expected, self.yours, self.difference)
        if not all(_ROW.fullmatch(row) for rows in grids for row in rows):
            raise ValueError("a row of a region is no text of a few numbers")
        sizes = {len(row.split(" ")) for rows in grids for row in rows}
        heights = {len(rows) for rows in grids}
        if len(sizes) != 1 or len(heights) != 1 or max(heights) > REGION_SIDE:
            raise ValueError("the grids of a region are not of one small size")
        height, width = max(heights), max(sizes)
        row, column = self.worst
        known = len(self.start) == len(self.shape) and len(self.axes) in (1, 2)
        inside = 0 <= row < height and 0 <= column < width
        if not (known and inside and all(0 <= axis < len(self.shape) for axis in self.axes)):
            raise ValueError("a region lies outside of its tensor")


CURVE_LENGTH = 64  # places of a curve, at most
_CURVE = re.compile(rf"{_NUMBER}(?: {_NUMBER}){{0,{CURVE_LENGTH - 1}}}")


@dataclass(frozen=True)
class Curve:
    """The errors along a sequence, such as the calls of a loop, for a picture.

    `errors` is a text of numbers with blanks between; each counts the tolerances of its place. The
    first of them belongs to the place `start`, such as "call" 0.
    """

    what: str
    place: str
    start: int
    errors: str

    def __post_init__(self) -> None:
        if not _CURVE.fullmatch(self.errors) or self.start < 0:
            raise ValueError("the errors of a curve are no text of a few numbers")


@dataclass(frozen=True)
class Detail:
    """What explains a check that did not pass. Every text may come from hostile code."""

    call: str | None = None
    case: str | None = None
    call_index: int | None = None
    round: int = 0
    expected: str | None = None
    yours: str | None = None
    where: str | None = None
    region: Region | None = None
    curve: Curve | None = None
    explanation: str | None = None
    reads: str | None = None
    frames: tuple[Frame, ...] = ()
    output: str | None = None


@dataclass(frozen=True)
class Margin:
    """How far an answer was from the truth, how far it may be, and how large the truth is."""

    dtype: str
    max_abs_error: float
    tolerance: float
    scale: float

    @property
    def ratio(self) -> float:
        """The error in tolerances."""
        if self.tolerance > 0:
            return self.max_abs_error / self.tolerance
        return 0.0 if self.max_abs_error == 0 else math.inf


@dataclass(frozen=True)
class CheckResult:
    """One check. It is `not_run` until the examiner says otherwise.

    `max_abs_error` and `tolerance` belong to the answer nearest to (or furthest past) its
    tolerance; `margins` holds the same for each dtype. `reference` says what the answers were held
    against: the live library, a formula, or a property; `guards` why the check is there when it is
    not to catch a misconception.
    """

    name: str
    title: str
    status: CheckStatus = "not_run"
    message: str = ""
    misconception: str | None = None
    max_abs_error: float | None = None
    tolerance: float | None = None
    margins: tuple[Margin, ...] = ()
    guards: str = ""
    reference: tuple[str, ...] = ()
    detail: Detail | None = None


@dataclass(frozen=True)
class TodoResult:
    """One todo: all its points or none.

    `uses` are functions of other todos that its code mentions: (name, todo).
    """

    id: str
    title: str
    points: int
    score: int
    status: TodoStatus
    checks: tuple[CheckResult, ...]
    uses: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Environment:
    """Where the grade was made."""

    device: str
    dtype: tuple[str, ...]
    python: str
    torch: str
    diffusers: str
    isolation: str


@dataclass(frozen=True)
class Note:
    """Something in a submission for an instructor's eye. It changes no point."""

    line: int
    text: str
    cell: int | None = None

    @property
    def place(self) -> str:
        return place_in_words(self.line, self.cell)


@dataclass(frozen=True)
class Report:
    """One graded lab. Everything shown or exported is made from this."""

    lab: str
    title: str
    submission: str
    score: int
    max_score: int
    passed: bool
    seed: int
    seconds: float
    grader_error: str | None
    environment: Environment
    todos: tuple[TodoResult, ...] = field(default=())
    notes: tuple[Note, ...] = ()
    schema: int = SCHEMA

    def to_json(self) -> str:
        """One JSON document, valid for any strict reader (no NaN, no lone surrogates)."""
        data = {"schema": self.schema, **asdict(self)}
        return json.dumps(_strict(data), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that `to_json` wrote. ValueError when it is something else."""
        try:
            data = json.loads(text)
            todos = tuple(todo_result(entry) for entry in data.pop("todos"))
            notes = tuple(Note(**entry) for entry in data.pop("notes", []))
            environment = data.pop("environment")
            environment["dtype"] = tuple(environment["dtype"])
            return cls(**data, environment=Environment(**environment), todos=todos, notes=notes)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no InfraLens report: {error}") from error


def check_result(data: dict[str, Any]) -> CheckResult:
    """A CheckResult from its JSON object."""
    detail = data.get("detail")
    if detail is not None:
        frames = tuple(Frame(**frame) for frame in detail["frames"])
        region = detail.get("region")
        region = None if region is None else _region(region)
        curve = detail.get("curve")
        curve = None if curve is None else Curve(**curve)
        detail = Detail(**{**detail, "frames": frames, "region": region, "curve": curve})
    margins = tuple(_margin(entry) for entry in data["margins"])
    reference = tuple(data["reference"])
    return CheckResult(**{**data, "detail": detail, "reference": reference, "margins": margins})


def _region(data: dict[str, Any]) -> Region:
    return Region(**{name: tuple(value) for name, value in data.items()})


def _margin(data: dict[str, Any]) -> Margin:
    error = data["max_abs_error"]
    return Margin(**{**data, "max_abs_error": math.inf if error is None else error})


def todo_result(data: dict[str, Any]) -> TodoResult:
    """A todo's result out of its JSON."""
    checks = tuple(check_result(check) for check in data["checks"])
    return TodoResult(**{**data, "checks": checks, "uses": tuple(map(tuple, data["uses"]))})


def _strict(value: Any) -> Any:
    """The value with what strict JSON readers refuse replaced: NaN, infinities, lone surrogates."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
