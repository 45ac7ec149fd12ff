"""The report of each submission, kept in the course beside nbgrader's points, for class-report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from infralens.course.autograde.bench import Question
from infralens.course.code import code_digest
from infralens.course.kit import kit_of
from infralens.course.results import REPORTS, Result, key_of, place_of, write_result
from infralens.report import Report


def forget(course: Path, named: Mapping[str, str]) -> None:
    """Remove what an earlier grade left: should this one fail, it must not be shown as this one's.

    `named` holds nbgrader's names: student, assignment, notebook.
    """
    place_of(course / REPORTS, named["assignment"], named["student"]).unlink(missing_ok=True)


def keep(
    course: Path,
    named: Mapping[str, str],
    question: Question,
    report: Report | None,
    refused: str | None = None,
    remark: str = "",
) -> None:
    """Write what came of a submission, with its cells as they were judged."""
    data, lab = question.text.encode("utf-8", "backslashreplace"), question.lab
    file = f"{named['student']}/{named['assignment']}/{question.name}"
    sha256, kit = hashlib.sha256(data).hexdigest(), kit_of(lab)
    result = Result(
        learner=named["student"],
        assignment=named["assignment"],
        lab=lab.id,
        file=file,
        sha256=sha256,
        code=code_digest(data, question.name),
        key=key_of(sha256, kit, lab.id, question.seed, question.isolation),
        kit=kit,
        report=None if report is None else replace(report, submission=file),
        refused=refused,
        remark=remark,
    )
    write_result(course / REPORTS, result)
