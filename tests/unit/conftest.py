"""Small labs made on the fly, graded by one warm examiner; reports made by hand."""

from __future__ import annotations

import itertools
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from infralens.documents import judge_of
from infralens.grading import Examiner, examiner, grade
from infralens.labs import PACKAGE, Lab, place_at, read_lab
from infralens.report import CheckResult, Environment, Report, TodoResult

REPORT_SCHEMA = PACKAGE / "report.schema.json"
FOLDER = "lab_90_probe"
HEADER = "from typing import Any\nimport pytest\nimport torch\nfrom infralens.examiner import *\n"


def named(wrong: Mapping[str, tuple[str, str]]) -> list[dict[str, str]]:
    """The entries of misconceptions: under its name, what each replaces in the solution by what."""
    said = {"todo": "90.1", "reads": "#more"}
    return [
        {**said, "name": name, "says": f"It is {name}.", "replace": replace, "by": by}
        for name, (replace, by) in wrong.items()
    ]


@dataclass(frozen=True)
class Workshop:
    """Makes labs in a folder, each with a suite of its own, and grades submissions to them.

    Every report must be what its schema says.
    """

    folder: Path
    warm: Examiner
    numbers: Iterator[int]

    def lab(
        self,
        suite: str,
        *,
        todos: Sequence[str] = ("90.1",),
        solution: str = "",
        wrong: Mapping[str, tuple[str, str]] | str = "",
        suite_file: str | None = None,
        stub: str = "",
        **fields: Any,
    ) -> Lab:
        number = next(self.numbers)
        root = self.folder / f"labs-{number}"
        home = root / "suites" / "diffusers" / FOLDER
        home.mkdir(parents=True)
        name = suite_file or f"test_probe_{number}.py"
        (home / name).write_text(HEADER + textwrap.dedent(suite), encoding="utf-8")
        data = {"title": "Probe", "goal": "A lab for tests.", "file": "probe.py"}
        data |= {"reading": "handbook/probe.md#more"}
        listed = [{"id": id_, "title": f"Todo {id_}", "points": 2, "names": []} for id_ in todos]
        document = {**data, "todos": listed, **fields}
        (home / "lab.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        exercise = root / "exercises" / "diffusers" / FOLDER.replace("_", "-")
        exercise.mkdir(parents=True)
        (exercise / "probe.py").write_text(stub, encoding="utf-8")
        (exercise / "README.md").write_text("# Probe\n\nThe page.\n", encoding="utf-8")
        if solution:
            path = root / "solutions" / "diffusers" / FOLDER.replace("_", "-") / "probe.py"
            path.parent.mkdir(parents=True)
            path.write_text(textwrap.dedent(solution), encoding="utf-8")
        if wrong:
            text = wrong if isinstance(wrong, str) else yaml.safe_dump(named(wrong))
            (home / "wrong.yaml").write_text(text, encoding="utf-8")
        return read_lab(home / "lab.yaml", place_at(root))

    def submission(self, text: str) -> Path:
        path = self.folder / f"submission-{next(self.numbers)}.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def grade(self, lab: Lab, submission: str | Path, **options: Any) -> Report:
        path = submission if isinstance(submission, Path) else self.submission(submission)
        report = grade(lab, path, using=self.warm, **options)
        judge_of(REPORT_SCHEMA)(json.loads(report.to_json()))
        return report


@pytest.fixture(scope="session")
def warm() -> Iterator[Examiner]:
    with examiner(serve=True) as running:
        yield running


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, warm: Examiner) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"), warm, itertools.count(1))


@pytest.fixture
def warm_grade(monkeypatch: pytest.MonkeyPatch, warm: Examiner) -> None:
    """`infralens grade` in this process uses the warm examiner instead of a new one."""
    from infralens import grading

    @contextmanager
    def already_running(**options: Any) -> Iterator[Examiner]:
        with ExitStack():
            yield warm

    monkeypatch.setattr(grading, "examiner", already_running)


MakeReport = Callable[..., Report]


@pytest.fixture
def report_of() -> MakeReport:
    """A report of lab 03 with these todos; a todo is (id, points, status, checks)."""

    def make(
        *todos: tuple[str, int, Any, Sequence[CheckResult]], fault: str | None = None, **more: Any
    ) -> Report:
        results = tuple(
            TodoResult(id_, f"Title {id_}", points, points * (status == "passed"), status, tuple(c))
            for id_, points, status, c in todos
        )
        score = sum(todo.score for todo in results)
        fields: dict[str, Any] = {
            "lab": "diffusers/lab-03",
            "title": "Scheduler Reading",
            "submission": "scheduler.py",
            "score": score,
            "max_score": sum(todo.points for todo in results),
            "passed": all(todo.status == "passed" for todo in results) and fault is None,
            "seed": 7,
            "seconds": 1.25,
            "grader_error": fault,
            "environment": Environment("cpu", ("float32",), "3.11", "2.13", "0.42", "process"),
        }
        return Report(**{**fields, **more}, todos=results)

    return make


@pytest.fixture
def hostile_text() -> str:
    """What an attacker would like to see reach a terminal, an XML reader or a page."""
    return (
        "\x1b[2J\x1b]0;owned\x07 <script>&\"']]> \u202e\u2066 \ud800 \x00\x08\x7f \x9b31m "
        "\ufeff\ufffe [bold]no[/bold] :smile: " + "x" * 5000
    )
