"""The passes of `nbgrader autograde` one by one: what is read, restored, asked and written."""

from __future__ import annotations

import json
import os
import threading
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.converters.base import NbGraderException
from nbgrader.utils import determine_grade
from traitlets.config import Config, LoggingConfigurable

from infralens.course import Examine, TolerantExporter
from infralens.course.autograde import bench, examine, fit, plan
from infralens.course.autograde.bench import Bench, Question
from infralens.course.autograde.examine import to_examine
from infralens.course.autograde.place import NotExaminedError
from infralens.course.autograde.plan import Pending, Plan
from infralens.course.autograde.reading import (
    MOST_CELLS,
    MOST_TEXT,
    UNREADABLE,
    UnreadableNotebookError,
    excess_of,
    read_notebook,
)
from infralens.course.autograde.restore import SourceCell, restored_cells
from infralens.course.autograde.words import explanation
from infralens.course.kernel import NoVerdictError
from infralens.course.record import Assignment, Record, write_record
from infralens.course.results import REPORTS, read_results
from infralens.course.telling import told
from infralens.labs import find_lab, find_labs
from infralens.report import CheckResult, Detail, Environment, Frame, Report, TodoResult

LAB = find_lab("lab-03", find_labs())
OWN = Path(__file__).resolve().parents[1] / "attacks" / "lab"

# Reading


def written(path: Path, *cells: Any, **more: Any) -> Path:
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, **more}), encoding="utf-8")
    return path


@pytest.fixture
def class_of(tmp_path: Path) -> Any:
    """A function that hands in notebooks of these learners, and gives nbgrader's plan of them."""

    def hand_in(*learners: str) -> Any:
        folders = [tmp_path / "submitted" / learner / "lab-03" for learner in learners]
        for folder in folders:
            folder.mkdir(parents=True)
            written(folder / "scheduler.ipynb")
        return SimpleNamespace(
            coursedir=SimpleNamespace(root=str(tmp_path), submitted_directory="submitted"),
            assignments={str(f): [str(f / "scheduler.ipynb")] for f in folders},
        )

    return hand_in


def test_links_pipes_and_what_is_no_time_are_set_aside_and_told(
    class_of: Any, tmp_path: Path
) -> None:
    converter = class_of("ada", "bob")
    ada, bob = (tmp_path / "submitted" / learner / "lab-03" for learner in ("ada", "bob"))
    (tmp_path / "secret").write_text("mine", encoding="utf-8")
    (ada / "timestamp.txt").write_text("2026-11-30 10:00:00.5 UTC\n", encoding="utf-8")
    (ada / "data").mkdir()
    (ada / "data/mine.txt").write_text("x", encoding="utf-8")
    assert list(fit.made_fit(converter)) == []
    (ada / "data/link.txt").symlink_to(tmp_path / "secret")
    os.mkfifo(bob / "timestamp.txt")
    first, second = fit.made_fit(converter)
    assert first.startswith("ada/lab-03: data/link.txt cannot be used")
    assert second.startswith("bob/lab-03: timestamp.txt cannot be used")
    assert sorted(path.name for path in ada.rglob("*.txt")) == ["mine.txt", "timestamp.txt"]
    assert len(converter.assignments) == 2
    kept = {path.name for path in (tmp_path / "set-aside").rglob("*.txt")}
    assert kept == {"link.txt", "timestamp.txt"}
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "text",
    [b"", b"when I like", b"\xff", b"1" * 400, b"0001-01-01 00:00:00"],
)
def test_a_timestamp_that_would_stop_formgrader_is_none(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "timestamp.txt").write_bytes(text)
    (tmp_path / "data").mkdir()
    assert fit.unfit(tmp_path) == [tmp_path / "timestamp.txt"]
    (tmp_path / "timestamp.txt").unlink()
    (tmp_path / "timestamp.txt").symlink_to("data")
    assert fit.unfit(tmp_path) == [tmp_path / "timestamp.txt"]


