"""The examiner's last event → Report. Only what fits the request is believed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from infralens.examiner.errors import UnfitResultError
from infralens.examiner.service.protocol import Request
from infralens.report import CheckResult, Environment, Note, Report, TodoResult, todo_result


def report_of(request: Request, event: dict[str, Any], started: float) -> Report:
    """The report; UnfitResultError where the event does not fit what was asked.

    What is known here already is not taken from the event.
    """
    try:
        fault = event["grader_error"]
        todos = _fitting(request, [todo_result(data) for data in event["todos"]], whole=not fault)
        environment = _environment(request, event["environment"])
        notes = tuple(Note(**note) for note in event["notes"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnfitResultError(f"{type(error).__name__}: {error}") from None
    return Report(
        lab=request.lab.id,
        title=request.lab.title,
        submission=str(request.submission),
        score=0 if fault else sum(todo.score for todo in todos),
        max_score=sum(todo.points for todo in todos),
        passed=fault is None and all(todo.status == "passed" for todo in todos),
        seed=request.seed,
        seconds=round(time.monotonic() - started, 3),
        grader_error=fault,
        environment=environment,
        todos=todos,
        notes=notes,
    )


def _fitting(
    request: Request, results: Sequence[TodoResult], *, whole: bool
) -> tuple[TodoResult, ...]:
    """The results, of todos that were asked for; of all of them when the run was `whole`."""
    declared = {todo.id: todo for todo in request.wanted}
    ids = [result.id for result in results]
    if len(set(ids)) < len(ids) or not set(ids) <= set(declared):
        raise UnfitResultError("it holds todos that were not asked for")
    if whole and len(ids) < len(declared):
        raise UnfitResultError("todos are missing in it")
    fitted = []
    for result in results:
        todo = declared[result.id]
        if result.points != todo.points or result.score not in (0, todo.points):
            raise UnfitResultError(f"{todo.id} has other points")
        if (result.score == todo.points) != (result.status == "passed"):
            raise UnfitResultError(f"{todo.id} is paid and not passed, or passed and not paid")
        if result.status == "passed" and not _all_passed(result):
            raise UnfitResultError(f"{todo.id} is paid without its checks")
        fitted.append(replace(result, title=todo.title, points=todo.points))
    return tuple(fitted)


def _all_passed(result: TodoResult) -> bool:
    return bool(result.checks) and all(check.status == "passed" for check in result.checks)


def _environment(request: Request, told: dict[str, Any]) -> Environment:
    if told["isolation"] != request.level:
        raise UnfitResultError(f"it was asked for with isolation {request.level}")
    if request.device != "auto" and told["device"] != request.device:
        raise UnfitResultError(f"it was asked for on {request.device}")
    return Environment(**{**told, "dtype": request.lab.dtypes, "isolation": request.level})


def void_report(request: Request, reason: str, started: float) -> Report:
    """The report of a run in which the grader, not the submission, failed."""
    wanted = request.wanted
    check = CheckResult("run", "The run", "not_run", "the grader failed")
    empty = Environment(request.device, request.lab.dtypes, "", "", "", "")
    report = Report(
        lab=request.lab.id,
        title=request.lab.title,
        submission=str(request.submission),
        score=0,
        max_score=sum(todo.points for todo in wanted),
        passed=False,
        seed=request.seed,
        seconds=round(time.monotonic() - started, 3),
        grader_error=reason,
        environment=empty,
    )
    todos = tuple(
        TodoResult(todo.id, todo.title, todo.points, 0, "error", (check,)) for todo in wanted
    )
    return replace(report, todos=todos)
