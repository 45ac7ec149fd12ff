"""A result in the few words that a table of a class needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from infralens.course.assigned import paid
from infralens.course.results import Result

State = Literal["graded", "refused", "grader failed"]


@dataclass(frozen=True)
class Mark:
    """What a todo came to. `mistakes` are (check, misconception) pairs."""

    todo: str
    title: str
    score: int
    points: int
    status: str
    mistakes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Row:
    """One learner's submission for one assignment."""

    learner: str
    assignment: str
    lab: str
    file: str
    state: State
    score: int
    max_score: int
    seconds: float
    seed: int | None
    isolation: str
    marks: tuple[Mark, ...]
    notes: int
    sha256: str
    code: str
    said: str
    key: str

    @property
    def mistakes(self) -> tuple[str, ...]:
        """The names of the misconceptions, each once."""
        return tuple(dict.fromkeys(name for mark in self.marks for _, name in mark.mistakes))

    @property
    def begun(self) -> bool:
        """Whether it is more than an untouched stub."""
        return any(mark.status != "not_started" for mark in self.marks)


def row_of(result: Result, points: Mapping[str, int]) -> Row:
    """The row of a result, with a course's own points."""
    report = None if result.report is None else paid(result.report, points)
    state: State = "refused" if report is None else "graded"
    if not result.final:
        state = "grader failed"
    said = result.refused or (report.grader_error if report else None) or ""
    if not said and report is not None and report.score < report.max_score:
        said = result.remark
    marks = (
        ()
        if report is None
        else tuple(
            Mark(
                todo.id,
                todo.title,
                todo.score,
                todo.points,
                todo.status,
                tuple(
                    (check.name, check.misconception)
                    for check in todo.checks
                    if check.misconception is not None
                ),
            )
            for todo in report.todos
        )
    )
    return Row(
        learner=result.learner,
        assignment=result.assignment,
        lab=result.lab,
        file=result.file,
        state=state,
        score=report.score if report else 0,
        max_score=report.max_score if report else 0,
        seconds=report.seconds if report else 0.0,
        seed=report.seed if report else None,
        isolation=report.environment.isolation if report else "",
        marks=marks,
        notes=len(report.notes) if report else 0,
        sha256=result.sha256,
        code=result.code,
        said=said,
        key=result.key,
    )
