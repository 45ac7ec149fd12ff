"""What a class was set: labs by their assignments' names, with the course's seed and points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from infralens.course.record import NAME, RecordError, read_record
from infralens.labs import DEFAULT_TRACK, Lab, UnknownLabError, find_lab
from infralens.report import Report


@dataclass(frozen=True)
class Assigned:
    """One lab, by the name that nbgrader and folders have for it.

    `seed` None: none is fixed yet. `points` by todo, where they differ from the lab's.
    """

    name: str
    lab: Lab
    seed: int | None = None
    points: Mapping[str, int] = field(default_factory=dict)


def assignment_name(lab: Lab) -> str:
    """What a lab's assignment is called: `lab-03`, `diffsynth-lab-04`."""
    return lab.name if lab.track == DEFAULT_TRACK else f"{lab.track}-{lab.name}"


def assigned_in(folder: Path, labs: Sequence[Lab]) -> tuple[Assigned, ...] | None:
    """What the record in this folder sets; None where there is no record. RecordError."""
    record = read_record(folder)
    if record is None:
        return None
    try:
        return tuple(
            Assigned(name, find_lab(entry.lab, labs), entry.seed, entry.points)
            for name, entry in record.assignments.items()
        )
    except UnknownLabError as error:
        raise RecordError(f"{folder / NAME} cannot be used: {error}") from None


def assigned_by_name(labs: Sequence[Lab]) -> tuple[Assigned, ...]:
    """Every lab by its own name, with no seed and its own points."""
    return tuple(Assigned(assignment_name(lab), lab) for lab in labs)


def paid(report: Report, points: Mapping[str, int]) -> Report:
    """The report with the course's own points for what was passed."""
    worth = {todo.id: points.get(todo.id, todo.points) for todo in report.todos}
    todos = tuple(
        replace(
            todo,
            points=worth[todo.id],
            score=worth[todo.id] if todo.score and report.grader_error is None else 0,
        )
        for todo in report.todos
    )
    score, most = sum(todo.score for todo in todos), sum(worth.values())
    return replace(report, todos=todos, score=score, max_score=most)
