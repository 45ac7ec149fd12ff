"""The pass in place of running a notebook: an examiner's verdict in every check cell."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Enum, Integer, List, Unicode

from infralens.course.autograde.bench import Question
from infralens.course.autograde.kept import forget, keep
from infralens.course.autograde.place import NotExaminedError, course_of, exporter_of, place_of
from infralens.course.autograde.plan import Pending
from infralens.course.autograde.reading import UNREADABLE, excess_of, read_notebook
from infralens.course.autograde.restore import in_order, restored_cells, source_cells
from infralens.course.autograde.words import explanation, unread
from infralens.course.kernel import NoVerdictError
from infralens.course.mixed_up import of_another_lab
from infralens.course.record import Assignment, Tells, read_record
from infralens.course.telling import told
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.labs import find_lab, find_labs
from infralens.report import Report, TodoResult

MOST_JOBS = 8
CHECK = re.compile(r"check-(\d{1,4})-(\d{1,4})")


class Examine(NbGraderPreprocessor):
    """Writes verdict and points of each todo into its check cell, where nbgrader reads them."""

    isolation = Enum(
        ["sandbox", "process"],
        "sandbox",
        help="What submissions run in. Without a sandbox here nothing is graded, unless this says "
        "'process': a program of a learner's can then read what you can read.",
    ).tag(config=True)
    labs = List(Unicode(), help="Folders with labs of your own, as for `infralens --labs`.").tag(
        config=True
    )
    jobs = Integer(
        min(os.cpu_count() or 1, MOST_JOBS),
        min=1,
        help="How many submissions are judged at once; each takes about a gigabyte of memory.",
    ).tag(config=True)

    def lacks(self) -> str | None:
        """Why nothing can be graded here; None when it can."""
        reason = unavailable() if self.isolation == "sandbox" else None
        if reason is None:
            return None
        return (
            f"Nothing is graded: there is no sandbox here ({reason}). "
            'If you accept what that means, set c.Examine.isolation = "process".'
        )

    def __call__(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Never left out: to nbgrader a check cell without output is full marks."""
        return self.preprocess(nb, resources)

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """The notebook with an explanation and a score in every check cell.

        NotExaminedError where a verdict is missing: nbgrader then counts the submission as failed.
        """
        if place_of(resources["nbgrader"]) not in exporter_of(self).restored:
            raise NotExaminedError("infralens.course.RestoreCells has to come first")
        if (reason := self.lacks()) is not None:
            raise NotExaminedError(reason)
        forget(course_of(self), resources["nbgrader"])
        assigned = self._assigned(resources["nbgrader"]["assignment"])
        checks = {_todo_of(cell): cell for cell in nb.cells if is_grade(cell) and _is_check(cell)}
        broken = nb.metadata.get("infralens", {}).get(UNREADABLE)
        if broken is not None:
            for cell in checks.values():
                _write(cell, unread(broken), 0.0)
            question = self._question(nb, resources["nbgrader"], assigned)
            keep(course_of(self), resources["nbgrader"], question, None, unread(broken))
            said = "cannot be read"
        else:
            said = self._judge(nb, resources, assigned, checks)
        exporter = exporter_of(self)
        so_far = exporter.plan.advance()
        self.log.info("%s: %s (%s)", resources["nbgrader"]["student"], said, so_far)
        if exporter.plan.is_done:  # a Jupyter server lives on
            exporter.bench.close()
        return nb, resources

    def _judge(
        self,
        nb: NotebookNode,
        resources: dict[str, Any],
        assigned: Assignment,
        checks: dict[str, NotebookNode],
    ) -> str:
        """Have the todos judged and write what came of it. Says the points in a few words."""
        question = self._question(nb, resources["nbgrader"], assigned)
        lab = question.lab
        mixed_up = of_another_lab(nb.metadata.get("infralens", {}).get("lab"), lab.id)
        report = self._report(question, resources["nbgrader"], mixed_up)
        results = {todo.id: todo for todo in report.todos}
        if set(checks) - set(results):
            missing = ", ".join(sorted(set(checks) - set(results)))
            raise NotExaminedError(f"{lab.short} has no todo {missing}: was its release changed?")
        shown = told(report, self._tells(resources["nbgrader"], assigned))
        if mixed_up:
            self.log.warning("%s: %s", resources["nbgrader"]["student"], mixed_up)
        total = 0.0
        for todo, result in zip(shown.todos, report.todos, strict=True):
            if todo.id in checks:
                cell = checks[todo.id]
                most = float(cell.metadata.nbgrader["points"])
                score = most if _is_passed(result) else 0.0
                total += score
                said = explanation(todo, shown, score, most)
                _write(cell, said if score or not mixed_up else f"{mixed_up}\n\n{said}", score)
        for note in report.notes:
            self.log.info("%s, %s: %s", resources["nbgrader"]["student"], note.place, note.text)
        most = sum(float(cell.metadata.nbgrader["points"]) for cell in checks.values())
        return f"{total:g} of {most:g} points"

    def _tells(self, named: dict[str, str], assigned: Assignment) -> Tells:
        """How much is told: once the deadline is over, everything."""
        if assigned.tells == "everything":
            return assigned.tells
        with Gradebook(named["db_url"]) as gradebook:
            due = gradebook.find_assignment(named["assignment"]).duedate
        over = due is not None and due.replace(tzinfo=UTC) < datetime.now(UTC)  # nbgrader's is UTC
        return "everything" if over else assigned.tells

    def _question(self, nb: NotebookNode, named: dict[str, str], assigned: Assignment) -> Question:
        lab = find_lab(assigned.lab, find_labs(map(Path, self.labs)))
        name = f"{named['notebook']}.ipynb"
        labs = tuple(self.labs)
        return Question(lab, labs, assigned.seed, self.isolation, name, to_examine(nb))

    def _report(self, question: Question, named: dict[str, str], remark: str) -> Report:
        bench, plan = exporter_of(self).bench, exporter_of(self).plan
        bench.ask(question)
        for pending in plan.after(named, bench.at_once):
            self._ask_ahead(pending, named["db_url"])
        try:
            report = bench.report(question)
        except NoVerdictError as error:
            raise NotExaminedError(str(error)) from None
        keep(course_of(self), named, question, report, remark=remark)
        if report.grader_error is not None:
            raise NotExaminedError(f"the grader failed: {report.grader_error}")
        return report

    def _ask_ahead(self, pending: Pending, db_url: str) -> None:
        """Have a later submission judged meanwhile. What is wrong with it is told in its turn."""
        named = {"notebook": pending.notebook, "assignment": pending.assignment}
        try:
            submitted = read_notebook(pending.path)
            if not excess_of(submitted):
                with Gradebook(db_url) as gradebook:
                    cells = source_cells(gradebook, **named)
                released = in_order(cells, course_of(self), **named)
                restored = new_notebook(cells=list(restored_cells(released, submitted.cells)))
                assigned = self._assigned(pending.assignment)
                exporter_of(self).bench.ask(self._question(restored, named, assigned))
        except Exception as error:
            self.log.debug("%s is not judged ahead of its turn: %s", pending.path, error)

    def _assigned(self, assignment: str) -> Assignment:
        record = read_record(course_of(self))
        if record is None or assignment not in record.assignments:
            raise NotExaminedError(
                f"{assignment} is no assignment of this kit: `infralens release nbgrader` makes "
                "one. An assignment of nbgrader's own needs a course of its own."
            )
        return record.assignments[assignment]


