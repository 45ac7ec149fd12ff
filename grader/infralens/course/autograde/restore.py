"""The first pass over a submission: the notebook that was released, with the learner's answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import NbGraderPreprocessor

from infralens.course.autograde.place import course_of, exporter_of, place_of
from infralens.course.autograde.reading import (
    UNREADABLE,
    UnreadableNotebookError,
    excess_of,
    read_notebook,
)

SCHEMA_VERSION = 3
NEW = {"code": new_code_cell, "markdown": new_markdown_cell}


@dataclass(frozen=True)
class SourceCell:
    """A cell as the gradebook has it. `points` where it is graded."""

    name: str
    cell_type: str
    source: str
    locked: bool
    solution: bool
    points: float | None
    checksum: str | None


@dataclass
class _Slot:
    """A released cell of the submission, if it is there, and the learner's own cells after it."""

    source: str | None = None
    own: list[NotebookNode] = field(default_factory=list)


class RestoreCells(NbGraderPreprocessor):
    """Rebuilds the released notebook from the gradebook's cells.

    Of the submission it takes the sources of answer cells and the learner's own cells, in order.
    What an earlier grade of the submission paid is forgotten first: a grade that fails must not
    keep the old score.
    """

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """The notebook to grade, made of nothing but what is trusted and the learner's texts."""
        named = resources["nbgrader"]
        with Gradebook(named["db_url"]) as gradebook:
            forget_scores(gradebook, named["notebook"], named["assignment"], named["student"])
            cells = source_cells(gradebook, named["notebook"], named["assignment"])
        released = in_order(cells, course_of(self), named["assignment"], named["notebook"])
        reason = resources.get(UNREADABLE) or excess_of(nb)
        restored = new_notebook(cells=list(restored_cells(released, [] if reason else nb.cells)))
        if (lab := nb.metadata.get("infralens", {}).get("lab")) is not None:
            restored.metadata.infralens = {"lab": lab}
        if reason:
            self.log.warning("%s: the notebook is not read: %s", named["student"], reason)
            restored.metadata.infralens = {UNREADABLE: str(reason)}
        exporter_of(self).restored.add(place_of(named))
        return restored, resources


def forget_scores(gradebook: Gradebook, notebook: str, assignment: str, student: str) -> None:
    """Take back every automatic score of this submission; what a person gave stays."""
    try:
        submitted = gradebook.find_submission_notebook(notebook, assignment, student)
    except MissingEntry:
        return
    submitted.late_submission_penalty = None
    for grade in submitted.grades:
        grade.auto_score = None
        grade.needs_manual_grade = True
    gradebook.db.commit()


def source_cells(gradebook: Gradebook, notebook: str, assignment: str) -> list[SourceCell]:
    """The released cells, as `nbgrader generate_assignment` saved them."""
    known = gradebook.find_notebook(notebook, assignment)
    points = {cell.name: float(cell.max_score) for cell in known.grade_cells}
    solutions = {cell.name for cell in known.solution_cells}
    return [
        SourceCell(
            cell.name,
            cell.cell_type,
            cell.source or "",
            bool(cell.locked),
            cell.name in solutions,
            points.get(cell.name),
            cell.checksum,
        )
        for cell in known.source_cells
    ]


def in_order(
    cells: Iterable[SourceCell], course: Path, assignment: str, notebook: str
) -> list[SourceCell]:
    """The cells as they stand in the source notebook; the gradebook keeps no order of its own."""
    try:
        source = read_notebook(course / "source" / assignment / f"{notebook}.ipynb")
    except UnreadableNotebookError:
        return list(cells)  # as they were saved
    places = {_name(cell): place for place, cell in enumerate(source.cells)}
    return sorted(cells, key=lambda cell: places.get(cell.name, 0))


def restored_cells(
    released: Sequence[SourceCell], submitted: Iterable[NotebookNode]
) -> Iterator[NotebookNode]:
    """The released cells in their order, with the submission's answers and own cells in theirs.

    A cell that was copied counts once, where it stands last; its copies before are the learner's
    own. One that is missing is restored before own cells, which may hold what was in it.
    """
    before, slots = _sorted(released, list(submitted))
    waiting = before
    for cell in released:
        slot = slots.get(cell.name)
        if slot is not None:
            yield from waiting
            waiting = slot.own
        yield _restored(cell, slot)
    yield from waiting


def _sorted(
    released: Sequence[SourceCell], submitted: Sequence[NotebookNode]
) -> tuple[list[NotebookNode], dict[str, _Slot]]:
    names = {cell.name for cell in released}
    last = {_name(cell): place for place, cell in enumerate(submitted) if _name(cell) in names}
    before: list[NotebookNode] = []
    slots: dict[str, _Slot] = {}
    own = before
    for place, cell in enumerate(submitted):
        name = _name(cell)
        if last.get(name) == place:
            slots[name] = slot = _Slot(cell.source)
            own = slot.own
        else:
            own.append(_own(cell))
    return before, slots


def _name(cell: NotebookNode) -> str:
    name = cell.metadata.get("nbgrader", {}).get("grade_id")
    return name if isinstance(name, str) else ""


def _restored(cell: SourceCell, slot: _Slot | None) -> NotebookNode:
    answered = slot is not None and slot.source is not None and not cell.locked
    source = slot.source if answered and slot is not None else cell.source
    if answered and cell.cell_type == "markdown" and source != cell.source:
        source = _harmless(source or "")
    made = NEW[cell.cell_type](source)
    made.metadata.nbgrader = {
        "schema_version": SCHEMA_VERSION,
        "grade_id": cell.name,
        "grade": cell.points is not None,
        "solution": cell.solution,
        "locked": cell.locked,
        "task": False,
        "cell_type": cell.cell_type,
    }
    if cell.checksum:
        made.metadata.nbgrader["checksum"] = cell.checksum
    if cell.points is not None:
        made.metadata.nbgrader["points"] = cell.points
    return made


def _own(cell: NotebookNode) -> NotebookNode:
    """A cell of the learner's own: its text, and no mark of nbgrader's."""
    if cell.cell_type == "code":
        return new_code_cell(cell.source)
    return new_markdown_cell(_harmless(cell.source))


def _harmless(text: str) -> str:
    """Text as formgrader and feedback pages may show it: no script, no form in it."""
    clean: str = SanitizeHTML().sanitize_html_tags(text)
    return clean
