"""Arguments are judged before anything starts: no examiner is begun for what cannot be done."""

from __future__ import annotations

import html
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infralens import grading, watching
from infralens.cli import main
from infralens.cli.group import ORDER
from infralens.examiner.errors import UnreadableError
from infralens.labs import Lab, find_lab, find_labs
from infralens.report import CheckResult, CheckStatus, Detail, Report
from infralens.workspace import TodoProgress, Workspace, read_progress, updating

CHECK = CheckResult("a", "A.", "passed")
ONE_FOR_ALL = "one examiner for all"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new workspace, and no examiner that could be started."""

    def started(**options: Any) -> None:
        raise AssertionError("an examiner was started")

    monkeypatch.setattr(grading, "examiner", started)
    monkeypatch.chdir(tmp_path)
    assert run("init", ".").exit_code == 0
    return tmp_path


def grading_with(monkeypatch: pytest.MonkeyPatch, grade: Callable[..., Any]) -> None:
    """Have this stand in for every grade, and one word for the examiner that it is asked of."""
    monkeypatch.setattr(grading, "grade", grade)
    monkeypatch.setattr(grading, "examiner", lambda **options: nullcontext(ONE_FOR_ALL))


def run(*words: str, **more: Any) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, words, **more)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["grade", "lab-03", "--file", "nothing.py"], "There is no file"),
        (["debug", "3.1", "--file", "nothing.py"], "There is no file"),
        (["grade", "lab-03", "--file", "a.py", "--file", "b.py"], "--file was given 2 times"),
        (["grade", "lab-03", "--todo", "diffsynth/3.1"], "lab-03 has no todo diffsynth/3.1"),
        (["grade", "lab-03", "--output", ""], "--output needs the name of a file."),
        (["grade", "lab-03", "--output", "lab/x", "--format", "json"], "lab/x cannot be written"),
        (["grade", "lab-03", "--output", "x" * 300], "cannot be written: File name too long"),
        (["grade", "lab-03", "--output", "round"], "cannot be written: its links lead in a circle"),
        (
            ["generate", "a star", "--out", "x" * 300 + ".png"],
            "cannot be written: File name too long",
        ),
        (["new", "mine", "lab-07", "x" * 5000, "--into", "labs"], "is no title"),
        (["new", "mine", "lab-07", "7 steps", "--into", "labs"], "begins with a number"),
        (
            ["new", "mine", "lab-07", "Seven", "--file", "../a.py", "--into", "labs"],
            "no file's name",
        ),
        (["new", "mine", "lab-\u0660\u0667", "Seven", "--into", "labs"], "no lab's name"),
        (["new", "mine", "lab-07", "\x1b[2J", "--into", "labs"], "is no title"),
        (["new", "mine", "lab-07", "a\udce9", "--into", "labs"], "is no title"),
        (["grade", "--file", "a.py"], "Name the lab that --file belongs to."),
        (["grade", "--all"], "has been changed yet; there is nothing to grade."),
        (["grade", "--all", "--todo", "3.1"], "--all grades every lab that you have begun"),
        (["grade", ""], "There is no lab ''"),  # as of a variable that is not set
        (["watch", ""], "There is no lab ''"),
        (["read", "process#nothing"], "The handbook's page process has no section 'nothing'"),
        (["read", "x" * 5000], "There is no lab 'xxx"),
        (["read", "handbook/" + "x" * 5000], "The handbook has no xxx"),
        (["read", "../secret"], "There is no lab '../secret'"),
        (["read", "handbook/../secret.md"], "The handbook has no ../secret.md"),
        (["grade", "\x1b[2J"], "There is no lab '\\x1b[2J'"),
        (["grade", "lab-03", "--file", "a\x1b]0;owned\x07"], "a\\x1b]0;owned\\x07"),
        (["grade", "lab-03", "\x1b[2J"], "Got unexpected extra argument (\\x1b[2J)"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_told_at_once(here: Path, words: Sequence[str], says: str) -> None:
    (here / "lab").write_text("", encoding="utf-8")
    (here / "round").symlink_to("round")
    (here.parent / "secret.md").write_text("# secret", encoding="utf-8")
    result = run(*words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "\x1b" not in result.output
    assert len(result.output) < 600


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_links_in_a_ring_are_a_sentence(here: Path) -> None:
    mine = here / "diffusers" / "lab-03-scheduler-reading" / "scheduler.py"
    mine.unlink()
    mine.symlink_to(mine)
    for words in (["grade", "lab-03", "--output", str(mine)], ["reset", "lab-03"]):
        result = run(*words)
        assert result.exit_code == 2
        assert "cannot be written: " in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_log_that_nobody_reads_is_told_at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(here / "log")
    monkeypatch.setenv("INFRALENS_LOG", str(here / "log"))
    somebody = threading.Timer(5.0, os.open, [here / "log", os.O_RDONLY | os.O_NONBLOCK])
    somebody.start()  # so that nothing waits for ever
    result = run("list")
    somebody.cancel()
    assert result.exit_code == 2
    assert "log, which cannot be written: " in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_link_leads_to_no_other_repository(here: Path) -> None:
    """Such as the one in which the solutions lie."""
    (here / "hand").symlink_to(here / "diffusers")
    result = run("grade", "lab-03", "--file", "hand/a.py", "--ref", "HEAD")
    assert result.exit_code == 2
    assert "hand is a symbolic link" in result.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_may_not_be_written_is_told_at_once(here: Path) -> None:
    (here / "locked").mkdir(mode=0o500)
    result = run("grade", "lab-03", "--output", "locked/report")
    assert "Permission denied" in result.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Workspace(here).file(find_lab("lab-03", find_labs()))
    path.unlink()
    os.mkfifo(path)
    grading_with(monkeypatch, lambda lab, path, **options: None)
    assert "scheduler.py is not a regular file" in run("grade", "--all").stderr
    assert watching._text(path) == ""
    monkeypatch.setattr(Lab, "stub", here / "pipe")
    os.mkfifo(here / "pipe")
    assert "lab-03 has no stub to put back" in run("reset", "lab-03").stderr


def test_a_quiz_that_breaks_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(lab: Lab) -> None:
        raise SystemExit(0)

    monkeypatch.setattr("infralens.quiz.questions_of", broken)
    result = run("quiz", "lab-03")
    assert result.exit_code == 3
    assert "The quiz of lab-03 raises SystemExit: 0." in result.stderr


def test_a_lab_without_a_stub_cannot_be_reset(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lab, "stub", here / "nothing.py")
    result = run("reset", "lab-03")
    assert result.exit_code == 3
    assert "lab-03 has no stub to put back" in result.stderr


def test_a_folder_s_name_steers_no_terminal_and_can_be_pasted(here: Path) -> None:
    said = run("init", "\x1b[2J").stdout.splitlines()
    assert said[0].endswith("files written to \\x1b[2J.")
    assert run("init", "my work").stdout.splitlines()[-1].startswith("Next: `cd 'my work'`, ")


@pytest.mark.parametrize(
    "name",
    [
        ".",
        "scheduler.py",
        "../lab-03-scheduler-reading",
        "../lab-03-scheduler-reading/scheduler.py",
    ],
)
def test_a_path_is_a_lab_s_name_too(here: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(here / "diffusers" / "lab-03-scheduler-reading")
    assert "Lab 03" in run("read", name).stdout
    monkeypatch.chdir(here)
    assert run("read", name).exit_code == 2


def test_grade_alone_takes_the_next_lab(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Path]] = []

    def grade(lab: Lab, path: Path, **options: Any) -> None:
        asked.append((lab.id, path))
        raise UnreadableError("seen enough")

    grading_with(monkeypatch, grade)
    first, second = find_labs()[:2]
    for lab in (first, second):
        assert run("grade").stderr == "infralens: seen enough\n"
        assert asked.pop() == (lab.id, Workspace(here).file(lab))
        done = {todo.id: TodoProgress(todo.points, todo.points, "passed") for todo in lab.todos}
        with updating(Workspace(here)) as holder:
            holder[0] = replace(holder[0], labs={lab.id: done})


def test_all_grades_every_file_that_was_begun(
    here: Path, monkeypatch: pytest.MonkeyPatch, report_of: Any
) -> None:
    begun = [find_lab(name, find_labs()) for name in ("lab-02", "lab-05", "diffsynth/lab-04")]
    said: tuple[CheckStatus, ...] = ("passed", "failed", "passed")
    status = dict(zip([lab.id for lab in begun], said, strict=True))

    def grade(lab: Lab, path: Path, **options: Any) -> Report:
        assert options["using"] is ONE_FOR_ALL
        todo = lab.todos[0]
        check = CheckResult("a", "A.", status[lab.id])
        made: Report = report_of((todo.id, todo.points, status[lab.id], [check]), lab=lab.id)
        return made

    grading_with(monkeypatch, grade)
    for lab in begun:
        Workspace(here).file(lab).write_text("begun = 1\n", encoding="utf-8")
    assert run("grade", "--all", "--seed", "7").exit_code == 1
    assert not read_progress(Workspace(here))[0].labs  # a seed that one chose counts nowhere
    result = run("grade", "--all")
    assert result.exit_code == 1
    shown = [line.split(" · ")[0] for line in result.stdout.splitlines() if "seed 7" in line]
    assert shown == [lab.short for lab in begun]
    kept = read_progress(Workspace(here))[0]
    assert [kept.score(lab) > 0 for lab in begun] == [True, False, True]


@pytest.fixture
def labs(here: Path) -> Path:
    """A folder of an author's own, without a lab in it yet."""
    (here / "my labs" / "suites").mkdir(parents=True)
    return here / "my labs"


