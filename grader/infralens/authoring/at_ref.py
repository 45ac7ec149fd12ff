"""`infralens check --ref`: what stands at a git revision has full marks, lab by lab."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infralens.grading import Wishes, examiner, grade
from infralens.labs import Lab
from infralens.report import Report
from infralens.revisions import MOST_FOLDER_BYTES, write_folder_at

WHERE = ("solutions", "exercises")  # this project's answers; else a branch with them filled in
MARKS_ALONE = Wishes(naming="none", stop="first failure")


@dataclass(frozen=True)
class AtRef:
    """A lab at a revision; without a report it is missing there, at `path` in the repository."""

    lab: Lab
    path: str
    report: Report | None

    @property
    def problem(self) -> str | None:
        """One sentence where it has not full marks."""
        if self.report is None:
            return f"{self.lab.short}: there is no {self.path}"
        if self.report.grader_error:
            return f"{self.lab.short}: the grader failed: {self.report.grader_error}"
        if self.report.passed:
            return None
        lacking = ", ".join(todo.id for todo in self.report.todos if todo.score < todo.points)
        points = f"{self.report.score} of {self.report.max_score} points"
        return f"{self.lab.short}: {points}, {lacking} is not right (seed {self.report.seed})"


def grade_at(
    labs: Sequence[Lab],
    repository: Path,
    ref: str,
    *,
    on_lab: Callable[[Lab], None] = lambda lab: None,
) -> Iterator[AtRef]:
    """Grade every lab's file at a revision of the repository around a folder, in one examiner.

    RevisionError where there is no such revision. The working tree is neither read nor written.
    """
    with tempfile.TemporaryDirectory(prefix="infralens-ref-") as name, examiner(serve=True) as warm:
        root = Path(name)
        folder = write_folder_at(repository, ref, WHERE, root, most_bytes=MOST_FOLDER_BYTES)
        for lab in labs:
            on_lab(lab)
            path = f"{folder}/{lab.track}/{lab.folder}/{lab.file}"
            report = None
            if (root / path).is_file():
                report = grade(lab, root / path, isolation="auto", wishes=MARKS_ALONE, using=warm)
            yield AtRef(lab, path, report)
