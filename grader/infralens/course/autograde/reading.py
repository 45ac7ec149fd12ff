"""A submitted notebook as bytes → a plain notebook of texts. Nothing else of it is kept."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from infralens.course.outputs import EXAMINED, MOST_BYTES, TOO_LARGE, without_outputs
from infralens.regular import read_regular

MOST_CELLS = 900  # with those that were released an examiner takes a thousand
MOST_TEXT = 2**21  # characters
UNREADABLE = "infralens_unreadable"  # where resources and metadata hold why one is not read
NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class UnreadableNotebookError(ValueError):
    """What was handed in is no notebook; the text says why."""


def read_notebook(path: Path) -> NotebookNode:
    """The notebook in a file: of each cell its kind, its text and its nbgrader metadata.

    UnreadableNotebookError where there is none.
    """
    try:
        whole = without_outputs(read_regular(path, MOST_BYTES, follow=False))
    except OSError as error:
        too_large = f"it is {TOO_LARGE}" if error.errno == errno.EFBIG else ""
        raise UnreadableNotebookError(too_large or error.strerror or str(error)) from None
    if len(whole) > EXAMINED:
        raise UnreadableNotebookError(f"without outputs it is larger than {EXAMINED >> 20} MiB")
    try:
        data = json.loads(whole.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise UnreadableNotebookError(f"its JSON is broken on line {error.lineno}") from None
    except (ValueError, RecursionError, MemoryError):
        raise UnreadableNotebookError("it is no JSON") from None
    cells = data.get("cells") if isinstance(data, dict) else None
    if not isinstance(cells, list):
        raise UnreadableNotebookError("it has no cells")
    notebook = new_notebook(cells=[cell for entry in cells if (cell := _cell(entry)) is not None])
    metadata = data.get("metadata")
    ours = metadata.get("infralens") if isinstance(metadata, dict) else None
    if isinstance(ours, dict):
        notebook.metadata.infralens = _plain(ours)
    return notebook


def excess_of(notebook: NotebookNode) -> str:
    """What a submission has more of than a lab has room for; "" where nothing."""
    if len(notebook.cells) > MOST_CELLS:
        return f"it has {len(notebook.cells):,} cells; a lab has room for {MOST_CELLS:,}"
    size = sum(len(cell.source) for cell in notebook.cells)
    return f"it holds {size:,} characters, too many for a lab" if size > MOST_TEXT else ""


def _cell(entry: Any) -> NotebookNode | None:
    """The cell; None for what is none, which Jupyter would not show either."""
    kind = entry.get("cell_type") if isinstance(entry, dict) else None
    new = NEW.get(kind) if isinstance(kind, str) else None
    source = entry.get("source", "") if new is not None else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if new is None or not isinstance(source, str):
        return None
    cell = new(_text(source))
    metadata = entry.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if isinstance(marks, dict):
        cell.metadata.nbgrader = _plain(marks)
    return cell


def _plain(marks: dict[str, Any]) -> dict[str, Any]:
    """The entries that are a text, a number or a truth value."""
    return {
        _text(name): _text(value) if isinstance(value, str) else value
        for name, value in marks.items()
        if isinstance(value, str | bool | int | float)
    }


def _text(text: str) -> str:
    """The text without halves of characters, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
