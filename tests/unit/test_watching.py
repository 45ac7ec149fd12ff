"""`infralens watch`: what is graded first, how reports are put together and pictures drawn."""

from __future__ import annotations

import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from infralens import watching
from infralens.grading import Examiner
from infralens.labs import find_lab, find_labs
from infralens.report import CheckResult
from infralens.watching import Wanted, Watch, changed_todos, together
from infralens.workspace import Workspace, read_progress

LAB = find_lab("lab-03", find_labs())
BEFORE = """
import math

HALF = 0.5

def helper(x):
    return x * HALF

def timesteps(config, n):
    return helper(n)

class Euler:
    def step(self):
        return math.pi
"""
FAILED = CheckResult("a", "A.", "failed", message="off")


@pytest.mark.parametrize(
    ("right", "wrong", "todos"),
    [
        ("return helper(n)", "return n", {"3.1"}),
        ("return x * HALF", "return x", {"3.1"}),
        ("math.pi", "math.e", {"3.3"}),
        ("import math", "import cmath as math", {"3.3"}),
        ("import math", "import math  # of course", set()),
        ("class Euler", "class Eulerr", {"3.3"}),
    ],
)
def test_the_todos_whose_functions_changed_are_known(
    right: str, wrong: str, todos: set[str]
) -> None:
    assert changed_todos(LAB, BEFORE, BEFORE.replace(right, wrong)) == todos


def test_at_first_and_after_a_syntax_error_nothing_is_preferred() -> None:
    assert changed_todos(LAB, "", BEFORE) == frozenset()
    assert changed_todos(LAB, BEFORE, "def (") >= {"3.1", "3.3"}


def test_parts_of_a_report_are_one_report_in_the_lab_s_order(report_of: Any) -> None:
    first = report_of(("3.3", 4, "failed", [FAILED]))
    rest = report_of(("3.1", 2, "passed", []), ("3.2", 2, "passed", []))
    whole = together([first, rest], LAB)
    assert [todo.id for todo in whole.todos] == ["3.1", "3.2", "3.3"]
    assert (whole.score, whole.max_score, whole.passed) == (4, 8, False)
    void = together([first, replace(rest, grader_error="ended")], LAB)
    assert (void.score, void.passed, void.grader_error) == (0, False, "ended")


def watch_on(stream: io.StringIO, here: Path, report: Any, *, terminal: bool) -> Watch:
    console = Console(file=stream, force_terminal=terminal, width=60)
    nobody = cast(Examiner, None)
    one = Watch(
        Wanted(LAB, here / "scheduler.py"),
        Workspace(here),
        console,
        nobody,
        "infralens",
        following=lambda lab: None,
        read=lambda page: None,
    )
    one.report = report
    return one


def test_a_picture_is_drawn_over_the_last_one(report_of: Any, tmp_path: Path) -> None:
    stream = io.StringIO()
    watch_on(stream, tmp_path, report_of(("3.3", 4, "failed", [FAILED])), terminal=True).show()
    drawn = stream.getvalue()
    assert drawn.startswith("\x1b[H")
    assert "\x1b[2J" not in drawn
    assert all(line.endswith("\x1b[K") for line in drawn.splitlines()[:-1])
    assert "h hint" in drawn


def test_what_the_examiner_printed_is_part_of_the_picture(report_of: Any, tmp_path: Path) -> None:
    stream = io.StringIO()
    one = watch_on(stream, tmp_path, report_of(("3.3", 4, "failed", [FAILED])), terminal=True)
    one.printed.append("the suite speaks\n")
    one.show()
    assert "the suite speaks\n" in re.sub(r"\x1b\[[0-9;]*[mK]", "", stream.getvalue())


@pytest.mark.parametrize(("seed", "kept"), [(None, 2), (7, 0)])
def test_a_seed_that_one_chose_does_not_count(
    report_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int | None, kept: int
) -> None:
    (tmp_path / ".infralens").mkdir()
    report = report_of(("3.1", 2, "passed", []))
    monkeypatch.setattr(watching, "grade", lambda *given, **more: report)
    one = watch_on(io.StringIO(), tmp_path, None, terminal=False)
    one.wanted = replace(one.wanted, seed=seed)
    one.grade()
    assert read_progress(one.here)[0].score(LAB) == kept


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_what_is_too_large_or_waits_is_not_read_to_see_what_changed(tmp_path: Path) -> None:
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(2**40)
    os.mkfifo(tmp_path / "pipe.py")
    assert watching._text(tmp_path / "large.py") == ""
    assert watching._text(tmp_path / "pipe.py") == ""


def test_keys_give_hints_read_go_on_and_quit(report_of: Any, tmp_path: Path) -> None:
    (tmp_path / ".infralens").mkdir()
    stream = io.StringIO()
    one = watch_on(stream, tmp_path, report_of(("3.3", 4, "failed", [FAILED])), terminal=False)
    read: list[str] = []
    one.read = read.append
    assert all(map(one.press, "hhxrn"))
    said = " ".join(stream.getvalue().split())
    assert " ".join(LAB.todo("3.3").hints[1].split()) in said
    assert "There is no other lab here" in said
    assert read == ["lab-03"]
    assert not one.press("q")
