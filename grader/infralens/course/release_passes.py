"""Passes of `nbgrader generate_assignment` that make of a source notebook what learners get.

They change only notebooks of this kit (those that name a lab in their metadata), so that a course
may hold others beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from traitlets import List, Unicode

from infralens.course.notebooks import LEARNER
from infralens.labs import Lab, find_lab, find_labs
from infralens.stubs import answer_lines, regions, stub_of

EXAMINER = {
    "display_name": "InfraLens examiner (no kernel: see nbgrader_config.py)",
    "language": "python",
    "name": "infralens-examiner",
}
Passed = tuple[NotebookNode, dict[str, Any]]


class LeakError(RuntimeError):
    """Something that is released holds a line of an answer or of a suite; the text says which."""


class ClearAnswers(ClearSolutions):  # type: ignore[misc]
    """Answers become the lines of the stub, which name the todo; other cells as nbgrader does."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Passed:
        self.ours = is_ours(nb)
        passed: Passed = super().preprocess(nb, resources)
        return passed

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> Passed:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if self.ours and name.startswith("answer-") and (found := regions(cell.source)):
            todo = name.removeprefix("answer-").replace("-", ".")
            cell.source = stub_of(cell.source, {part.owner: todo for part in found}).rstrip("\n")
            return cell, resources
        passed: Passed = super().preprocess_cell(cell, resources, cell_index)
        return passed


class ForTheExaminer(NbGraderPreprocessor):  # type: ignore[misc]
    """What the gradebook keeps names a kernel that nobody has.

    nbgrader's own autograde, which would run submissions beside what judges them, then fails
    instead of paying.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Passed:
        if is_ours(nb):
            nb.metadata.kernelspec = dict(EXAMINER)
        return nb, resources


class ForTheLearner(NbGraderPreprocessor):  # type: ignore[misc]
    """What learners get opens with their own Python kernel."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Passed:
        if is_ours(nb):
            nb.metadata.kernelspec = dict(LEARNER)
        return nb, resources


class AuditRelease(NbGraderPreprocessor):  # type: ignore[misc]
    """The last pass: nothing that is released holds a line of an answer or of a suite."""

    labs = List(Unicode(), help="Folders with labs of your own, as for `infralens --labs`.").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Passed:
        if is_ours(nb):
            lab = find_lab(nb.metadata.infralens["lab"], find_labs(map(Path, self.labs)))
            secret = secret_lines(lab)
            for cell in nb.cells:
                for line in map(str.strip, cell.source.splitlines()):
                    if line in secret:
                        place = cell.metadata.get("nbgrader", {}).get("grade_id", "a cell")
                        raise LeakError(f"{lab.short}: {place} holds a line of an answer: {line}")
        return nb, resources


def is_ours(nb: NotebookNode) -> bool:
    """Whether a notebook was made from a lab."""
    return isinstance(nb.metadata.get("infralens"), dict)


def secret_lines(lab: Lab) -> frozenset[str]:
    """The lines of the lab's answers and suite that stand in nothing that learners have."""
    assert lab.solution is not None
    secret = set(answer_lines(lab.solution.read_text(encoding="utf-8")))
    for path in lab.suite.glob("*.py"):
        secret.update(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    shown = [path for path in (lab.stub, lab.page) if path.is_file()]
    for path in shown:
        secret.difference_update(map(str.strip, path.read_text(encoding="utf-8").splitlines()))
    return frozenset(line for line in secret if line)
