"""What is asked of the examiner, and how it crosses to it: one JSON document a line.

The examiner's first line is {"event": "private"}: from now on nobody can read its memory. The
command's first is {"token": ...}; every later line, in both directions, carries that token, and an
event the id of its request. Events: "planned"; "check" for each check; "starts", the seconds that
each candidate took to start; and at the end one of FINAL.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.labs import Lab, Place, Todo, read_lab

Naming = Literal["full", "brief", "none"]  # how long a mistake's name is looked for
Stop = Literal["never", "first failure"]  # when no more of a todo is checked
FINAL = ("unreadable", "unavailable", "grader_error", "result")


@dataclass(frozen=True)
class Wishes:
    """How much a grade is to find out; whether a todo is paid depends on none of it."""

    naming: Naming = "full"
    stop: Stop = "never"
    first: str | None = None  # the case to begin with, such as "test_x[case]"


@dataclass(frozen=True)
class Request:
    """What to grade, and how.

    `rehearsed` is the name of a wrong answer of the lab's own to the todo, or "" for its solution:
    these are run in the examiner. `sabotaged` has it hear the library slightly wrong meanwhile.
    After one that is `alone` no candidate is started ahead: what comes next has another setting.
    """

    lab: Lab
    submission: Path
    todos: tuple[str, ...]
    seed: int
    device: str
    isolation: str
    wishes: Wishes = Wishes()
    rehearsed: str | None = None
    sabotaged: bool = False
    alone: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def wanted(self) -> list[Todo]:
        return [todo for todo in self.lab.todos if todo.id in self.todos]

    @property
    def level(self) -> str:
        """The isolation that this grade is to have: `auto` is decided here."""
        if self.isolation != "auto":
            return self.isolation
        return "sandbox" if unavailable() is None else "process"

    def as_message(self) -> dict[str, Any]:
        """The request as JSON; `lab_of` and the examiner read it."""
        place = self.lab.place
        return {
            "id": self.id,
            "suite": str(self.lab.suite),
            "place": [
                str(place.suites),
                str(place.exercises),
                str(place.solutions) if place.solutions else None,
            ],
            "submission": str(self.submission),
            "todos": list(self.todos),
            "seed": self.seed,
            "device": self.device,
            "isolation": self.level,
            "masked": list(self.lab.masked),
            "loaded": list(self.lab.loaded),
            "processes": self.lab.processes,
            "wishes": asdict(self.wishes),
            "rehearsed": self.rehearsed,
            "sabotaged": self.sabotaged,
            "alone": self.alone,
        }


def lab_of(message: dict[str, Any]) -> Lab:
    """The lab that a message asks about."""
    suite = Path(message["suite"])
    solutions = message["place"][2]
    place = Place(
        Path(message["place"][0]),
        Path(message["place"][1]),
        Path(solutions) if solutions else None,
    )
    return read_lab(suite / "lab.yaml", place)
