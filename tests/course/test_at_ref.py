"""`infralens check --ref`: a line for each lab that is missing there or short of full marks.

`.ci/run` grades every lab so; here the grades are made up.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infralens.authoring import at_ref
from infralens.cli import main
from infralens.course.plumbing import Change, Repository
from infralens.labs import Lab, find_labs
from infralens.report import Environment, Report, TodoResult

LABS = find_labs()[:3]
NAMES = [word for lab in LABS for word in ("--lab", lab.id)]
RIGHT, WRONG, BROKEN = b"right", b"wrong", b"broken"


def graded(lab: Lab, path: Path, **wishes: Any) -> Report:
    """A report as the examiner gives it, by what stands in the file."""
    assert wishes["wishes"].naming == "none"
    assert wishes["isolation"] == "auto"
    data = path.read_bytes()
    todos = tuple(
        TodoResult(todo.id, todo.title, todo.points, todo.points, "passed", ())
        for todo in lab.todos
    )
    if data == WRONG:
        todos = (replace(todos[0], score=0, status="failed"), *todos[1:])
    score = sum(todo.score for todo in todos)
    return Report(
        lab=lab.id,
        title=lab.title,
        submission=str(path),
        score=score,
        max_score=lab.max_score,
        passed=score == lab.max_score and data != BROKEN,
        seed=7,
        seconds=0.0,
        grader_error="it broke" if data == BROKEN else None,
        environment=Environment("cpu", ("float32",), "3", "2", "0", "process"),
        todos=todos,
    )


@contextlib.contextmanager
def no_examiner(*, serve: bool) -> Iterator[None]:
    assert serve
    yield


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Branch full has all right, short three faults; in ours solutions/ goes before exercises/."""
    monkeypatch.setattr(at_ref, "grade", graded)
    monkeypatch.setattr(at_ref, "examiner", no_examiner)
    made = Repository.begun(tmp_path / "labs")
    paths = [f"{lab.track}/{lab.folder}/{lab.file}" for lab in LABS]
    right = {f"exercises/{path}": RIGHT for path in paths}
    made.write("refs/heads/full", Change("full", right))
    made.write("refs/heads/short", Change("short", {f"exercises/{paths[0]}": WRONG, "a": b""}))
    stubs = {f"exercises/{path}": WRONG for path in paths}
    made.write("refs/heads/ours", Change("o", stubs | {f"solutions/{p}": RIGHT for p in paths}))
    made.write("refs/heads/broken", Change("b", right | {f"exercises/{paths[1]}": BROKEN}))
    return made.folder


def check(repository: Path, *words: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(main, ["check", "--repo", str(repository), *words])
    return done.exit_code, done.output.splitlines()


@pytest.mark.parametrize("ref", ["full", "ours"])
def test_full_marks_everywhere_are_one_line(repository: Path, ref: str) -> None:
    said = [f"3 of 3 labs have full marks at {ref}."]
    assert check(repository, "--ref", ref, *NAMES) == (0, said)
    assert os.listdir(repository) == [".git"]  # noqa: PTH208  # the working tree is left alone


def test_a_lab_that_is_missing_or_short_is_one_line_and_exit_1(repository: Path) -> None:
    first, second, third = LABS
    code, said = check(repository, "--ref", "short", *NAMES)
    assert code == 1
    points = f"{first.max_score - first.todos[0].points} of {first.max_score} points"
    assert said == [
        f"{first.short}: {points}, {first.todos[0].id} is not right (seed 7)",
        *(
            f"{lab.short}: there is no exercises/{lab.track}/{lab.folder}/{lab.file}"
            for lab in (second, third)
        ),
        "0 of 3 labs have full marks at short.",
    ]


def test_a_grader_that_fails_is_exit_3(repository: Path) -> None:
    code, said = check(repository, "--ref", "broken", *NAMES)
    assert code == 3
    assert said[0] == f"{LABS[1].short}: the grader failed: it broke"


def test_what_is_no_revision_or_no_grade_is_wrong_usage(repository: Path) -> None:
    for words in (["--ref", "nothing"], ["--ref", "full", "--margins"], ["--lab", "lab-01"]):
        code, (said,) = check(repository, *words)
        assert code == 2
        assert said.startswith("infralens: ")


def test_a_solution_of_such_a_branch_is_shown(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    done = CliRunner().invoke(main, ["solution", "lab-01", "--give-up", "--ref", "full"])
    assert (done.exit_code, done.output) == (0, "right")


def test_there_is_git(repository: Path) -> None:
    """What makes the branches above is the writer of releases; git itself agrees."""
    subprocess.run(["git", "-C", str(repository), "fsck", "--strict"], check=True)
