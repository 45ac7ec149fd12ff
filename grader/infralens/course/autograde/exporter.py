"""The exporter of `nbgrader autograde`: reads what was handed in, and keeps the examiner warm."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.converters.base import NbGraderException

from infralens.course.autograde.bench import Bench
from infralens.course.autograde.examine import Examine
from infralens.course.autograde.fit import made_fit
from infralens.course.autograde.plan import Plan, unfinished
from infralens.course.autograde.reading import (
    UNREADABLE,
    UnreadableNotebookError,
    read_notebook,
)
from infralens.show.harmless import one_line


class TolerantExporter(NotebookExporter):
    """Reads any file: what is no notebook becomes an empty one, whose answers are all missing.

    One exporter serves all submissions of one `nbgrader autograde`, and so do its examiners.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        examine = Examine(parent=self)
        reason = examine.lacks()
        if reason is not None:  # before any submission is touched: what is graded stays graded
            self.log.error(reason)
            raise NbGraderException(reason)
        # Nothing that stands in a notebook says so: a learner may have written it.
        self.restored: set[tuple[str, str, str]] = set()
        self._make_fit()
        for folder in unfinished(self.parent):
            self.log.warning("%s was left unfinished, and is graded again", one_line(str(folder)))
            shutil.rmtree(folder)
        self.plan, self.bench = Plan.of(self.parent), Bench(examine.jobs)
        weakref.finalize(self, self.bench.close)

    def _make_fit(self) -> None:
        """NbGraderException where nothing is left to grade."""
        said = list(made_fit(self.parent))
        for sentence in said:
            self.log.warning(sentence)
        if said and not self.parent.assignments:
            raise NbGraderException(said[-1])

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """nbgrader's notebook and resources; `resources` says why a file could not be read."""
        resources = dict(resources or {})
        path = Path(filename)
        resources["metadata"] = {"name": path.stem, "path": str(path.parent)}
        try:
            notebook = read_notebook(path)
        except UnreadableNotebookError as error:
            notebook = new_notebook()
            resources[UNREADABLE] = str(error)
        converted: tuple[NotebookNode, dict[str, Any]] = self.from_notebook_node(
            notebook, resources, **kwargs
        )
        return converted
