"""Passes of `nbgrader generate_assignment` that make of a source notebook what learners get.

They change only notebooks of this kit (those that name a lab in their metadata), so that a course
may hold others beside them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from traitlets import List, Unicode

from infralens.course.audit import Auditor
from infralens.course.notebooks import LEARNER
from infralens.labs import find_labs
from infralens.stubs import regions, stub_of

EXAMINER = {
    "display_name": "InfraLens examiner (no kernel: see nbgrader_config.py)",
    "language": "python",
    "name": "infralens-examiner",
}
Passed = tuple[NotebookNode, dict[str, Any]]


class GivenAwayError(RuntimeError):
    """Something that is released holds a line of an answer or of a suite; the text says which."""


class ClearAnswers(ClearSolutions):
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


class ForTheExaminer(NbGraderPreprocessor):
    """What the gradebook keeps names a kernel that nobody has.

    nbgrader's own autograde, which would run submissions beside what judges them, then fails
    instead of paying.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Passed:
        if is_ours(nb):
            nb.metadata.kernelspec = dict(EXAMINER)
        return nb, resources


class ForTheLearner(NbGraderPreprocessor):
    """What learners get opens with their own Python kernel."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Passed:
        if is_ours(nb):
            nb.metadata.kernelspec = dict(LEARNER)
        return nb, resources


class AuditRelease(NbGraderPreprocessor):
    """The last pass: nothing that is released holds a line of an answer or of a suite."""

    labs = List(Unicode(), help="Folders with labs of your own, as for `infralens --labs`.").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Passed:
        if is_ours(nb):
            auditor = auditor_of(tuple(self.labs))
            for cell in nb.cells:
                place = cell.metadata.get("nbgrader", {}).get("grade_id", "a cell without a name")
                held = {place: nbformat.writes(new_notebook(cells=[cell])).encode()}
                for finding in auditor.audit_files(held):
                    raise GivenAwayError(f"what would be released gives something away: {finding}")
        return nb, resources


@cache
def auditor_of(own_labs: tuple[str, ...]) -> Auditor:
    """Who knows the answers of the kit and of these folders; it takes a second to know them."""
    return Auditor(find_labs(map(Path, own_labs)))


def is_ours(nb: NotebookNode) -> bool:
    """Whether a notebook was made from a lab."""
    return isinstance(nb.metadata.get("infralens"), dict)
