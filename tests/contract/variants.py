"""Where the variants of the labs lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from infralens.authoring.judging import TRUSTED, WHETHER_PAID, judge_wrong
from infralens.authoring.runs import unpassed, with_misconception
from infralens.examiner.mistakes.misconceptions import misconceptions_of
from infralens.grading import Examiner, grade
from infralens.labs import Lab, find_labs
from infralens.report import Report
from infralens.wrong import WrongAnswer, wrong_answers

VARIANTS = Path(__file__).resolve().parents[1] / "variants"
LABS = find_labs()
Grade = Callable[..., Report]


def variants_of(lab: Lab) -> Path:
    """Where a lab's right and wrong variants lie."""
    return VARIANTS / lab.track / lab.name.replace("-", "_")


@dataclass(frozen=True)
class Wrong:
    """A wrong answer to one todo, and the text of a whole submission that gives it."""

    todo: str
    name: str
    named: bool
    of: Callable[[str], str]  # the text, made of the solution's
    edit: WrongAnswer | None = None

    @property
    def entry(self) -> str:
        return f"{self.todo} {self.name}"

    def text(self, lab: Lab) -> str:
        return self.of(solution_of(lab))


def solution_of(lab: Lab) -> str:
    assert lab.solution is not None
    return lab.solution.read_text(encoding="utf-8")


def wrong_of(lab: Lab) -> list[Wrong]:
    """Every wrong answer to a lab: those that can be named, and the others."""
    known = [
        Wrong(known.todo, known.name, True, partial(with_misconception, wrong=known), known.wrong)
        for known in misconceptions_of(lab)
    ]
    others = [
        Wrong(wrong.todo, wrong.name, False, wrong.edited, wrong)
        for wrong in wrong_answers(lab)
        if wrong.says is None
    ]
    # Until every lab has its `wrong.yaml` beside the suite.
    path = variants_of(lab) / "wrong.yaml"
    old = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else []
    others += [
        Wrong(str(entry["todo"]), entry["name"], False, partial(_replaced, entry)) for entry in old
    ]
    return known + others


def _replaced(entry: dict[str, str], solution: str) -> str:
    assert solution.count(entry["replace"]) == 1
    return solution.replace(entry["replace"], entry["by"])


def judged(
    lab: Lab, wrong: Wrong, path: Path, warm: Examiner, seed: int, level: str | None = None
) -> Report:
    """Whether a wrong answer is paid; graded in a process of its own where a level is named."""
    if wrong.edit is not None:
        crossing, isolation = level is not None, level or TRUSTED
        return judge_wrong(
            lab, wrong.edit, path, warm, seed=seed, crossing=crossing, isolation=isolation
        )
    path.write_text(wrong.text(lab), encoding="utf-8")
    todos, level = [wrong.todo], level or TRUSTED
    return grade(
        lab, path, seed=seed, todos=todos, isolation=level, wishes=WHETHER_PAID, using=warm
    )


def lost(report: Report) -> list[str]:
    """The checks that did not pass, and what they said."""
    return [
        f"seed {report.seed}, {todo.id} {check.name}: {check.message}"
        for todo, check in unpassed(report)
    ]
