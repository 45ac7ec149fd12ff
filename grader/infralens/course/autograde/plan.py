"""What one `nbgrader autograde` is going to grade, in its order, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry


@dataclass(frozen=True)
class Pending:
    """One notebook that was handed in and is to be graded."""

    assignment: str
    student: str
    notebook: str
    path: Path


class Plan:
    """The notebooks to be graded. nbgrader leaves out what it has graded, unless it is forced."""

    def __init__(self, pending: list[Pending]) -> None:
        self.pending = pending
        self.started, self.done = time.monotonic(), 0
        self._named: set[Pending] = set()

    @classmethod
    def of(cls, converter: Any) -> Plan:
        """The plan of nbgrader's Autograde; empty where the parent is something else."""
        found = getattr(converter, "assignments", None) or {}
        notebooks = [Path(name) for folder in sorted(found) for name in sorted(found[folder])]
        known = [_pending(converter, path) for path in notebooks]
        return cls([one for one in known if converter.force or not _graded(converter, one)])

    def after(self, named: dict[str, str], most: int) -> Iterator[Pending]:
        """The next ones after the one that nbgrader's resources name, each of them once."""
        here = (named["assignment"], named["student"], named["notebook"])
        places = [(one.assignment, one.student, one.notebook) for one in self.pending]
        if here in places:
            place = places.index(here) + 1
            for one in self.pending[place : place + most]:
                if one not in self._named:
                    self._named.add(one)
                    yield one

    @property
    def is_done(self) -> bool:
        return self.done >= len(self.pending)

    def advance(self) -> str:
        """Count one more as graded. Says how many are, and how long the others will take."""
        self.done += 1
        left = len(self.pending) - self.done
        if left < 1:
            return f"{self.done} of {self.done} graded"
        seconds = (time.monotonic() - self.started) / self.done * left
        told = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        return f"{self.done} of {len(self.pending)} graded, about {told} left"


def unfinished(converter: Any) -> Iterator[Path]:
    """The autograded folders of a run that was ended in the middle: a check has no score there.

    nbgrader takes a folder that is there for graded, and would leave the learner without points.
    """
    found = getattr(converter, "assignments", None) or {}
    notebooks = [Path(name) for folder in sorted(found) for name in sorted(found[folder])]
    known = [_pending(converter, path) for path in notebooks]
    begun = [one for one in known if not converter.force and _graded(converter, one)]
    if not begun:
        return
    with Gradebook(converter.coursedir.db_url) as gradebook:
        yield from {_folder(converter, one) for one in begun if _lacks_a_score(gradebook, one)}


def _lacks_a_score(gradebook: Gradebook, one: Pending) -> bool:
    try:
        grades = gradebook.find_submission_notebook(
            one.notebook, one.assignment, one.student
        ).grades
    except MissingEntry:
        return False  # a file that nbgrader passes over, as it has no such notebook
    checks = [grade for grade in grades if grade.cell.name.startswith("check-")]
    return any(grade.auto_score is None for grade in checks)


def _pending(converter: Any, path: Path) -> Pending:
    named = converter.init_single_notebook_resources(str(path))["nbgrader"]
    return Pending(named["assignment"], named["student"], named["notebook"], path)


def _graded(converter: Any, one: Pending) -> bool:
    return _folder(converter, one).exists()


def _folder(converter: Any, one: Pending) -> Path:
    course = converter.coursedir
    return Path(course.format_path(course.autograded_directory, one.student, one.assignment))
