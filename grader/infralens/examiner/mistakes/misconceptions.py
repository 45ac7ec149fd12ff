"""Named wrong answers, run on the learner's own inputs to name the learner's mistake."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from infralens.labs import Lab
from infralens.wrong import WrongAnswer, wrong_answers

Wrong = TypeVar("Wrong", bound=Callable[..., Any])
MARK = "__misconception__"


@dataclass(frozen=True)
class Misconception:
    """A wrong answer to a todo that can be named: an edit of the solution.

    `names` makes, in this process, what stands under the learner's names where this mistake was
    made. Until every lab has a `wrong.yaml`, an `answer` that stands for the one name `replaces`
    can be declared in Python instead.
    """

    todo: str
    name: str
    reads: str
    explanation: str
    names: Callable[[], Mapping[str, Any]]
    wrong: WrongAnswer | None = None
    answer: Callable[..., Any] | None = None
    replaces: str = ""


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
        explanation = inspect.cleandoc(answer.__doc__ or "").replace("\n", " ")
        names = {**(beside or {}), replaces: answer}
        known = Misconception(
            todo, name, reads, explanation, lambda: names, answer=answer, replaces=replaces
        )
        setattr(answer, MARK, known)
        return answer

    return declare


def misconceptions_of(lab: Lab) -> tuple[Misconception, ...]:
    """The wrong answers of a lab that can be named, in order; no edits where it has no solution."""
    path = lab.suite / "misconceptions.py"
    declared = _declared(path, path.stat().st_mtime_ns) if path.is_file() else ()
    taken = {(known.todo, known.name) for known in declared}
    edits = (of for of in _edits(lab) if (of.todo, of.name) not in taken)
    return (*declared, *edits)


def likely_reading(lab: Lab, todo: str) -> str:
    """The section that most mistakes of the todo read; the lab's page where none is declared."""
    known: list[Misconception | WrongAnswer] = [*misconceptions_of(lab), *wrong_answers(lab)]
    reads = [of.reads for of in known if of.todo == todo and of.reads and "#" in of.reads]
    return Counter(reads).most_common(1)[0][0] if reads else lab.reading


def _edits(lab: Lab) -> Iterator[Misconception]:
    solution = lab.solution
    if solution is None or not solution.is_file():
        return
    changed = solution.stat().st_mtime_ns
    for wrong in wrong_answers(lab):
        if wrong.says and wrong.reads:
            names = partial(_names_of, solution, changed, lab.id, wrong)
            yield Misconception(wrong.todo, wrong.name, wrong.reads, wrong.says, names, wrong)


def _names_of(solution: Path, changed: int, lab: str, wrong: WrongAnswer) -> Mapping[str, Any]:
    return vars(edited_module(solution, changed, lab, wrong))


@cache
def edited_module(solution: Path, changed: int, lab: str, wrong: WrongAnswer) -> ModuleType:
    """The solution with this mistake, run as a module: once for each state of the solution."""
    name = "infralens_wrong_" + re.sub(r"\W", "_", f"{lab}_{wrong.todo}_{wrong.name}")
    text = wrong.edited(solution.read_text(encoding="utf-8"))
    return run_as_module(text, f"<{wrong.todo} {wrong.name}>", name)


def run_as_module(text: str, filename: str, name: str) -> ModuleType:
    """Run a text of ours as the module of this name, by which dataclasses look it up."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, filename, "exec", dont_inherit=True), vars(module))
    return module


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
