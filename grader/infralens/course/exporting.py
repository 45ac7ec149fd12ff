"""`nbgrader export` as CSV in which a comma in a name moves no grade to another column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.plugins import CsvExportPlugin

from infralens.course.cells import csv_text
from infralens.regular import write_whole

HEAD = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)  # as nbgrader's own


class ExportCsv(CsvExportPlugin):
    """The columns and rows of nbgrader's own, which writes names into its lines as they are."""

    def export(self, gradebook: Gradebook) -> None:
        """Write the file whole: `--to`, or grades.csv."""
        to = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", to)
        write_whole(to, csv_text(HEAD, self._rows(gradebook)))

    def _rows(self, gradebook: Gradebook) -> Iterator[tuple[object, ...]]:
        students, assignments = set(map(str, self.student)), set(map(str, self.assignment))
        for assignment in gradebook.assignments:
            for student in gradebook.students:
                wanted = not students or student.id in students
                if wanted and (not assignments or assignment.name in assignments):
                    yield _row(gradebook, assignment, student)


def _row(gradebook: Gradebook, assignment: Assignment, student: Student) -> tuple[object, ...]:
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        timestamp, raw, penalty = None, 0.0, 0.0
    else:
        timestamp, raw = submission.timestamp, submission.score
        penalty = submission.late_submission_penalty or 0.0
    return (
        *(assignment.name, assignment.duedate, timestamp),
        *(student.id, student.last_name, student.first_name, student.email),
        *(raw, penalty, max(0.0, raw - penalty), assignment.max_score),
    )