def told(labs: Path, *words: str) -> str:
    """What `infralens --labs … WORDS` prints and writes, where each command can be pasted."""
    result = run("--labs", str(labs), *words, env={"COLUMNS": "200"})
    assert result.exit_code in (0, 1)
    text = result.stdout + "".join(path.read_text("utf-8") for path in labs.parent.glob("out.*"))
    text = html.unescape(text)
    assert re.findall(rf"infralens (?:{'|'.join(ORDER)})\b.*", text) == []
    assert f"infralens --labs '{labs}' " in text
    return text


@pytest.mark.parametrize(
    "words", [["list"], ["read"], ["read", "process"], ["interview", "lab-03"]], ids=" ".join
)
def test_commands_that_are_printed_can_be_pasted(labs: Path, words: Sequence[str]) -> None:
    told(labs, *words)


def test_links_of_a_page_can_be_pasted(labs: Path) -> None:
    """The page itself speaks of commands as they are for everybody."""
    shown = run("--labs", str(labs), "read", "lab-05", env={"COLUMNS": "200"}).stdout
    assert f"(infralens --labs '{labs}' read " in shown
    assert "(infralens read " not in shown


@pytest.mark.parametrize("form", ["text", "text to a file", "html"])
def test_commands_of_a_report_can_be_pasted(
    labs: Path, monkeypatch: pytest.MonkeyPatch, report_of: Any, form: str
) -> None:
    lab = find_lab("lab-03", find_labs())
    detail = Detail(call="f()", reads="handbook/scheduler.md#steps")
    failed = ("3.3", 4, "failed", [CheckResult("a", "A.", "failed", detail=detail)])
    words = ["grade", "lab-03", "--format", form.split()[0]]
    words += [] if form == "text" else ["--output", "out.txt"]
    grading_with(monkeypatch, lambda lab, path, **options: report_of(failed))
    text = told(labs, *words)
    assert all(f"' {word} " in text for word in ("hint", "read"))
    passed = [(todo.id, todo.points, "passed", [CHECK]) for todo in lab.todos]
    grading_with(monkeypatch, lambda lab, path, **options: report_of(*passed))
    if form == "text":
        assert "' quiz lab-03" in told(labs, *words)
        for only, following in (("3.1", "' read 3.2"), (lab.todos[-1].id, "' grade lab-03")):
            one = [row for row in passed if row[0] == only]
            grading_with(monkeypatch, lambda lab, path, one=one, **options: report_of(*one))
            assert following in told(labs, *words)


