"""Named wrong answers, run on the learner's own inputs to name the learner's mistake."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from infralens.labs import Lab

Wrong = TypeVar("Wrong", bound=Callable[..., Any])
MARK = "__misconception__"


@dataclass(frozen=True)
class Misconception:
    """A wrong answer to a todo. `replaces` is the learner's name that it stands in for.

    `beside` are right answers under other names, where the todo's checks call those as well.
    """

    todo: str
    name: str
    replaces: str
    reads: str
    answer: Callable[..., Any]
    beside: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def explanation(self) -> str:
        """The sentence that a teacher would say."""
        return inspect.cleandoc(self.answer.__doc__ or "").replace("\n", " ")


def misconception(
    todo: str,
    name: str,
    *,
    replaces: str,
    reads: str,
    beside: Mapping[str, Callable[..., Any]] | None = None,
) -> Callable[[Wrong], Wrong]:
    """Declare a function or class as a misconception; its docstring is what the learner is told.

    A check that calls several of the learner's names needs them all to be run again: `beside` holds
    right twins of the others.
    """

    def declare(answer: Wrong) -> Wrong:
        setattr(
            answer, MARK, Misconception(todo, name, replaces, reads, answer, dict(beside or {}))
        )
        return answer

    return declare


def misconceptions_of(suite: Path) -> tuple[Misconception, ...]:
    """The misconceptions that the suite in this folder declares, in order."""
    path = suite / "misconceptions.py"
    return _declared(path, path.stat().st_mtime_ns) if path.is_file() else ()


def likely_reading(lab: Lab, todo: str) -> str:
    """The section that most mistakes of the todo read; the lab's page where none is declared."""
    reads = [of.reads for of in misconceptions_of(lab.suite) if of.todo == todo and "#" in of.reads]
    return Counter(reads).most_common(1)[0][0] if reads else lab.reading


@lru_cache
def _declared(path: Path, changed: int) -> tuple[Misconception, ...]:
    """Loaded once for each state of the file: grading asks for them at every mismatch."""
    suite = path.parent
    name = f"infralens_misconceptions_{suite.parent.name}_{suite.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        return ()
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    declared = (vars(value).get(MARK) for value in vars(module).values() if callable(value))
    return tuple(mark for mark in declared if isinstance(mark, Misconception))
