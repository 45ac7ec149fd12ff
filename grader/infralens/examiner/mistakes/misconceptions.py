"""Wrong answers that can be named, run on the learner's inputs to name the learner's mistake."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from infralens.labs import Lab
from infralens.wrong import WrongAnswer, wrong_answers


@dataclass(frozen=True)
class Misconception:
    """A wrong answer to a todo that can be named.

    `names` makes, in this process, what stands under the learner's names where this mistake was
    made.
    """

    todo: str
    name: str
    reads: str
    explanation: str
    names: Callable[[], Mapping[str, Any]]


def misconceptions_of(lab: Lab) -> tuple[Misconception, ...]:
    """The wrong answers of a lab that can be named, in order; none where it has no solution."""
    solution = lab.solution
    if solution is None or not solution.is_file():
        return ()
    changed = solution.stat().st_mtime_ns
    return tuple(
        Misconception(
            wrong.todo,
            wrong.name,
            wrong.reads,
            wrong.says,
            partial(_names_of, solution, changed, lab.id, wrong),
        )
        for wrong in wrong_answers(lab)
        if wrong.says and wrong.reads
    )


def _names_of(solution: Path, changed: int, lab: str, wrong: WrongAnswer) -> Mapping[str, Any]:
    return vars(_edited_module(solution, changed, lab, wrong))


@cache
def _edited_module(solution: Path, changed: int, lab: str, wrong: WrongAnswer) -> ModuleType:
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
