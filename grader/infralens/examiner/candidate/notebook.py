"""A notebook (.ipynb) as a submission: its code cells, read as plain data and never run here."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import Any

from infralens.examiner.candidate.dialect import Refused, python_of
from infralens.examiner.errors import UngradableError

MAX_BYTES = 8 * 2**20  # with the pictures that its outputs hold
MAX_CELLS = 1000
MAX_CODE = 2**20  # characters of all its code: as much as a file may hold
NOT_A_NOTEBOOK = "the file is no notebook: {}; open it in Jupyter and save it again"
ANSWER = re.compile(r"answer-(\d{1,4})-(\d{1,4})")
DEFINES = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One code cell that is run. `number` counts all cells from 1, as they stand in the notebook.

    `first` is its first line in the text of the whole; `todo` is the one that its grade_id names;
    `problem` is why it cannot run: then `source` is a comment.
    """

    number: int
    first: int
    source: str
    todo: str | None
    names: frozenset[str]
    problem: UngradableError | None = None

    @property
    def last(self) -> int:
        return self.first + self.source.count("\n")


def cells_of(data: bytes) -> tuple[Cell, ...]:
    """The cells that are to run, in order. UngradableError where it is no notebook."""
    found: list[Cell] = []
    first, room = 1, MAX_CODE
    for number, entry in enumerate(_entries(data), start=1):
        if entry.get("cell_type") != "code" or _is_check(entry):
            continue
        source = _source(entry.get("source", ""), number)
        room -= len(source)
        if room < 0:
            raise UngradableError(f"its code cells hold more than {MAX_CODE >> 20} MiB")
        if source.strip():
            cell = _cell(number, first, source, _grade_id(entry))
            found.append(cell)
            first = cell.last + 1
    return tuple(found)


def _entries(data: bytes) -> list[dict[str, Any]]:
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UngradableError(NOT_A_NOTEBOOK.format("it is not UTF-8 text")) from None
    except json.JSONDecodeError as error:
        reason = f"its JSON is broken on line {error.lineno}"
        raise UngradableError(NOT_A_NOTEBOOK.format(reason)) from None
    except (ValueError, RecursionError, MemoryError):
        raise UngradableError(NOT_A_NOTEBOOK.format("its JSON cannot be read")) from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if isinstance(notebook, dict) and "worksheets" in notebook:
        raise UngradableError(NOT_A_NOTEBOOK.format("it has the old format 3"))
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise UngradableError(NOT_A_NOTEBOOK.format("it has no cells"))
    if len(cells) > MAX_CELLS:
        raise UngradableError(f"it has {len(cells):,} cells; a lab has room for {MAX_CELLS:,}")
    return cells


def _source(value: Any, number: int) -> str:
    """A cell's text: one string, or one a line."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    if not isinstance(value, str):
        raise UngradableError(NOT_A_NOTEBOOK.format(f"cell {number} holds no text"))
    return value.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def _nbgrader(entry: dict[str, Any]) -> dict[str, Any]:
    metadata = entry.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return marks if isinstance(marks, dict) else {}


def _grade_id(entry: dict[str, Any]) -> str:
    name = _nbgrader(entry).get("grade_id")
    return name if isinstance(name, str) else ""


def _is_check(entry: dict[str, Any]) -> bool:
    """A cell that asks for the verdict: it is no part of the answer."""
    marks = _nbgrader(entry)
    graded = marks.get("grade") is True and marks.get("solution") is not True
    return graded or _grade_id(entry).startswith("check-")


def _cell(number: int, first: int, source: str, grade_id: str) -> Cell:
    answer = ANSWER.match(grade_id)
    todo = f"{answer[1]}.{answer[2]}" if answer else None
    names = frozenset(DEFINES.findall(source))
    problem = _syntax_problem(source, number)
    if problem is not None:  # it may hold what only IPython reads
        python = python_of(source)
        if isinstance(python, Refused):
            problem = _refusal(python, number)
        else:
            problem, source = _syntax_problem(python, number), python
    if problem is not None:
        # Lines stay where they are, and what reads the whole text meets no error.
        source = "\n".join("# " + _plain(line) for line in source.split("\n"))
    return Cell(number, first, source, todo, names, problem)


def _plain(line: str) -> str:
    """A line that may stand in a comment: no null bytes, no halves of characters, no page ends."""
    text = line.encode("utf-8", "replace").decode("utf-8")
    return "".join(char if char.isprintable() or char == "\t" else " " for char in text)


def _refusal(refused: Refused, number: int) -> UngradableError:
    message = f"cell {number} does not run: {refused.sentence}"
    return UngradableError(message, refused.line, cell=number)


def _syntax_problem(source: str, number: int) -> UngradableError | None:
    try:
        source.encode("utf-8")
        ast.parse(source)
    except SyntaxError as error:
        line = error.lineno or 1
        message = f"syntax error on line {line} of cell {number}: {error.msg}"
        return UngradableError(message, line, (error.text or "").rstrip("\n"), cell=number)
    except UnicodeEncodeError:
        return UngradableError(f"cell {number} holds half a character, which is no text")
    except (ValueError, RecursionError, MemoryError) as error:
        return UngradableError(f"cell {number} cannot be parsed: {error}")
    return None