@pytest.mark.parametrize("words", [["hint", "99.99.99"], ["grade", "lab-03"], ["source", "x"]])
def test_commands_in_a_sentence_about_wrong_usage_can_be_pasted(
    labs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    monkeypatch.chdir(tmp_path / "..")
    said = run("--labs", str(labs), *words).stderr
    assert f"`infralens --labs '{labs}' " in said
    assert "`infralens " not in said.replace(f"`infralens --labs '{labs}' ", "")


def test_commands_of_a_watch_can_be_pasted(labs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(
        watching, "watch_lab", lambda *given, program, **more: begun.append(program)
    )
    assert run("--labs", str(labs), "watch", "lab-03").exit_code == 0
    assert begun == [f"infralens --labs '{labs}'"]


@pytest.mark.parametrize(
    "name", ["process", "process.md", "handbook/process", "handbook/process.md"]
)
def test_a_page_of_the_handbook_has_these_names(name: str) -> None:
    assert run("read", name).exit_code == 0


def test_no_columns_at_all_are_eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As some terminals say before they are drawn."""
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    assert "Forward Noise Process" in run("list", env={"COLUMNS": "0"}).stdout


def test_every_command_has_its_place_in_the_order() -> None:
    assert sorted(ORDER) == sorted(main.commands)
