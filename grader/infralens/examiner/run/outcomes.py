"""What came of every case of a run, and the results that the report is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from infralens.examiner.candidate.submission import Submission
from infralens.examiner.errors import LearnerError, UngradableError
from infralens.examiner.mistakes.naming import Names
from infralens.labs import Lab, Todo
from infralens.report import (
    CheckResult,
    CheckStatus,
    Detail,
    Frame,
    Margin,
    TodoResult,
    TodoStatus,
)
from infralens.wrong import likely_reading


@dataclass(frozen=True)
class CaseOutcome:
    """One case (one set of parameters) of one check."""

    case: str
    status: CheckStatus
    message: str
    not_started: bool = False
    misconception: str | None = None
    margins: tuple[Margin, ...] = ()
    references: frozenset[str] = frozenset()
    detail: Detail | None = None


@dataclass
class Results:
    """What is to be checked in one run, and the outcome of every case so far."""

    lab: Lab
    submission: Submission
    names: Names
    checks: dict[str, dict[str, str]]  # of each todo: the titles of its checks
    guards: dict[str, str] = field(default_factory=dict)
    planned: dict[str, int] = field(default_factory=dict)  # cases of each check
    outcomes: dict[str, list[CaseOutcome]] = field(default_factory=dict)

    def plan(self, todo_id: str, name: str, title: str, guards: str) -> None:
        """Expect one more case of this check."""
        self.checks[todo_id][name] = title
        self.guards[name] = guards
        self.planned[name] = self.planned.get(name, 0) + 1

    def of(self, name: str) -> list[CaseOutcome]:
        """What came of the cases of this check."""
        return self.outcomes.get(name, [])

    def is_next_the_last(self, name: str) -> bool:
        return len(self.of(name)) + 1 == self.planned[name]

    def add(self, name: str, outcome: CaseOutcome) -> None:
        self.outcomes.setdefault(name, []).append(outcome)

    def silent(self) -> list[str]:
        """The checks of which a case did not report."""
        return [name for name, count in self.planned.items() if len(self.of(name)) != count]

    def of_todos(self) -> Iterator[TodoResult]:
        """One result a todo. What did not report is not passed."""
        for todo_id, names in self.checks.items():
            declared = self.lab.todo(todo_id)
            for name in names:
                self._settle(todo_id, name)
            checks = tuple(self._check(name, title) for name, title in names.items())
            passed = bool(checks) and all(check.status == "passed" for check in checks)
            yield TodoResult(
                id=todo_id,
                title=declared.title,
                points=declared.points,
                score=declared.points if passed else 0,
                status="passed" if passed else self._status(checks),
                checks=checks,
                uses=self._uses(declared),
            )

    def _settle(self, todo_id: str, name: str) -> None:
        """Keep the name of a check's mistake where it fits all that was seen in the todo."""
        for place, outcome in enumerate(self.of(name)):
            if outcome.misconception is None or outcome.detail is None:
                continue
            found = self.names.settled(todo_id, name, outcome.misconception)
            self.outcomes[name][place] = replace(
                outcome,
                misconception=found.name if found else None,
                detail=replace(
                    outcome.detail,
                    explanation=found.explanation if found else None,
                    reads=found.reads if found else likely_reading(self.lab, todo_id),
                ),
            )

    def _uses(self, todo: Todo) -> tuple[tuple[str, str], ...]:
        """The functions of other todos that the learner's code for this one mentions."""
        mentioned = set().union(*(self.submission.uses(name) for name in todo.names))
        others = ((name, of.id) for name, of in self.lab.todo_of_name.items() if of is not todo)
        return tuple(pair for pair in others if pair[0] in mentioned)

    def _status(self, checks: tuple[CheckResult, ...]) -> TodoStatus:
        outcomes = [outcome for check in checks for outcome in self.of(check.name)]
        if outcomes and all(outcome.not_started for outcome in outcomes):
            return "not_started"
        return "failed" if any(check.status == "failed" for check in checks) else "error"

    def _check(self, name: str, title: str) -> CheckResult:
        outcomes = self.of(name)
        if len(outcomes) != self.planned[name]:
            return CheckResult(name, title, "not_run", "this check did not report")
        bad = next((outcome for outcome in outcomes if outcome.status != "passed"), None)
        margins = _worst_of_each_dtype(m for outcome in outcomes for m in outcome.margins)
        worst = max(margins, key=lambda margin: margin.ratio, default=None)
        references = sorted({r for outcome in outcomes for r in outcome.references})
        return CheckResult(
            name=name,
            title=title,
            status=bad.status if bad else "passed",
            message=bad.message if bad else "",
            misconception=next((o.misconception for o in outcomes if o.misconception), None),
            max_abs_error=worst.max_abs_error if worst else None,
            tolerance=worst.tolerance if worst else None,
            margins=margins,
            reference=tuple(references),
            guards=self.guards[name],
            detail=bad.detail if bad else None,
        )


def _worst_of_each_dtype(margins: Iterable[Margin]) -> tuple[Margin, ...]:
    worst: dict[str, Margin] = {}
    for margin in margins:
        known = worst.get(margin.dtype)
        if known is None or margin.ratio > known.ratio:
            worst[margin.dtype] = margin
    return tuple(worst.values())


def sentence_of(failure: Exception) -> str:
    """What the learner is told."""
    if isinstance(failure, LearnerError):
        if failure.not_started:
            return f"not written yet ({failure.raised.text})"
        return failure.sentence
    return str(failure)


def frames_of(failure: Exception) -> tuple[Frame, ...]:
    """The lines of the learner's own that it came through."""
    if isinstance(failure, LearnerError) and not failure.not_started:
        lines = zip(failure.raised.frames, failure.places, strict=True)
        return tuple(Frame(line, name, code, cell) for (_, name, code), (line, cell) in lines)
    if isinstance(failure, UngradableError) and failure.line is not None:
        return (Frame(failure.line, "", failure.code, failure.cell),)
    return ()