@pytest.mark.parametrize("linked", ["bob", "bob/lab-03"])
def test_a_folder_that_is_a_link_is_nobodys_submission(
    linked: str, class_of: Any, tmp_path: Path
) -> None:
    converter = class_of("ada", "bob")
    link = tmp_path / "submitted" / linked
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    (said,) = fit.made_fit(converter)
    assert said == f"bob/lab-03 is not graded: {link.name} is a symbolic link."
    assert [Path(folder).parent.name for folder in converter.assignments] == ["ada"]


def test_of_a_notebook_its_texts_and_plain_marks_are_kept(tmp_path: Path) -> None:
    marks = {"grade_id": "answer-3-1", "points": 400, "deep": [[1]], "other": {"a": 1}}
    notebook = read_notebook(
        written(
            tmp_path / "x.ipynb",
            {"cell_type": "code", "source": ["a\n", "b"], "metadata": {"nbgrader": marks}},
            {"cell_type": "markdown", "source": "\ud800", "attachments": {"x": {}}, "metadata": 3},
            {"cell_type": "code", "source": 3},
            {"cell_type": ["code"], "source": "x"},
            "no cell",
            metadata={"kernelspec": {"name": "python3"}},
        )
    )
    first, second = notebook.cells
    assert (first.source, first.outputs) == ("a\nb", [])
    assert first.metadata.nbgrader == {"grade_id": "answer-3-1", "points": 400}
    assert second.source == "?"
    assert "kernelspec" not in notebook.metadata


