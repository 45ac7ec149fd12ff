"""A whole class: whose is which file, nothing lost or doubled, no name that does harm."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from infralens.cli import classes, main
from infralens.course.assigned import Assigned, assigned_by_name, paid
from infralens.course.batch import judging, local, run
from infralens.course.batch.finding import find
from infralens.course.batch.judging import Job, Judge, Verdict
from infralens.course.batch.sources import source_at
from infralens.course.cells import csv_text
from infralens.course.class_report import Standing, standings
from infralens.course.class_shown import class_csv, class_html, show_class
from infralens.course.code import code_digest
from infralens.course.kit import kit_of
from infralens.course.results import REPORTS, Result, place_of, read_results, write_result
from infralens.examiner.candidate.submission import read_bytes
from infralens.examiner.errors import UnavailableError, UnreadableError
from infralens.grading import Examiners
from infralens.labs import Lab, find_labs, place_at, read_lab
from infralens.report import CheckResult, Detail, Environment, Report, TodoResult

ATTACKED = Path(__file__).parents[1] / "attacks" / "lab"
NAMES = (
    *("ada", "Ada", "../x", "..", ".", "/etc/passwd", "=cmd|'/c calc'!A0", "+1", "@x", "-2"),
    *('o\'brien "q"', "a,b", "a\nb", "\x1b[31mred", "<script>alert(1)</script>", "x" * 300),
    *("", " ", "con", "a/b", "a_b", "\u202eevil", "\udcff", "zoë", "＝1", "\t=1", "[b]x[/b]"),
)
"""Learners as they are called by somebody who means harm, and by somebody who does not."""


@pytest.fixture(scope="module")
def lent() -> Lab:
    """The small lab that attacks are tried on."""
    place = place_at(ATTACKED)
    return read_lab(place.suites / "attacks" / "lab_01_lent_things" / "lab.yaml", place)


def report_on(lab: Lab, *passed: str, fault: str | None = None, wrong: str = "") -> Report:
    """A report with these todos passed, and the others failed by this misconception."""
    todos = []
    for todo in lab.todos:
        good = todo.id in passed and fault is None
        check = CheckResult(
            f"test_{todo.id}",
            "It is right.",
            "passed" if good else "failed",
            misconception=None if good else wrong or None,
            detail=None if good or not wrong else Detail(explanation=f"It is {wrong}."),
        )
        todos.append(
            TodoResult(
                todo.id,
                todo.title,
                todo.points,
                todo.points if good else 0,
                "passed" if good else "failed",
                (check,),
            )
        )
    score = sum(todo.score for todo in todos)
    environment = Environment("cpu", ("float32",), "3.11", "2.13", "0.42", "sandbox")
    whole = fault is None and score == lab.max_score
    return Report(
        *(lab.id, lab.title, "lent.py", score, lab.max_score, whole, 7, 1.5, fault, environment),
        todos=tuple(todos),
    )


def result_of(lab: Lab, learner: str, report: Report | None = None, **more: Any) -> Result:
    fields: dict[str, Any] = {
        "learner": learner,
        "assignment": "attacks-lab-01",
        "lab": lab.id,
        "file": "lent.py",
        "sha256": learner,
        "code": learner,
        "key": learner,
        "kit": "kit",
        "report": report,
    }
    return Result(**{**fields, **more})


# Whose is which file, and for what


def laid_out(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"# {path}\n", encoding="utf-8")
    return folder


def found_in(path: Path, only: str | None = None) -> tuple[dict[tuple[str, str], str], list[str]]:
    assigned = assigned_by_name(find_labs())
    one = next((each for each in assigned if each.name == only), None)
    with source_at(path) as source:
        found = find(source, assigned, one)
        whose = {(s.learner, s.assignment.name): s.entry.path for s in found.submissions}
    return whose, [file for file, _ in found.left]


LAYOUTS = {
    "nbgrader": ("ada/lab-03/scheduler.ipynb", "ada", "lab-03"),
    "nbgrader's other track": ("bob/diffsynth-lab-04/lab-04.ipynb", "bob", "diffsynth-lab-04"),
    "inside a zip of it": ("submitted/ada/lab-03/scheduler.ipynb", "ada", "lab-03"),
    "a workspace each": ("ada/diffusers/lab-03-scheduler-reading/scheduler.py", "ada", "lab-03"),
    "files by name": ("ada/scheduler.py", "ada", "lab-03"),
    "an assignment's folder first": ("lab-03/ada/scheduler.py", "ada", "lab-03"),
    "plain files": ("ada_scheduler.py", "ada", "lab-03"),
    "plain files by lab": ("lab-03-ada.py", "ada", "lab-03"),
    "of the other track": ("ada-diffsynth-lab-04.ipynb", "ada", "diffsynth-lab-04"),
    "an export of Canvas": ("doejane_4711_99_scheduler-1.py", "doejane_4711_99", "lab-03"),
    "a second download": ("ada_scheduler (2).py", "ada", "lab-03"),
    "an assignment's folder of files": ("lab-03/ada.py", "ada", "lab-03"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_says_whose_a_file_is(layout: str, tmp_path: Path) -> None:
    path, learner, assignment = LAYOUTS[layout]
    whose, left = found_in(laid_out(tmp_path, path))
    assert whose == {(learner, assignment): path}
    assert not left


def test_one_workspace_belongs_to_who_it_is_called_after(tmp_path: Path) -> None:
    laid_out(tmp_path / "ada", "diffusers/lab-03-scheduler-reading/scheduler.py")
    assert list(found_in(tmp_path / "ada")[0]) == [("ada", "lab-03")]


def test_the_lab_can_be_named_where_files_do_not_name_it(tmp_path: Path) -> None:
    laid_out(tmp_path, "ada.py", "bob/answer.py", "cid/lab-04/classifier_free_guidance.py")
    whose, left = found_in(tmp_path, "lab-03")
    assert list(whose) == [("ada", "lab-03"), ("bob", "lab-03")]
    assert left == ["cid/lab-04/classifier_free_guidance.py"]


def test_one_file_a_learner_is_taken_and_the_others_are_told(tmp_path: Path) -> None:
    laid_out(tmp_path, "ada/lab-03/scheduler.py", "ada/lab-03/helper.py", "ada/notes.py")
    laid_out(tmp_path, "ada/lab-03/.ipynb_checkpoints/scheduler.ipynb", "ada/lab-03/notes.txt")
    laid_out(tmp_path, ".bob/lab-03/scheduler.py")
    whose, left = found_in(tmp_path)
    assert whose == {("ada", "lab-03"): "ada/lab-03/scheduler.py"}
    assert left == [".bob/lab-03/scheduler.py", "ada/notes.py", "ada/lab-03/helper.py"]


def test_folders_that_are_links_are_not_entered_but_told(tmp_path: Path) -> None:
    laid_out(tmp_path / "elsewhere", "lab-03/scheduler.py")
    laid_out(tmp_path / "class", "ada/lab-03/scheduler.py")
    (tmp_path / "class" / "bob").symlink_to(tmp_path / "elsewhere")
    whose, left = found_in(tmp_path / "class")
    assert list(whose) == [("ada", "lab-03")]
    assert left == ["bob"]


# A zip, from anybody


def zipped(path: Path, members: dict[str, bytes], **attributes: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            for attribute, value in attributes.items():
                setattr(info, attribute, value)
            archive.writestr(info, data)
    return path


MEMBER = "ada/lab-03/scheduler.py"


def refused(path: Path) -> str:
    with source_at(path) as source, pytest.raises(UnreadableError) as caught:
        source.entries[0].read()
    return str(caught.value)


def test_a_zip_is_read_where_it_lies(tmp_path: Path) -> None:
    whose, _ = found_in(zipped(tmp_path / "class.zip", {MEMBER: b"x = 1\n"}))
    assert whose == {("ada", "lab-03"): MEMBER}
    assert [path.name for path in tmp_path.iterdir()] == ["class.zip"]


@pytest.mark.parametrize(
    "name", ["../x/lab-03/scheduler.py", "/lab-03/scheduler.py", "a\\..\\b.py"]
)
def test_a_member_that_leads_out_is_nobodys(name: str, tmp_path: Path) -> None:
    whose, left = found_in(zipped(tmp_path / "class.zip", {name: b"x", MEMBER: b"x"}))
    assert list(whose) == [("ada", "lab-03")]
    assert left == [name]


def test_a_zip_bomb_is_read_no_further_than_a_submission_is_long(tmp_path: Path) -> None:
    bomb = zipped(tmp_path / "class.zip", {MEMBER: bytes(50 << 20)})
    assert bomb.stat().st_size < 1 << 20
    assert "larger than 1 MiB" in refused(bomb)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    attributes = {"external_attr": (stat.S_IFLNK | 0o777) << 16}
    path = zipped(tmp_path / "class.zip", {MEMBER: b"/etc/passwd"}, **attributes)
    assert "symbolic link" in refused(path)


def test_a_damaged_member_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "class.zip", {MEMBER: os.urandom(999), "bob_scheduler.py": b"x = 1"})
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    assert "damaged" in refused(path)
    with source_at(path) as source:
        assert source.entries[1].read() == b"x = 1"


def test_what_is_no_zip_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "class.zip").write_bytes(b"PK\x03\x04 nonsense")
    with (
        pytest.raises(Exception, match="cannot be read as a zip"),
        source_at(tmp_path / "class.zip"),
    ):
        pass


# Names


def test_no_name_leads_out_of_the_results_and_no_two_meet(lent: Lab, tmp_path: Path) -> None:
    root = tmp_path / "out" / "results"
    for name in NAMES:
        write_result(root, result_of(lent, name, report_on(lent)))
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) == len({str(path).lower() for path in made}) == len(NAMES)
    assert all(path.parent.parent == root for path in made)
    assert sorted(r.learner for r in read_results(root)) == sorted(
        json.loads(json.dumps(name)) for name in NAMES
    )


def as_text(found: Sequence[Standing]) -> str:
    """What `show_class` prints, without colours."""
    options: dict[str, bool] = dict.fromkeys(("highlight", "emoji", "markup"), False)
    console = Console(file=io.StringIO(), width=100, record=True, **options)
    show_class(found, console)
    return console.export_text()


def test_a_copied_result_does_not_count_twice(lent: Lab, tmp_path: Path) -> None:
    path = write_result(tmp_path, result_of(lent, "ada", report_on(lent)))
    path.with_name("copy.json").write_bytes(path.read_bytes())
    assert len(list(read_results(tmp_path))) == 1


def test_no_name_does_harm_where_it_is_shown(lent: Lab, tmp_path: Path) -> None:
    for name in NAMES:
        wrong = report_on(lent, wrong="mistake")
        write_result(tmp_path / "results", result_of(lent, name, wrong, file=name, code="same"))
    write_result(tmp_path / "results", result_of(lent, "=refused", refused="=1\x1b[2J<b>"))
    found = standings(tmp_path, ())
    rows = run.sum_up(tmp_path, [lent], [("=left\x1b", "no name")])
    assert len(rows) == len(NAMES) + 1
    texts = {
        "terminal": as_text(found),
        "page": class_html(found, "=a<b>"),
        "csv": class_csv(found),
        "summary": (tmp_path / "summary.csv").read_text(encoding="utf-8"),
        "json": (tmp_path / "summary.json").read_text(encoding="ascii"),
    }
    for kind, text in texts.items():
        assert not {"\x1b", "\u202e", "\t", "\r"} & set(text), kind
        text.encode("utf-8")
    assert "<script" not in texts["page"]
    assert "<b>" not in texts["page"]
    for kind in ("csv", "summary"):
        table = list(csv.reader(io.StringIO(texts[kind])))
        assert len(table) == len(NAMES) + 2
        assert len({len(row) for row in table}) == 1
        assert not [cell for row in table for cell in row if cell[:1] in set("=+-@|%＝＋－＠")]


def test_a_cell_that_is_a_number_stays_one() -> None:
    assert csv_text(["a", "b"], [[-1, "-1"]]) == "a,b\n-1,'-1\n"


# Nothing lost, nothing doubled


@pytest.fixture
def handed_in(tmp_path: Path, lent: Lab) -> Path:
    return laid_out(tmp_path / "class", *(f"{name}/lent.py" for name in "abcdef"))


class Class:
    """A class that is graded into a folder by a judge of the test's own."""

    def __init__(self, folder: Path, out: Path, lab: Lab) -> None:
        self.folder, self.out, self.lab = folder, out, lab
        self.judged: list[str] = []

    def plan(self, seed: int | None = None, isolation: str = "sandbox") -> run.Plan:
        with source_at(self.folder) as source:
            found = find(source, [Assigned("attacks-lab-01", self.lab)], None)
        seeds = run.fix_seeds(self.out, found, [self.lab], seed)
        return run.plan(found, seeds, self.out, isolation, "cpu")

    def grade(self, judge: Callable[[Job, bytes], Verdict] | None = None, **how: Any) -> int:
        """Grade what is left; how many verdicts that took."""
        plan, before = self.plan(**how), len(self.judged)

        def judged(
            jobs: Sequence[Job], load: Callable[[Job], bytes]
        ) -> Generator[tuple[Job, Verdict], None, None]:
            for job in jobs:
                self.judged.append(job.path)
                data = load(job)
                yield job, judge(job, data) if judge else Verdict(report_on(self.lab, "1.1"))

        run.carry_out(plan, self.out, judged, lambda result: None)
        return len(self.judged) - before

    @property
    def learners(self) -> list[str]:
        return [result.learner for result in read_results(self.out / run.RESULTS)]


