"""A notebook as a submission, read and never run: its cells, IPython's syntax, hostile JSON."""

from __future__ import annotations

import ast
import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from infralens.candidate.loading import begin, run_cell
from infralens.examiner.candidate.dialect import Refused, python_of
from infralens.examiner.candidate.notebook import MAX_BYTES, MAX_CELLS, MAX_CODE, cells_of
from infralens.examiner.candidate.submission import read_submission, require_gradable
from infralens.examiner.errors import UngradableError, UnreadableError


def code(source: Any, grade_id: str | None = None, **marks: Any) -> dict[str, Any]:
    metadata = {} if grade_id is None else {"nbgrader": {"grade_id": grade_id, **marks}}
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": []}


def text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def notebook(*cells: Any) -> bytes:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()


def test_code_cells_are_taken_in_order_and_check_cells_are_left_out() -> None:
    data = notebook(
        text("# Lab"),
        code("a = 1", "imports"),
        code(["def f():\n", "    return a\n"], "answer-3-1", solution=True, grade=False),
        code('check("3.1")', "check-3-1", grade=True, solution=False),
        code("  \n"),
        code('check("x")', "renamed", grade=True, solution=False),
        code("b = f()"),
    )
    cells = cells_of(data)
    assert [(cell.number, cell.first, cell.last) for cell in cells] == [
        (2, 1, 1),
        (3, 2, 3),
        (7, 4, 4),
    ]
    assert [cell.todo for cell in cells] == [None, "3.1", None]
    assert cells[1].names == {"f"}


def test_lines_of_the_whole_are_told_as_cell_and_line(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_bytes(
        notebook(text("hi"), code("a = 1\nb = 2"), code("x = (\n1"), code("def f(): 1"))
    )
    submission = read_submission(path)
    require_gradable(submission)
    assert submission.text == "a = 1\nb = 2\n# x = (\n# 1\ndef f(): 1"
    assert [submission.place(line) for line in (1, 2, 4, 5)] == [(1, 2), (2, 2), (2, 3), (1, 4)]
    assert submission.definitions["f"].line == 5
    assert submission.missing("F", "lab-03").endswith("on line 1 of cell 4. Did you rename it?")
    problem = submission.cells[1].problem
    assert problem is not None
    assert str(problem).startswith("syntax error on line 1 of cell 3: ")


IPYTHON = {
    "%load_ext infralens\nimport math": "pass\nimport math",
    "x = 1\n!pip install y\nz?\n?z": "x = 1\npass\npass\npass",
    "%time y = 2": "y = 2",
    "%%time\ny = 2": "\ny = 2",
    "%%time\n%matplotlib inline\ny = 2": "\npass\ny = 2",
    "%%bash\nrm -rf x": "# %%bash\n# rm -rf x",
    "if x:\n    %pip install \\\n      y\ny = 2": "if x:\n    pass\n\ny = 2",
    "  %pwd\n  y = 2": "pass\ny = 2",
    # what only looks like it
    "y = '''\n%matplotlib\n!x\n'''\nz = (1\n% 2)": None,
    "y = '''\n%run x\n'''  # it's\n%pwd": "y = '''\n%run x\n'''  # it's\npass",
    "y = (1  # (\n% 2)\n%pwd": "y = (1  # (\n% 2)\npass",
    "y = 'it\\'s'\n%pwd": "y = 'it\\'s'\npass",
    "y = 1 + \\\n% 2\n%pwd": "y = 1 + \\\n% 2\npass",
    "y = ''\nz = \"'''\"\n%pwd": "y = ''\nz = \"'''\"\npass",
    'y = """a"b"""\n%pwd': 'y = """a"b"""\npass',
    "y = 'unended\n%pwd": "y = 'unended\npass",
}


@pytest.mark.parametrize("source", IPYTHON)
def test_what_only_shows_or_sets_up_is_passed_over_and_lines_stay(source: str) -> None:
    expected = source if IPYTHON[source] is None else IPYTHON[source]
    assert python_of(source) == expected


@pytest.mark.parametrize(
    ("source", "what", "line"),
    [
        ("x = 1\n%run other.py", "%run", 2),
        ("files = !ls", "!ls", 1),
        ("x = %pwd", "%pwd", 1),
        ("\n%%writefile x.py\nx", "%%writefile", 2),
        ("%", "%", 1),
    ],
)
def test_what_could_bind_a_name_is_refused_in_a_sentence(source: str, what: str, line: int) -> None:
    refused = python_of(source)
    assert isinstance(refused, Refused)
    assert refused.sentence.startswith(f"{what} is IPython's")
    assert refused.line == line
    problem = cells_of(notebook(text(""), code(source)))[0].problem
    assert str(problem).startswith(f"cell 2 does not run: {what} is IPython's")


HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "deep": b"[" * 100_000,
    "a huge number": b'{"cells": ' + b"9" * 10_000 + b"}",
    "a list": b"[]",
    "no cells": b"{}",
    "cells of another kind": b'{"cells": [1]}',
    "an old format": b'{"worksheets": []}',
    "no text in a cell": notebook(code({"a": 1})),
    "text that is no list of text": notebook(code(["a", 1])),
    "too many cells": notebook(*[text("")] * (MAX_CELLS + 1)),
    "too much code": notebook(*[code("#" * (MAX_CODE // 2))] * 3),
    "not UTF-8": b"\xff\xfe{",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_notebook_is_told_in_a_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.IPYNB"
    path.write_bytes(HOSTILE[kind])
    submission = read_submission(path)
    with pytest.raises(UngradableError, match=r"notebook|cells") as caught:
        require_gradable(submission)
    assert "\n" not in str(caught.value)


STRANGE = {
    "null bytes": "x = 1\0",
    "half a character": "x = '\ud800'",
    "deep brackets": "(" * 10_000,
    "a page end": "x = (\f",
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_cell_that_cannot_be_parsed_stops_no_other(kind: str) -> None:
    strange, whole = cells_of(notebook(code(STRANGE[kind]), code("y = 2")))
    assert strange.problem is not None
    assert whole.problem is None
    ast.parse(strange.source)
    strange.source.encode()
    assert whole.first == 2


@pytest.mark.parametrize("metadata", [None, 1, {"nbgrader": []}, {"nbgrader": {"grade_id": 3}}])
def test_metadata_may_be_anything(metadata: Any) -> None:
    cell = {"cell_type": "code", "source": "x = 1", "metadata": metadata}
    assert [cell.todo for cell in cells_of(notebook(cell))] == [None]


def test_a_notebook_is_read_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(UnreadableError, match="larger than 8 MiB"):
        read_submission(path)


def test_cells_run_in_one_module_and_their_source_can_be_had() -> None:
    text = "import inspect\nclass A:\n    x = 1\n# x = (\nfound = inspect.getsource(A)"
    module = begin(text, "lab.ipynb")
    flags = run_cell(module, "import inspect\nclass A:\n    x = 1", 1)
    run_cell(module, "found = inspect.getsource(A)", 5, flags)
    assert module.found == "class A:\n    x = 1\n"
    with pytest.raises(ZeroDivisionError) as caught:
        run_cell(module, "\n1 / 0", 6)
    assert traceback.extract_tb(caught.tb)[-1].lineno == 7


def test_future_features_hold_for_the_cells_after_them() -> None:
    module = begin("", "lab.ipynb")
    flags = run_cell(module, "from __future__ import annotations", 1)
    run_cell(module, "def f(x: nowhere): pass", 2, flags)
    with pytest.raises(NameError):
        run_cell(module, "def f(x: nowhere): pass", 2)
