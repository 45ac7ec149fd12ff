"""What one `nbgrader autograde` is going to grade, in its order, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


def _pending(converter: Any, path: Path) -> Pending:
    named = converter.init_single_notebook_resources(str(path))["nbgrader"]
    return Pending(named["assignment"], named["student"], named["notebook"], path)


def _graded(converter: Any, one: Pending) -> bool:
    course = converter.coursedir
    folder = course.format_path(course.autograded_directory, one.student, one.assignment)
    return Path(folder).exists()