BROKEN = {
    "nothing": b"",
    "cut": b'{"cells": [',
    "deep": b"[" * 100_000,
    "no cells": b"{}",
    "another list": b'{"cells": {}}',
    "not UTF-8": b"\xff\xff",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_notebook_says_so(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_bytes(BROKEN[kind])
    with pytest.raises(UnreadableNotebookError):
        read_notebook(path)


def test_neither_a_link_nor_a_pipe_is_followed(tmp_path: Path) -> None:
    written(tmp_path / "source.ipynb")
    (tmp_path / "link.ipynb").symlink_to(tmp_path / "source.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    for name in ("link", "pipe"):
        with pytest.raises(UnreadableNotebookError):
            read_notebook(tmp_path / f"{name}.ipynb")


def test_pictures_make_no_notebook_too_large(tmp_path: Path) -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "A" * (9 << 20)}}
    cell = {"cell_type": "code", "source": "x", "metadata": {}, "outputs": [picture]}
    (read,) = read_notebook(written(tmp_path / "x.ipynb", cell)).cells
    assert (read.source, read.outputs) == ("x", [])
    cell["outputs"] = [picture] * 4
    with pytest.raises(UnreadableNotebookError, match="32 MiB: clear its outputs"):
        read_notebook(written(tmp_path / "x.ipynb", cell))
    for heavy in ("A" * (9 << 20), [[]] * (1 << 20)):  # code, and what is many times its bytes
        cell["source"] = heavy
        cell["outputs"] = [picture]
        with pytest.raises(UnreadableNotebookError, match="without outputs"):
            read_notebook(written(tmp_path / "x.ipynb", cell))


def test_a_notebook_has_bounds() -> None:
    small, large = new_code_cell("x"), new_code_cell("x" * (MOST_TEXT + 1))
    assert not excess_of(NotebookNode(cells=[small] * MOST_CELLS))
    assert "901 cells" in excess_of(NotebookNode(cells=[small] * (MOST_CELLS + 1)))
    assert "characters" in excess_of(NotebookNode(cells=[large]))


# Restoring

RELEASED = (
    SourceCell("read-1", "markdown", "# Lab", True, False, None, None),
    SourceCell("imports", "code", "import math", True, False, None, "c" * 32),
    SourceCell("answer-3-1", "code", "stub 1", False, True, None, None),
    SourceCell("check-3-1", "code", 'check("3.1")', True, False, 2.0, None),
    SourceCell("answer-3-2", "code", "stub 2", False, True, None, None),
    SourceCell("check-3-2", "code", 'check("3.2")', True, False, 3.0, None),
    SourceCell("explain", "markdown", "", False, True, 0.0, None),
)
NAMES = [cell.name for cell in RELEASED]


def submitted(name: str, source: str | None = None, **marks: Any) -> NotebookNode:
    known = next(cell for cell in RELEASED if cell.name == name)
    new = new_code_cell if known.cell_type == "code" else new_markdown_cell
    cell = new(known.source if source is None else source)
    cell.metadata.nbgrader = {"grade_id": name, **marks}
    return cell


def texts(cells: list[NotebookNode]) -> list[str]:
    return [cell.source for cell in restored_cells(RELEASED, cells)]


def everything(**sources: str) -> list[NotebookNode]:
    return [submitted(name, sources.get(name.replace("-", "_"))) for name in NAMES]


def test_answers_are_taken_and_everything_else_is_as_it_was_released() -> None:
    cells = everything(answer_3_1="mine", imports="x", check_3_1="1e9", read_1="y", explain="said")
    as_released = [cell.source for cell in RELEASED]
    assert texts(cells) == [*as_released[:2], "mine", *as_released[3:6], "said"]


def test_marks_are_those_of_the_gradebook() -> None:
    marks = {"points": 400, "grade": False, "locked": False, "schema_version": 1}
    cells = [submitted(name, **marks) for name in NAMES]
    found = {cell.metadata.nbgrader.grade_id: cell for cell in restored_cells(RELEASED, cells)}
    assert list(found) == NAMES
    check, imports = found["check-3-1"].metadata.nbgrader, found["imports"].metadata.nbgrader
    assert (check.points, check.grade, check.locked, check.schema_version) == (2.0, True, True, 3)
    assert imports.checksum == "c" * 32
    assert not found["answer-3-1"].metadata.nbgrader.grade


def test_cells_that_are_missing_are_restored_and_the_order_is_that_of_the_release() -> None:
    assert texts([]) == [cell.source for cell in RELEASED]
    assert texts(list(reversed(everything()))) == [cell.source for cell in RELEASED]


def test_own_cells_stay_where_they_stand() -> None:
    cells = everything()
    cells.insert(0, new_code_cell("first"))
    cells.insert(4, new_code_cell("helper"))
    cells.append(new_markdown_cell("last"))
    found = texts(cells)
    assert found[0] == "first"
    assert found[found.index("stub 1") + 1 :][:2] == ["helper", 'check("3.1")']
    assert found[-1] == "last"


def test_an_answer_written_in_an_own_cell_comes_after_the_stub_that_is_restored() -> None:
    cells = [cell for cell in everything() if cell.metadata.nbgrader.grade_id != "answer-3-1"]
    cells.insert(2, new_code_cell("mine"))
    found = texts(cells)
    assert found.index("stub 1") < found.index("mine") < found.index('check("3.1")')


def test_of_a_copied_cell_the_last_one_counts_and_the_others_are_the_learners_own() -> None:
    cells = everything()
    cells[2:3] = [submitted("answer-3-1", "old"), submitted("answer-3-1", "new")]
    cells += [submitted("check-3-1", "copied")]
    found = list(restored_cells(RELEASED, cells))
    named = [(c.metadata.get("nbgrader", {}).get("grade_id"), c.source) for c in found]
    assert [name for name, _ in named if name] == NAMES
    assert ("answer-3-1", "new") in named
    assert [source for name, source in named if not name] == ["old", 'check("3.1")']


def test_text_of_a_learner_brings_no_script_to_the_pages_of_an_instructor() -> None:
    hostile = 'I <b>know</b> <script>fetch("/formgrader/api")</script><img src=x onerror=alert(1)>'
    cells = [*everything(explain=hostile), new_markdown_cell(hostile)]
    for cell in list(restored_cells(RELEASED, cells))[-2:]:
        assert "<b>know</b>" in cell.source
        assert "<script" not in cell.source
        assert "<img" not in cell.source


# Examining


class Converter(LoggingConfigurable):  # type: ignore[misc]  # it has no types
    """What the passes use of nbgrader's Autograde."""

    def __init__(self, course: Path, **config: Any) -> None:
        super().__init__(config=Config({"Examine": Config(config)}))
        self.coursedir = SimpleNamespace(root=str(course), submitted_directory="submitted")
        self.assignments: dict[str, list[str]] = {}
        self.force = False


def exporter_of(converter: Converter) -> TolerantExporter:
    return TolerantExporter(parent=converter, config=converter.config)  # as nbgrader makes it


POINTS = {todo.id: todo.points for todo in LAB.todos}
HERE = Environment("cpu", ("float32",), "3.11", "2", "0.42.1", "sandbox")
SEED = 20_261_130


def report_of(*passed: str, fault: str | None = None, lab_todos: Any = LAB.todos) -> Report:
    todos = tuple(
        TodoResult(
            id=todo.id,
            title=todo.title,
            points=todo.points,
            score=todo.points if todo.id in passed else 0,
            status="passed" if todo.id in passed else "failed",
            checks=(CheckResult("test_x", "It works", "failed", "it does not"),),
        )
        for todo in lab_todos
    )
    score = sum(todo.score for todo in todos)
    return Report(LAB.id, LAB.title, "x", score, 16, False, SEED, 1.0, fault, HERE, todos)


def checks(**worth: float) -> NotebookNode:
    cells = []
    for todo in LAB.todos:
        name = todo.id.replace(".", "-")
        cell = new_code_cell(f'check("{todo.id}")')
        most = worth.get(name.replace("-", "_"), float(todo.points))
        cell.metadata.nbgrader = {"grade_id": f"check-{name}", "grade": True, "points": most}
        cells.append(cell)
    return new_notebook(
        cells=cells,
    )


@pytest.fixture
def course(tmp_path: Path) -> Path:
    write_record(tmp_path, Record("0", {"lab-03": Assignment(LAB.id, SEED, "everything", POINTS)}))
    return tmp_path


@pytest.fixture
def examined(course: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that has a notebook examined, of which an examiner would say what is given."""
    asked: list[Question] = []

    def run(
        notebook: NotebookNode,
        report: Report | Exception,
        *,
        restored: bool = True,
        pending: Plan | None = None,
        **config: Any,
    ) -> NotebookNode:
        def judged(question: Question, own: Any) -> Report:
            asked.append(question)
            if isinstance(report, Exception):
                raise report
            return report

        monkeypatch.setattr(bench, "_judged", judged)
        monkeypatch.setattr(bench, "Warm", lambda: SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(examine, "unavailable", lambda: None)
        exporter = run.exporter = exporter_of(Converter(course, **config))  # type: ignore[attr-defined]
        exporter.plan = pending or exporter.plan
        if restored:
            exporter.restored.add(("ada", "lab-03", "scheduler"))
        named = {"assignment": "lab-03", "student": "ada", "notebook": "scheduler", "db_url": ""}
        run.asked = asked  # type: ignore[attr-defined]  # for the tests
        return Examine(parent=exporter)(notebook, {"nbgrader": named})[0]

    return run


def earned(notebook: NotebookNode) -> dict[str, float]:
    """What nbgrader reads of each check, but for those that pay nothing."""
    scores = {c.metadata.nbgrader.grade_id: determine_grade(c)[0] for c in notebook.cells}
    assert all(score is not None for score in scores.values())
    return {name: score for name, score in scores.items() if score}


def test_points_are_those_of_the_gradebook_and_only_for_what_passed(examined: Any) -> None:
    first, second = checks(check_3_3=0.0), checks(**{"3_3": 10.0, "3_1": 0.0})
    assert earned(examined(first, report_of("3.1", "3.5"))) == {"check-3-1": 2, "check-3-5": 3}
    assert earned(examined(second, report_of("3.1", "3.3"))) == {"check-3-3": 10}


def test_the_seed_of_the_class_is_used_and_sandbox_and_labs_as_told(examined: Any) -> None:
    examined(checks(), report_of())
    examined(checks(), report_of(), isolation="process")
    examined(checks(), report_of(), labs=[str(OWN)])
    first, second, third = examined.asked
    assert (first.labs, third.labs) == ((), (str(OWN),))
    assert (first.seed, first.isolation, first.name) == (SEED, "sandbox", "scheduler.ipynb")
    assert second.isolation == "process"


def test_a_notebook_of_another_lab_is_told_where_points_are_missing(
    examined: Any, course: Path
) -> None:
    notebook = checks()
    notebook.metadata.infralens = {"lab": "diffusers/lab-01"}
    told, silent = (
        examined(notebook, report_of("3.1")).cells[place].outputs[0].data["text/plain"]
        for place in (1, 0)
    )
    (kept,) = read_results(course / REPORTS)
    assert kept.remark in told
    assert kept.remark
    assert told.startswith("What was handed in is the notebook of diffusers/lab-01, not of")
    assert silent.startswith("3.1")
    notebook.metadata.infralens = {"lab": LAB.id}
    said = examined(notebook, report_of()).cells[0].outputs[0].data["text/plain"]
    assert said.startswith("3.1")


@pytest.mark.parametrize(
    ("due", "tells_all"), [(None, False), (timedelta(hours=1), False), (-timedelta(hours=1), True)]
)
def test_a_course_tells_everything_once_the_deadline_is_over(
    due: timedelta | None,
    tells_all: bool,
    examined: Any,
    course: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_record(course, Record("0", {"lab-03": Assignment(LAB.id, SEED, "points", POINTS)}))
    at = None if due is None else (datetime.now(UTC) + due).replace(tzinfo=None)
    gradebook = SimpleNamespace(find_assignment=lambda name: SimpleNamespace(duedate=at))
    monkeypatch.setattr(examine, "Gradebook", lambda url: nullcontext(gradebook))
    said = examined(checks(), report_of("3.1")).cells[1].outputs[0].data["text/plain"]
    assert ("it does not" in said) == tells_all
    assert ("before the deadline" in said) != tells_all


def test_a_pass_that_is_switched_off_still_judges(examined: Any) -> None:
    assert earned(examined(checks(), report_of("3.1"), enabled=False)) == {"check-3-1": 2}


def test_the_report_is_kept_for_the_class_and_an_old_one_is_not(
    examined: Any, course: Path
) -> None:
    def kept() -> list[tuple[str, str, int | None]]:
        results = read_results(course / REPORTS)
        return [(r.learner, r.file, r.report and r.report.score) for r in results]

    examined(checks(), report_of("3.1"))
    assert kept() == [("ada", "ada/lab-03/scheduler.ipynb", 2)]
    with pytest.raises(RuntimeError):
        examined(checks(), RuntimeError("no memory"))
    assert kept() == []
    broken = checks()
    broken.metadata.infralens = {UNREADABLE: "it is a picture"}
    examined(broken, report_of("3.1"))
    (result,) = read_results(course / REPORTS)
    assert "it is a picture" in (result.refused or "")


FAULTS = {
    "the grader failed": report_of("3.1", fault="the suite is broken"),
    "a todo is missing": report_of("3.1", lab_todos=LAB.todos[:3]),
    "an examiner that ends": NoVerdictError("the grader ended"),
    "one that raises": RuntimeError("no memory"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_without_a_verdict_there_is_an_error_and_no_points(kind: str, examined: Any) -> None:
    with pytest.raises((NotExaminedError, RuntimeError)):
        examined(checks(), FAULTS[kind])


def test_a_graded_cell_that_is_no_check_is_an_error(examined: Any) -> None:
    notebook = checks()
    notebook.cells[0].metadata.nbgrader.grade_id = "bonus"
    with pytest.raises(NotExaminedError, match="bonus is graded, and is no check of this kit"):
        examined(notebook, report_of("3.1"))


def test_a_notebook_that_was_not_restored_is_an_error(examined: Any) -> None:
    notebook = checks()
    notebook.metadata.infralens = {"restored": True}  # what a learner may write
    with pytest.raises(NotExaminedError, match="RestoreCells has to come first"):
        examined(notebook, report_of("3.1"), restored=False)


def test_an_assignment_without_a_record_is_an_error(examined: Any, course: Path) -> None:
    (course / "infralens.json").unlink()
    with pytest.raises(NotExaminedError, match="lab-03 is no assignment of this kit"):
        examined(checks(), report_of("3.1"))


def test_another_exporter_is_an_error(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "unavailable", lambda: None)
    examining = Examine()
    examining.parent = Converter(course)
    with pytest.raises(NotExaminedError, match=r"lacks c\.Autograde\.exporter_class"):
        examining(
            checks(),
            {"nbgrader": {"assignment": "lab-03", "student": "ada", "notebook": "x", "db_url": ""}},
        )


def test_without_a_sandbox_the_exporter_is_not_even_made(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "unavailable", lambda: "bubblewrap is not installed")
    with pytest.raises(NbGraderException, match="no sandbox here"):
        exporter_of(Converter(course))
    exporter_of(Converter(course, isolation="process"))


def test_a_grade_that_was_ended_in_the_middle_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nbgrader takes the folder that such a run leaves for a graded one."""
    scores: dict[str, list[tuple[str, float | None]]] = {
        "ada": [("check-3-1", 2.0), ("explain", None)],
        "bob": [("check-3-1", 2.0), ("check-3-2", None)],
        "cleo": [("check-3-1", None)],
    }

    def find_submission_notebook(notebook: str, assignment: str, student: str) -> Any:
        named = scores[student]
        grades = [SimpleNamespace(cell=SimpleNamespace(name=n), auto_score=s) for n, s in named]
        return SimpleNamespace(grades=grades)

    gradebook = SimpleNamespace(find_submission_notebook=find_submission_notebook)
    monkeypatch.setattr(plan, "Gradebook", lambda url: nullcontext(gradebook))
    converter = SimpleNamespace(
        assignments={who: [f"{who}/scheduler.ipynb"] for who in scores},
        force=False,
        init_single_notebook_resources=lambda path: {
            "nbgrader": {
                "assignment": "lab-03",
                "student": Path(path).parent.name,
                "notebook": "scheduler",
            }
        },
        coursedir=SimpleNamespace(
            db_url="",
            autograded_directory="autograded",
            format_path=lambda folder, student, assignment: tmp_path / folder / student,
        ),
    )
    for who in ("ada", "bob"):  # of cleo nothing was begun
        (tmp_path / "autograded" / who).mkdir(parents=True)
    assert [folder.name for folder in plan.unfinished(converter)] == ["bob"]
    converter.force = True  # then nbgrader grades everybody
    assert not list(plan.unfinished(converter))


def test_what_is_asked_ahead_is_what_is_asked_in_its_turn(tmp_path: Path) -> None:
    """Else every submission would be judged twice."""
    cells = [*everything(answer_3_1="mine\n"), new_markdown_cell("a < b"), new_code_cell("x = 1\n")]
    ahead = new_notebook(cells=list(restored_cells(RELEASED, cells)))
    path = tmp_path / "x.ipynb"
    path.write_text(nbformat.writes(ahead), encoding="utf-8")
    assert to_examine(read_notebook(path)) == to_examine(ahead)


def test_those_after_one_are_judged_meanwhile_and_only_once(
    examined: Any, class_of: Any, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebooks = [name for (name,) in class_of("ada", "bob").assignments.values()]
    monkeypatch.setattr(examine, "Gradebook", lambda url: nullcontext())
    monkeypatch.setattr(examine, "source_cells", lambda *_, **__: list(RELEASED))
    path = course / "submitted/bob/lab-03/scheduler.ipynb"
    path.write_text(nbformat.writes(new_notebook(cells=everything(answer_3_1="x = 1"))), "utf-8")
    mine = new_notebook(cells=list(restored_cells(RELEASED, read_notebook(path).cells)))
    whose = zip(("ada", "bob"), map(Path, notebooks), strict=True)
    pending = Plan([Pending("lab-03", who, "scheduler", place) for who, place in whose])
    ada = new_notebook(cells=list(restored_cells(RELEASED, [])))
    examined(ada, report_of(), jobs=2, pending=pending)
    exporter = examined.exporter
    (waiting,) = exporter.bench._verdicts.values()
    waiting.result(20)
    asked = [question.text for question in examined.asked]
    assert asked == [to_examine(ada), to_examine(mine)]
    exporter.restored.add(("bob", "lab-03", "scheduler"))
    named = {"assignment": "lab-03", "student": "bob", "notebook": "scheduler", "db_url": ""}
    Examine(parent=exporter)(mine, {"nbgrader": named})
    assert len(examined.asked) == 2


def test_what_an_examiner_reads_depends_on_code_and_marks_alone() -> None:
    one, other = checks(), checks()
    other.cells[0].outputs = []
    other.metadata.kernelspec = {"name": "x"}
    assert to_examine(one) == to_examine(other)
    other.cells[0].source += "\n"
    assert to_examine(one) != to_examine(other)


# What is said


def test_what_a_submission_printed_steers_nothing_and_no_seed_is_told() -> None:
    hostile = "\x1b[31m<script>alert(1)</script>\x07"
    detail = Detail(call="f(1)", yours=hostile, frames=(Frame(1, "f", hostile, 4),), output=hostile)
    check = CheckResult("test_x", "It works", "failed", hostile, "a-name", detail=detail)
    todo = replace(report_of().todos[0], checks=(check,))
    said = explanation(todo, replace(report_of(), todos=(todo,)), 0.0, 2.0)
    assert said.startswith("3.1 · The timesteps of a run: 0 of 2 points\n")
    assert "\x1b" not in said
    assert "\\x1b[31m" in said
    assert "line 1 of cell 4" in said
    assert str(SEED) not in said
    assert "debug" not in said
    assert said.endswith("graded in a sandbox · infralens 0.1.0 · diffusers 0.42.1")


def test_a_course_that_tells_less_tells_no_numbers() -> None:
    detail = Detail(call="f(1)", expected="1.5", yours="2.5", explanation="Take the root.")
    check = CheckResult("test_x", "It works", "failed", "off by 1", "a-name", detail=detail)
    todo = replace(report_of().todos[0], checks=(check,))
    whole = replace(report_of(), todos=(todo,))
    by_name, by_points = (
        explanation(shown.todos[0], shown, 0.0, 2.0)
        for shown in (told(whole, "name"), told(whole, "points"))
    )
    assert "Take the root." in by_name
    assert "Take the root." not in by_points
    for said in (by_name, by_points):
        assert "0 of 2 points" in said
        assert "2.5" not in said
        assert "off by 1" not in said


# Ahead and in order


def test_verdicts_are_made_at_once_and_each_question_is_answered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    together = threading.Barrier(2, timeout=20)

    def judged(question: Question, own: Any) -> Report:
        asked.append(question.text)
        if len(asked) <= 2:
            together.wait()
        if question.text == "bad":
            raise RuntimeError("no verdict")
        return replace(report_of(), submission=question.text)

    monkeypatch.setattr(bench, "_judged", judged)
    monkeypatch.setattr(bench, "Warm", lambda: SimpleNamespace(close=lambda: None))
    many = Bench(2)
    questions = [
        Question(LAB, (), 1, "sandbox", "x.ipynb", text) for text in ("a", "b", "bad", "c")
    ]
    for question in questions:
        many.ask(question)
        many.ask(question)
    assert [many.report(q).submission for q in questions if q.text != "bad"] == ["a", "b", "c"]
    with pytest.raises(RuntimeError, match="no verdict"):
        many.report(questions[2])
    assert sorted(asked) == ["a", "b", "bad", "c"]
    assert len(many._threads) <= 2
    many.close()
    assert many.report(questions[0]).submission == "a"  # by an examiner that is new
    many.close()


def test_progress_counts_what_is_left() -> None:
    plan = Plan([Pending("lab-03", name, "scheduler", Path(name)) for name in "abc"])
    named = {"assignment": "lab-03", "student": "a", "notebook": "scheduler"}
    assert [one.student for one in plan.after(named, 1)] == ["b"]
    assert [one.student for one in plan.after(named, 2)] == ["c"]
    assert [one.student for one in plan.after({**named, "student": "c"}, 5)] == []
    assert [one.student for one in plan.after({**named, "student": "z"}, 5)] == []
    plan.started -= 600
    assert plan.advance() == "1 of 3 graded, about 20 min left"
    assert plan.advance() == "2 of 3 graded, about 5 min left"
    assert plan.advance() == "3 of 3 graded"
