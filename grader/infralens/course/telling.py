"""How much of a wrong answer a learner is told: a report with the rest left out.

Quick verdicts without end invite trying answers until one fits: before the deadline a course may
tell less.
"""

from __future__ import annotations

from dataclasses import replace

from infralens.course.record import Tells
from infralens.report import CheckResult, Detail, Report, TodoResult

TOLD_BY_NAME = "not paid; the course tells the name of a mistake, and no more before the deadline"
TOLD_BY_POINTS = "not paid; the course tells no more before the deadline"


def told(report: Report, tells: Tells) -> Report:
    """The report as the course tells it. What stopped the learner's own code is always told."""
    if tells == "everything":
        return report
    return replace(report, todos=tuple(_todo(todo, tells) for todo in report.todos))


def _todo(todo: TodoResult, tells: Tells) -> TodoResult:
    return replace(todo, checks=tuple(_check(check, todo, tells) for check in todo.checks))


def _check(check: CheckResult, todo: TodoResult, tells: Tells) -> CheckResult:
    if check.status != "failed":
        return check
    named = tells == "name" and check.misconception is not None
    known = check.detail
    detail = Detail(explanation=known.explanation, reads=known.reads) if named and known else None
    return replace(
        check,
        title=todo.title if tells == "points" else check.title,
        message=TOLD_BY_NAME if tells == "name" else TOLD_BY_POINTS,
        misconception=check.misconception if named else None,
        max_abs_error=None,
        tolerance=None,
        margins=(),
        detail=detail,
    )