def to_examine(nb: NotebookNode) -> str:
    """The notebook as an examiner reads it: code, names and marks, and nothing that varies."""
    cells = [
        {
            "cell_type": cell.cell_type,
            "metadata": {"nbgrader": _marks(cell)},
            "source": cell.source if cell.cell_type == "code" else "",
        }
        for cell in nb.cells
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _marks(cell: NotebookNode) -> dict[str, Any]:
    marks = cell.metadata.get("nbgrader", {})
    return {name: marks[name] for name in ("grade_id", "grade", "solution") if name in marks}


def _is_check(cell: NotebookNode) -> bool:
    """Whether its points come from a verdict; the others a person gives."""
    return not is_solution(cell)


def _todo_of(cell: NotebookNode) -> str:
    name = cell.metadata.nbgrader["grade_id"]
    found = CHECK.fullmatch(name)
    if found is None or cell.cell_type != "code":
        raise NotExaminedError(f"{name} is graded, and is no check of this kit")
    return f"{found[1]}.{found[2]}"


def _is_passed(todo: TodoResult) -> bool:
    return todo.status == "passed" and todo.score == todo.points


def _write(cell: NotebookNode, said: str, score: float) -> None:
    """What nbgrader reads of a cell: its first result is the score. It never lacks one."""
    most = float(cell.metadata.nbgrader["points"])
    assert 0 <= score <= most
    cell.outputs = [
        new_output("display_data", {"text/plain": said}),
        new_output("execute_result", {"text/plain": repr(score)}, execution_count=None),
    ]
