"""The order of reading: handbook pages and labs, what each needs, how long and how hard it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from infralens.documents import UnfitDocumentError, judge_of, read_yaml
from infralens.labs import BadLabError, Lab, Place

SCHEMA = Path(__file__).resolve().parent / "curriculum.schema.json"
FILE = "curriculum.yaml"
MOST_BYTES = 256 << 10
HARDEST = 3
PLAIN_STARS = str.maketrans("●○", "*-")


@dataclass(frozen=True)
class Step:
    """A page of the handbook (by its bare name) or a lab (by its id), as the path comes to it."""

    name: str
    minutes: int
    difficulty: int
    needs: tuple[str, ...] = ()
    todos: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_lab(self) -> bool:
        return "/" in self.name

    @property
    def effort(self) -> str:
        """Difficulty and time, as a reader is told them: `●●○ 90 min`."""
        return f"{stars(self.difficulty)} {self.minutes} min"

    def effort_in(self, encoding: str) -> str:
        """The same for a terminal: with marks of ASCII where it can show no others."""
        told = self.effort
        return told if encoding.lower().startswith("utf") else told.translate(PLAIN_STARS)


@dataclass(frozen=True)
class Curriculum:
    """The steps in their order. Without a table there are none, and all of this still answers."""

    steps: tuple[Step, ...] = ()

    @cached_property
    def _of_name(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    @property
    def pages(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.is_lab)

    def step(self, name: str) -> Step | None:
        return self._of_name.get(name)

    def before(self, name: str) -> Step | None:
        """The step before this one, if it has one."""
        return self._beside(name, -1)

    def after(self, name: str) -> Step | None:
        """The step after this one, if it has one."""
        return self._beside(name, 1)

    def served(self, page: str) -> tuple[Step, ...]:
        """The labs that need this page."""
        return tuple(step for step in self.steps if step.is_lab and page in step.needs)

    def needed(self, name: str) -> tuple[Step, ...]:
        """What a step needs, in the order of the path."""
        step = self.step(name)
        return () if step is None else tuple(one for one in self.steps if one.name in step.needs)

    def pages_before(self, name: str) -> tuple[Step, ...]:
        """The pages between this step and the lab before it: what a reader comes through."""
        pages: tuple[Step, ...] = ()
        for step in self.steps:
            if step.name == name:
                return pages
            pages = () if step.is_lab else (*pages, step)
        return ()

    def _beside(self, name: str, by: int) -> Step | None:
        names = [step.name for step in self.steps]
        if name not in names:
            return None
        at = names.index(name) + by
        return self.steps[at] if 0 <= at < len(names) else None


def stars(difficulty: int) -> str:
    """1 is ●○○, 3 is ●●●."""
    return "●" * difficulty + "○" * (HARDEST - difficulty)


def read_curriculum(place: Place) -> Curriculum:
    """The table of a folder of labs. An author's own folder may have none.

    BadLabError for a table that names a step twice, or one that needs what comes after it.
    """
    path = place.suites / FILE
    if not path.is_file():
        return Curriculum()
    try:
        data = read_yaml(path, judge_of(SCHEMA), most_bytes=MOST_BYTES)
    except UnfitDocumentError as error:
        raise BadLabError(f"{path} cannot be read: {error}.") from None
    steps = tuple(_step(entry) for entry in data["steps"])
    seen: set[str] = set()
    for step in steps:
        if step.name in seen:
            raise BadLabError(f"{path} lists {step.name} twice; keep one.")
        for need in step.needs:
            if need not in seen:
                raise BadLabError(f"{path}: {step.name} needs {need}, which does not come before.")
        seen.add(step.name)
    return Curriculum(steps)


def curriculum_of(labs: Iterable[Lab]) -> Mapping[str, Step]:
    """The step of each lab that some table lists, by the lab's id."""
    found: dict[str, Step] = {}
    places = dict.fromkeys(lab.place for lab in labs)
    for place in places:
        found.update((step.name, step) for step in read_curriculum(place).steps if step.is_lab)
    return found


def _step(entry: dict[str, Any]) -> Step:
    return Step(
        name=entry.get("page") or entry["lab"],
        minutes=entry["minutes"],
        difficulty=entry["difficulty"],
        needs=tuple(entry["needs"]),
        todos=dict(entry.get("todos", {})),
    )