@pytest.fixture
def school(handed_in: Path, tmp_path: Path, lent: Lab) -> Class:
    return Class(handed_in, tmp_path / "out", lent)


def test_a_second_run_has_nothing_to_do(school: Class) -> None:
    assert school.grade() == 6
    assert school.grade() == 0
    assert school.learners == list("abcdef")


def test_what_was_changed_is_graded_anew(school: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    school.grade(seed=1)
    (school.folder / "b" / "lent.py").write_text("changed = 1\n", encoding="utf-8")
    assert school.grade() == 1
    assert school.judged[-1] == "b/lent.py"
    assert school.grade(isolation="process") == 6
    assert school.grade(isolation="process", seed=1) == 0
    assert school.grade(isolation="process", seed=2) == 6
    monkeypatch.setattr(run, "kit_of", lambda lab: "another kit")
    assert school.grade(isolation="process") == 6
    assert school.learners == list("abcdef")


def test_the_seed_of_a_class_is_drawn_once_and_recorded(school: Class) -> None:
    school.grade()
    first = json.loads((school.out / "infralens.json").read_text())["assignments"]
    assert first == json.loads((school.out / "infralens.json").read_text())["assignments"]
    assert {job.seed for job in school.plan(isolation="process").jobs} == {
        first["attacks-lab-01"]["seed"]
    }


def test_a_damaged_result_is_graded_anew(school: Class) -> None:
    school.grade()
    path = place_of(school.out / run.RESULTS, "attacks-lab-01", "c")
    path.write_bytes(path.read_bytes()[:500])
    assert school.grade() == 1
    assert school.learners == list("abcdef")


def test_a_grader_that_failed_gave_no_verdict_and_is_asked_again(school: Class) -> None:
    void = Verdict(report_on(school.lab, fault="it broke"))
    assert school.grade(lambda job, data: void) == 6
    rows = run.sum_up(school.out, [school.lab], ())
    assert {(row.state, row.score, row.said) for row in rows} == {("grader failed", 0, "it broke")}
    assert school.grade() == 6
    assert school.grade() == 0


def test_a_file_that_changes_meanwhile_gets_nobody_elses_verdict(school: Class) -> None:
    def late(job: Job, data: bytes) -> Verdict:
        (school.folder / "f" / "lent.py").write_text("later = 1\n", encoding="utf-8")
        return Verdict(report_on(school.lab))

    with pytest.raises(run.ChangedError):
        school.grade(late)
    assert school.learners == list("abcde")
    assert school.grade() == 1


def test_a_notebook_of_another_lab_is_told_where_points_are_missing(school: Class) -> None:
    def handed_in(lab: str) -> None:
        (school.folder / "a" / "lent.py").unlink(missing_ok=True)
        document = {"cells": [], "metadata": {"infralens": {"lab": lab}}}
        text = json.dumps(document)
        (school.folder / "a" / "lent.ipynb").write_text(text, encoding="utf-8")

    def told() -> str:
        school.grade()
        run.sum_up(school.out, [school.lab], ())
        (found,) = standings(school.out, ())
        shown = [as_text([found]), class_html([found], "x")]
        rows = csv.DictReader((school.out / "summary.csv").open(encoding="utf-8"))
        said = next(row["said"] for row in rows if row["learner"] == "a")
        assert all((said in " ".join(text.split())) for text in shown)
        return said

    handed_in("diffusers/lab-01\x1b")
    assert told() == (
        "What was handed in is the notebook of diffusers/lab-01\\x1b, not of attacks/lab-01."
    )
    handed_in(school.lab.id)
    assert told() == ""


def test_the_same_file_is_judged_once_and_is_everybodys(school: Class) -> None:
    for name in "abc":
        (school.folder / name / "lent.py").write_text("same = 1\n", encoding="utf-8")
    assert school.grade() == 4
    assert school.learners == list("abcdef")
    files = {r.learner: r.report.submission for r in read_results(school.out / run.RESULTS)}
    assert files == {name: f"{name}/lent.py" for name in "abcdef"}


def test_a_submission_that_is_no_file_is_told_and_not_graded(school: Class) -> None:
    (school.folder / "a" / "lent.py").unlink()
    (school.folder / "a" / "lent.py").symlink_to("/etc/passwd")
    (school.folder / "b" / "lent.py").write_bytes(bytes((1 << 20) + 1))
    (school.folder / "c" / "lent.py").unlink()
    os.mkfifo(school.folder / "c" / "lent.py")
    assert school.grade() == 3
    rows = {row.learner: row for row in run.sum_up(school.out, [school.lab], ())}
    assert [rows[name].state for name in "abcd"] == ["refused"] * 3 + ["graded"]
    assert "symbolic link" in rows["a"].said
    assert "larger than" in rows["b"].said
    assert "no regular file" in rows["c"].said


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_batch as t
from infralens.course import results
from infralens.course.batch import run
place = t.place_at(t.ATTACKED)
lab = t.read_lab(place.suites / "attacks" / "lab_01_lent_things" / "lab.yaml", place)
school = t.Class(Path(sys.argv[2]), Path(sys.argv[3]), lab)
moment, left = sys.argv[4], int(sys.argv[5])

def end(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

if moment == "judging":
    school.grade(lambda job, data: end() or t.Verdict(t.report_on(lab, "1.1")), seed=7)
else:  # when all is written, but has not its name yet
    fsync = os.fsync
    os.fsync = lambda descriptor: end() or fsync(descriptor)
    school.grade(seed=7)
"""


@pytest.mark.parametrize(("moment", "left"), [("judging", 3), ("writing", 4)])
def test_a_kill_loses_and_doubles_nothing(school: Class, moment: str, left: int) -> None:
    here, folder, out = Path(__file__).parent, school.folder, school.out
    command = [sys.executable, "-c", KILLED, str(here), str(folder), str(out), moment, str(left)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = school.learners
    assert 0 < len(before) < 6
    with run.alone(out):  # the lock went with its holder
        assert school.grade() == 6 - len(before)
    assert school.learners == list("abcdef")
    assert not list(out.rglob("*/.*.json.*")), "half a file was left"


def test_the_kit_is_another_where_a_suite_is_and_the_same_wherever_it_lies(
    tmp_path: Path, lent: Lab
) -> None:
    shutil.copytree(ATTACKED, tmp_path / "labs", ignore=shutil.ignore_patterns("__pycache__"))
    suite = tmp_path / "labs" / "suites" / "attacks" / lent.suite.name
    copy = read_lab(suite / "lab.yaml", place_at(tmp_path / "labs"))
    assert kit_of(copy) == kit_of(lent)
    for path in (suite / "test_lent.py", copy.solution):
        assert path is not None
        text, before = path.read_text(encoding="utf-8"), kit_of(copy)
        path.write_text(f"{text}\n# changed\n", encoding="utf-8")
        assert kit_of(copy) != before


def test_two_runs_never_work_into_one_folder(tmp_path: Path) -> None:
    with run.alone(tmp_path), pytest.raises(run.BusyError), run.alone(tmp_path):
        pass


# The examiners


class Examined:
    """Stands in for an examiner: it may give no verdict, and is ended as the real one is."""

    def __init__(self) -> None:
        self.closed, self.ended = 0, threading.Event()

    def close(self) -> None:
        self.closed += 1
        self.ended.set()


@pytest.fixture
def job(lent: Lab) -> Job:
    return Job("key", lent, "ada/lent.py", "sha", 7, "process", "cpu")


@contextmanager
def judge_with(examined: Any) -> Iterator[Judge]:
    folder = judging.HeldFolder()
    try:
        yield Judge(examined, folder)
    finally:
        folder.remove()


@pytest.mark.parametrize("voids", [0, 1, 2])
def test_a_void_verdict_is_tried_once_more_by_another_examiner(
    voids: int, lent: Lab, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    void = [report_on(lent, fault="it broke")] * voids
    reports = iter([*void, report_on(lent, "1.1"), report_on(lent, "1.2")])
    monkeypatch.setattr(judging, "grade", lambda *args, **how: next(reports))
    examined = Examined()
    with judge_with(examined) as judge:
        verdict = judge.verdict(job, b"x = 1\n")
    assert examined.closed == min(voids, 1)
    assert verdict.report is not None
    assert verdict.report.grader_error == ("it broke" if voids == 2 else None)


def test_a_notebook_stays_one_and_its_place_is_not_told(
    lent: Lab, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def unreadable(lab: Lab, path: Path, **how: Any) -> Report:
        seen.append(path.name)
        raise UnreadableError(f"{path} is odd.")

    monkeypatch.setattr(judging, "grade", unreadable)
    with judge_with(Examined()) as judge:
        assert judge.verdict(replace(job, path="a/b.ipynb"), b"").refused == "a/b.ipynb is odd."
        assert judge.verdict(job, b"").refused == "ada/lent.py is odd."
    assert seen == ["lent.ipynb", "lent.py"]


def test_pictures_in_a_notebook_do_not_keep_it_from_the_examiner(
    lent: Lab, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def graded(lab: Lab, path: Path, **how: Any) -> Report:
        seen.append(json.loads(read_bytes(path)))
        return report_on(lent)

    monkeypatch.setattr(judging, "grade", graded)
    cell = {"cell_type": "code", "source": "x", "outputs": ["A" * (9 << 20)]}
    with judge_with(Examined()) as judge:
        judge.verdict(replace(job, path="a.ipynb"), json.dumps({"cells": [cell]}).encode())
    assert seen == [{"cells": [{"cell_type": "code", "source": "x"}]}]


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch, lent: Lab) -> list[Examined]:
    """Judges whose verdict on `slow` never comes, until they are ended."""
    made: list[Examined] = []

    @contextmanager
    def judge(among: Examiners) -> Iterator[Judge]:
        made.append(Examined())
        with judge_with(made[-1]) as judge:
            yield judge

    def grade(lab: Lab, path: Path, *, using: Examined, **how: Any) -> Report:
        if b"slow" in path.read_bytes():
            using.ended.wait(20)
            return report_on(lent, fault="the examiner ended")
        return report_on(lent)

    monkeypatch.setattr(local, "judge", judge)
    monkeypatch.setattr(judging, "grade", grade)
    return made


def test_one_that_hangs_holds_up_nobody_else_and_an_end_is_quick(
    job: Job, endless: list[Examined]
) -> None:
    jobs = [replace(job, key=f"{i}", path="slow" if i == 0 else "quick") for i in range(8)]
    verdicts = local.judged_here(jobs, lambda job: job.path.encode(), 2)
    begun, threads = time.monotonic(), threading.active_count()
    assert sorted(next(verdicts)[0].key for _ in range(7)) == list("1234567")
    verdicts.close()  # as Ctrl-C does
    assert time.monotonic() - begun < 5
    assert threading.active_count() <= threads
    assert all(examined.closed for examined in endless)


def test_what_breaks_in_a_judge_ends_the_run(job: Job, endless: list[Examined]) -> None:
    def load(job: Job) -> bytes:
        raise UnavailableError("There is no CUDA device here.")

    with pytest.raises(UnavailableError):
        list(local.judged_here([job, job], load, 2))


# The command


Outcomes = Callable[[Job], Verdict]


@pytest.fixture
def batch(
    handed_in: Path, tmp_path: Path, lent: Lab, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """`infralens batch` over six learners, with judges of the test's own."""

    def run_it(outcome: Outcomes, *words: str) -> Any:
        def judged(jobs: Sequence[Job], load: Any, at_once: int) -> Any:
            for job in jobs:
                yield job, outcome(job)

        monkeypatch.setattr(local, "judged_here", judged)
        command = ["--labs", str(ATTACKED), "batch", str(handed_in)]
        options = ["--output", str(tmp_path / "out"), "--isolation", "process", *words]
        return CliRunner().invoke(main, [*command, *options])

    return run_it


def test_ctrl_c_keeps_what_was_done(batch: Any, lent: Lab, tmp_path: Path) -> None:
    def third_is_never(job: Job) -> Verdict:
        if job.path.startswith("c"):
            raise KeyboardInterrupt
        return Verdict(report_on(lent, "1.1"))

    stopped = batch(third_is_never)
    assert stopped.exit_code == 130
    assert "goes on where it stopped" in stopped.output
    assert (tmp_path / "out" / "summary.csv").read_text(encoding="utf-8").count("graded") == 2
    seen: list[str] = []
    done = batch(lambda job: seen.append(job.path) or Verdict(report_on(lent)))  # type: ignore  # append and add give None
    assert done.exit_code == 0, done.output
    assert seen == [f"{name}/lent.py" for name in "cdef"]


def test_the_exit_code_says_whether_everybody_has_a_verdict(batch: Any, lent: Lab) -> None:
    void = Verdict(report_on(lent, fault="it broke"))
    failed = batch(lambda job: void if job.path[0] == "d" else Verdict(report_on(lent)))
    assert failed.exit_code == 3
    assert "5 of 6\n6 of 6\n" in failed.output  # where nobody watches there is no bar
    refused = batch(lambda job: Verdict(None, "it is \x1b[2J odd"))
    assert refused.exit_code == 1
    assert "d attacks-lab-01 refused: it is \\x1b[2J odd" in refused.output


def test_without_a_sandbox_nothing_is_graded_unless_it_is_said(
    batch: Any, lent: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infralens.examiner.isolation import bubblewrap

    monkeypatch.setattr(bubblewrap, "unavailable", lambda: "bwrap is not installed")
    assert batch(lambda job: Verdict(report_on(lent))).exit_code == 0
    refused = batch(lambda job: Verdict(report_on(lent)), "--isolation", "sandbox")
    assert refused.exit_code == 2
    assert "no sandbox here (bwrap is not installed)" in refused.output


def test_a_place_that_cannot_be_written_is_one_sentence(handed_in: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "out"
    done = CliRunner().invoke(main, ["batch", str(handed_in), "--output", str(place)])
    assert done.exit_code == 2
    assert f"{place} cannot be written: Not a directory. What was graded stays" in done.output


def test_a_disk_that_is_full_keeps_what_was_graded(
    batch: Any, lent: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run, "write_result", full)
    done = batch(lambda job: Verdict(report_on(lent)))
    assert done.exit_code == 2
    assert "cannot be written: No space left on device. What was graded stays" in done.output


@pytest.mark.parametrize("out", ["class/out", "class", "."])
def test_results_never_lie_among_the_submissions(out: str, handed_in: Path) -> None:
    place = handed_in.parent / out
    done = CliRunner().invoke(main, ["batch", str(handed_in), "--output", str(place)])
    assert done.exit_code == 2
    assert "choose an --output of its own" in done.output


def test_of_a_course_only_what_was_handed_in_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, seen = tmp_path / "course", list[str]()
    whose = ("source/lab-03", "release/lab-03", "submitted/ada/lab-03", "autograded/ada/lab-03")
    laid_out(course, *(f"{folder}/scheduler.ipynb" for folder in whose))

    def judged(jobs: Sequence[Job], load: Any, at_once: int) -> Any:
        for job in jobs:
            seen.append(job.path)
            yield job, Verdict(report_on(job.lab))

    monkeypatch.setattr(local, "judged_here", judged)
    command = ["batch", str(course), "--output", str(course / "graded"), "--isolation", "process"]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert seen == ["ada/lab-03/scheduler.ipynb"]


def test_who_watches_sees_a_bar_with_the_time_left(
    school: Class, lent: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    monkeypatch.setattr(classes, "terminal", lambda **_: console)
    plan = school.plan()
    with classes._bar(plan) as (on_result, _):
        for name in "abcdef":
            on_result(result_of(lent, name, report_on(lent)))
    drawn = written.getvalue()
    assert re.search(r"6/6\S* submissions .* left \S*0:00:00\S* f attacks-lab-01", drawn)


@pytest.mark.parametrize(("gigabytes", "jobs"), [(0.2, 1), (2.5, 2), (64, 4)])
def test_as_many_are_graded_at_once_as_cores_and_memory_allow(
    gigabytes: float, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(available=int(gigabytes * 2**30))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert classes._at_once("cpu") == jobs
    assert classes._at_once("cuda") == classes.ON_ONE_GPU


def test_a_course_has_its_own_seed_and_points(
    batch: Any, lent: Lab, handed_in: Path, tmp_path: Path
) -> None:
    assignment = {"lab": lent.id, "seed": 77, "tells": "name", "points": {"1.1": 9}}
    record = {"schema": 1, "kit": "0.1.0", "assignments": {"attacks-lab-01": assignment}}
    (handed_in.parent / "infralens.json").write_text(json.dumps(record), encoding="utf-8")
    seeds: set[int] = set()
    batch(lambda job: seeds.add(job.seed) or Verdict(report_on(lent, "1.1")))  # type: ignore  # append and add give None
    assert seeds == {77}
    table = (tmp_path / "out" / "summary.csv").read_text(encoding="utf-8")
    assert table.count("1.1:9/9") == 6


# With real examiners


ENDLESS = "def denoise(denoiser, sample, timesteps):\n    while True:\n        pass\n"


def quick_labs(folder: Path) -> Path:
    """The small lab with short limits."""
    shutil.copytree(ATTACKED, folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "suites" / "attacks" / "lab_01_lent_things" / "lab.yaml"
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    data["limits"] = {"call_seconds": 1.0, "lab_seconds": 8.0, "memory_mb": 1024}
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return folder


def test_a_class_is_graded_and_reported(tmp_path: Path, lent: Lab, light_diffusers: Path) -> None:
    """Plain files and a notebook, one that hangs among them, by real examiners, two at a time."""
    assert lent.solution is not None
    folder, out, labs = tmp_path / "class", tmp_path / "out", quick_labs(tmp_path / "labs")
    folder.mkdir()
    solution = lent.solution.read_text(encoding="utf-8")
    texts = {"ada": solution, "bob": f"# mine\n\n{solution}", "cid": ENDLESS}
    for name, text in texts.items():
        (folder / f"{name}_lent.py").write_text(text, encoding="utf-8")
    cell = {"cell_type": "code", "metadata": {}, "source": solution, "outputs": []}
    notebook = {"cells": [{**cell, "execution_count": None, "id": "a"}], "metadata": {}}
    notebook |= {"nbformat": 4, "nbformat_minor": 5}
    (folder / "dan_lent.ipynb").write_text(json.dumps(notebook), encoding="utf-8")

    def infralens(*words: str) -> str:
        done = CliRunner().invoke(main, ["--labs", str(labs), *words])
        assert done.exit_code == 0, done.output
        return done.output

    options = ("--output", str(out), "--jobs", "2", "--isolation", "process")
    infralens("batch", str(folder), *options)
    table = csv.DictReader(io.StringIO((out / "summary.csv").read_text(encoding="utf-8")))
    points = [(row["learner"], row["points"]) for row in table]
    assert points == [("ada", "7"), ("bob", "7"), ("cid", "0"), ("dan", "7")]
    page = tmp_path / "class.html"
    told = infralens("class-report", str(out), "--html", str(page))
    assert "ada, bob, dan  the same code, but for comments and blanks" in told
    assert page.read_text(encoding="utf-8").count("<h2>") == 1
    begun = time.monotonic()
    infralens("batch", str(folder), *options)
    assert time.monotonic() - begun < 3, "what was graded is graded again"


# What the class knows


def test_the_class_report_counts_learners_and_says_what_to_teach(lent: Lab, tmp_path: Path) -> None:
    reports = {
        "ada": report_on(lent, "1.1", "1.2", "1.3"),
        "bob": report_on(lent, "1.1", "1.2", wrong="no-scale"),
        "cid": report_on(lent, "1.1", wrong="no-scale"),
        "dan": report_on(lent, "1.1", wrong="half"),
        "eve": report_on(lent, fault="it broke"),
    }
    for name, report in reports.items():
        write_result(tmp_path / "results", result_of(lent, name, report))
    (found,) = standings(tmp_path, [Assigned("attacks-lab-01", lent, 1, {"1.3": 7})])
    assert [row.score for row in found.graded] == [11, 4, 2, 2]
    assert (found.mean, found.median, found.full) == (4.75, 3, 1)
    third = found.todos[2]
    assert [(m.name, m.count, m.says) for m in third.mistakes] == [
        ("no-scale", 2, "It is no-scale."),
        ("half", 1, "It is half."),
    ]
    taught = [(todo.todo, todo.passed, todo.begun) for todo in found.teach]
    assert taught == [("1.3", 1, 4), ("1.2", 2, 4)]
    text = as_text([found])
    assert "1.3  An adapter: 1 of the 4 who began it passed; 2 made no-scale" in text
    assert "eve  it broke" in text


def test_a_course_that_nbgrader_graded_is_read_too(lent: Lab, tmp_path: Path) -> None:
    write_result(tmp_path / REPORTS, result_of(lent, "ada", report_on(lent, "1.1")))
    (found,) = standings(tmp_path, ())
    assert [(row.learner, row.score) for row in found.rows] == [("ada", 2)]


def test_the_page_is_called_after_the_folder_one_stands_in(
    lent: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_result(tmp_path / "diffusion" / REPORTS, result_of(lent, "ada", report_on(lent)))
    monkeypatch.chdir(tmp_path / "diffusion")
    done = CliRunner().invoke(main, ["class-report", ".", "--html", "class.html"])
    assert done.exit_code == 0, done.output
    assert "<h1>diffusion</h1>" in Path("class.html").read_text(encoding="utf-8")


def test_who_is_alike_is_told_once_and_untouched_stubs_are_not(lent: Lab, tmp_path: Path) -> None:
    wrong, right = report_on(lent, wrong="no-scale"), report_on(lent, "1.1", "1.2", "1.3")
    one = report_on(lent, "1.1", "1.2", wrong="no-scale")
    untouched = tuple(replace(todo, status="not_started", score=0) for todo in right.todos)
    stub = replace(right, todos=untouched)
    handed_in = {
        "ada": (right, "file", "code"),
        "bob": (right, "file", "code"),
        "cid": (right, "other", "code"),
        "dan": (wrong, "1", "1"),
        "eve": (wrong, "2", "2"),
        "fay": (stub, "stub", "stub"),
        "gus": (stub, "stub", "stub"),
        "hal": (one, "3", "3"),
        "ida": (one, "4", "4"),
    }
    for name, (report, sha256, code) in handed_in.items():
        result = result_of(lent, name, report, sha256=sha256, code=code)
        write_result(tmp_path / "results", result)
    (found,) = standings(tmp_path, ())
    assert [(alike.how.split(",")[0], alike.learners) for alike in found.alike] == [
        ("the same file", ("ada", "bob")),
        ("the same code", ("ada", "bob", "cid")),
        ("the same mistakes in the same places", ("dan", "eve")),
    ]


ODD = (b"def f(:\n", b"\xff\xfe", b"(" * 10_000, b"\x00", b"{", b'"""', b"\tx\n y")


def test_code_is_the_same_whatever_its_comments_and_blanks() -> None:
    code = code_digest(b"def f(x):\n    return x + 1\n", "a.py")
    assert code == code_digest(b"# mine\ndef f(x):\n\n  return x+1  # one more\n", "b.py")
    assert code != code_digest(b"def f(x):\n    return x - 1\n", "a.py")
    cells = [
        {"cell_type": "markdown", "source": "words"},
        {"cell_type": "code", "source": ["def f(x):\n", "    return x + 1"], "outputs": [1]},
    ]
    assert code == code_digest(json.dumps({"cells": cells}).encode(), "a.ipynb")
    assert len({code_digest(odd, "a.py") for odd in ODD}) == len(ODD)
    assert code not in {code_digest(odd, "a.ipynb") for odd in ODD}
    begun = time.process_time()
    code_digest(b"(" * (1 << 20), "a.py")
    assert time.process_time() - begun < 2, "a file of nothing but brackets takes its time"


def test_a_course_pays_what_it_says_for_what_was_passed(lent: Lab) -> None:
    report = paid(report_on(lent, "1.1", "1.2"), {"1.1": 10, "1.3": 0})
    assert [todo.score for todo in report.todos] == [10, 2, 0]
    assert (report.score, report.max_score) == (12, 12)
    assert paid(report_on(lent, "1.1", fault="it broke"), {"1.1": 10}).score == 0
