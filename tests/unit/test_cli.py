"""The command line: one clear sentence for whatever is wrong, and the exit code that says whose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import torch
from click.testing import CliRunner, Result

from infralens.cli import main
from infralens.labs import Lab, find_labs

SUITE = """
@todo("90.1")
def test_scaled(candidate, draw):
    \"\"\"The input is scaled.\"\"\"
    x, factor = draw.latents(2, 3), draw.uniform(2, 3)
    answer = candidate.scale(x, factor)
    assert_matches(answer, library=lambda: x * factor, truth=lambda: x.double() * factor)

@todo("90.2")
def test_fine(candidate):
    assert_equals(candidate.fine(), value=1)
"""
STUB = (
    'def scale(x, factor):\n    raise NotImplementedError("TODO 90.1: scale")\n\n\n'
    'def fine():\n    raise NotImplementedError("TODO 90.2: fine")\n'
)
FINE = "\n\ndef fine():\n    return 1\n"
RIGHT = "def scale(x, factor):\n    return x * factor\n" + FINE
WRONG = "def scale(x, factor):\n    return x + factor\n" + FINE

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def lab(workshop: Any) -> Lab:
    made: Lab = workshop.lab(
        SUITE,
        todos=["90.1", "90.2"],
        stub=STUB,
        limits={"call_seconds": 1.0, "lab_seconds": 30.0, "memory_mb": 1000},
    )
    (made.place.exercises.parent / "solutions").mkdir()
    return made


@pytest.fixture
def infralens(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`infralens …` in an empty folder, with our lab among the others."""
    monkeypatch.chdir(tmp_path)
    root = lab.place.suites.parent

    def run(*words: str | Path, **more: Any) -> Result:
        runner = CliRunner(env={"COLUMNS": "200"}, catch_exceptions=False)
        return runner.invoke(main, ["--labs", str(root), *map(str, words)], **more)

    return run


@pytest.fixture
def grade(infralens: Run, warm_grade: None, tmp_path: Path) -> Run:
    """`infralens grade lab-90 --file …` of this text."""

    def run(text: str, *words: str | Path) -> Result:
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        return infralens("grade", "lab-90", "--isolation=process", "--file", path, *words)

    return run


def one_line(result: Result) -> str:
    """What is on stderr, when it is one line and stdout is empty."""
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    return line


# Wrong usage


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["grade", "lab-91"], "There is no lab 'lab-91'. Did you mean lab-90?"),
        (["grade", "xyzzy"], "There is no lab 'xyzzy'. There are:"),
        (["grade", "lab-90", "--todo", "90.7"], "lab-90 has no todo 90.7; it has 90.1, 90.2."),
        (["grade", "lab-90"], "is in no workspace. Make one with `infralens --labs"),
        (["grade", "lab-90", "--file", "nothing.py"], "nothing.py."),
        (["read", "lab-91"], "Did you mean lab-90?"),
        (["debug", "90.12"], "There is no todo '90.12'. Did you mean 90."),
        (["hint", "lab"], "There is no todo 'lab'."),
        (["gradd", "lab-90"], "There is no command 'gradd'. Did you mean grade?"),
        (["xyzzy"], "There is no command 'xyzzy'. See `infralens --help`."),
        (["reset", "lab-90"], "is in no workspace"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    infralens: Run, warm_grade: None, words: Sequence[str], says: str
) -> None:
    result = infralens(*words)
    assert result.exit_code == 2
    assert says in one_line(result)
    assert one_line(result).startswith("infralens: ")


@pytest.mark.parametrize("seed", ["-1", "4294967296", "x"])
def test_a_seed_that_is_none_is_wrong_usage(grade: Run, seed: str) -> None:
    assert grade(RIGHT, "--seed", seed).exit_code == 2


def make_link(path: Path) -> None:
    path.with_name("other.py").write_text(RIGHT, encoding="utf-8")
    path.symlink_to(path.with_name("other.py"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (make_link, "is a symbolic link; put the file itself there."),
        (Path.mkdir, "is a directory; name the file in it."),
        (lambda path: os.mkfifo(path), "is not a regular file."),
        (lambda path: path.write_bytes(b"#" * (2**20 + 1)), "is larger than 1 MiB"),
    ],
    ids=["link", "directory", "pipe", "large"],
)
def test_what_cannot_be_read_is_one_line_and_exit_code_2(
    infralens: Run, warm_grade: None, tmp_path: Path, make: Callable[[Path], Any], says: str
) -> None:
    make(tmp_path / "mine.py")
    result = infralens("grade", "lab-90", "--file", tmp_path / "mine.py", "--isolation=process")
    assert result.exit_code == 2
    assert says in one_line(result)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_here_is_one_line_and_exit_code_2(grade: Run) -> None:
    result = grade(RIGHT, "--device", "cuda")
    assert result.exit_code == 2
    assert one_line(result) == ("infralens: There is no CUDA device here; grade with --device cpu.")


def test_a_folder_of_labs_with_a_bad_lab_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    home = tmp_path / "suites" / "diffusers" / "lab_91_bad"
    home.mkdir(parents=True)
    (home / "lab.yaml").write_text("title: [", encoding="utf-8")
    result = CliRunner().invoke(main, ["--labs", str(tmp_path), "list"])
    assert result.exit_code == 2
    assert "lab_91_bad/lab.yaml cannot be read" in result.stderr


def test_a_module_that_the_lab_lacks_is_not_blamed_on_the_learner(
    workshop: Any, warm_grade: None
) -> None:
    lab = workshop.lab(SUITE, todos=["90.1", "90.2"], stub=STUB, loaded=["nothing_of_this_name"])
    words = ["--labs", str(lab.place.suites.parent), "grade", "lab-90", "--file"]
    result = CliRunner().invoke(main, [*words, str(workshop.submission(RIGHT))])
    assert result.exit_code == 3
    assert one_line(result).endswith(
        "lab-90 loads nothing_of_this_name, which is not installed here."
    )


# Files that are graded and found wanting


def test_full_marks_are_exit_code_0(grade: Run) -> None:
    result = grade(RIGHT)
    assert result.exit_code == 0
    assert "4 of 4 points" in result.stdout


def test_an_untouched_stub_scores_nothing_and_says_what_is_next(grade: Run) -> None:
    result = grade(STUB)
    assert result.exit_code == 1
    assert "0 of 4 points" in result.stdout
    assert "next  90.1 Todo 90.1" in result.stdout


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"def scale(x:\n    pass\n", ["syntax error on line 1", "def scale(x:"]),
        (b"x = 1\nif x:\npass\n", ["syntax error on line 3", "pass"]),
        (b"x = 1\ny = '\xe9'\n", ["not UTF-8 text (first bad byte on line 2)", "save it as UTF-8"]),
        (b"import nothing_of_this_name\n", ["No module named 'nothing_of_this_name'", "line 1"]),
        (b"1 / 0\n", ["your code raised ZeroDivisionError on line 1"]),
    ],
    ids=["syntax", "indentation", "encoding", "import", "raises at import"],
)
def test_a_file_that_does_not_run_is_shown_with_its_line(
    infralens: Run, warm_grade: None, tmp_path: Path, data: bytes, says: Sequence[str]
) -> None:
    (tmp_path / "mine.py").write_bytes(data)
    result = infralens("grade", "lab-90", "--file", tmp_path / "mine.py", "--isolation=process")
    assert result.exit_code == 1
    assert "0 of 4 points" in result.stdout
    assert "Traceback" not in result.output
    for piece in says:
        assert piece in result.stdout


KINDS = {
    "renamed": ("def scaled(x, factor): return x", "is missing `scale`; your file has `scaled`"),
    "deleted": ("", "lab-90 is missing `scale`. Put it back under that name."),
    "one parameter short": ("def scale(x): return x", "`scale` (line 1) cannot be called with 2"),
    "one parameter more": ("def scale(x, y, z): return x", "cannot be called with 2 arguments"),
    "not a function": ("scale = 3", "`scale` is not a function"),
    "None": ("def scale(x, factor): pass", "None, expected a float32 tensor of shape (2, 3)"),
    "a list": ("def scale(x, factor): return x.tolist()", "a list of 2, expected a float32 tensor"),
    "another shape": ("def scale(x, factor): return (x * factor).T", "shape (3, 2), expected (2,"),
    "broadcasts": ("def scale(x, factor): return (x * factor)[:1]", "shape (1, 3), expected (2,"),
    "another dtype": ("def scale(x, f): return x.double() * f", "dtype float64, expected float32"),
    "not finite": ("def scale(x, factor): return x / 0 * 0", "not finite"),
    "wrong numbers": ("def scale(x, factor): return x", "off by up to"),
    "raises": ("def scale(x, factor):\n    y = {}\n    return y['k']", "KeyError on line 3: 'k'"),
    "hangs": ("def scale(x, factor):\n    while True: pass", "no answer within 1 seconds"),
    "ends itself": (
        "import os\ndef scale(x, f): os._exit(7)",
        "ended its process with exit code 7",
    ),
    "prints megabytes": (
        "def scale(x, factor):\n    print('spam' * 1_000_000)\n    return x",
        "off by up to",
    ),
    "cannot cross": ("def scale(x, factor): return x.to_sparse()", "returned a Tensor that is not"),
    "misspelt inside": ("def scale(x, factor): return x * facter", "name 'facter' is not defined"),
    "lying object": (
        "class Yes:\n    def __eq__(self, other): return True\ndef scale(x, f): return Yes()",
        "a Yes object, expected a float32 tensor",
    ),
}


@pytest.mark.parametrize(("text", "says"), KINDS.values(), ids=KINDS)
def test_a_wrong_answer_is_one_sentence_and_the_other_todos_are_graded(
    grade: Run, text: str, says: str
) -> None:
    result = grade(text + FINE)
    assert result.exit_code == 1
    assert says in result.stdout
    assert "2 of 4 points" in result.stdout
    assert "✔  90.2" in result.stdout
    assert "Traceback" not in result.output
    assert len(result.stdout) < 4000
    assert result.stderr == ""


# Options


def test_only_the_todo_that_is_asked_for_is_graded(grade: Run) -> None:
    result = grade(WRONG, "--todo", "90.2", "--format", "json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert [todo["id"] for todo in report["todos"]] == ["90.2"]
    assert (report["score"], report["max_score"]) == (2, 2)


def test_json_is_one_document_and_nothing_else(grade: Run) -> None:
    result = grade(WRONG, "--format", "json")
    assert result.exit_code == 1
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert report["schema"] == 1
    assert report["lab"] == "diffusers/lab-90"
    assert (report["score"], report["max_score"], report["passed"]) == (2, 4, False)
    check = report["todos"][0]["checks"][0]
    assert check["status"] == "failed"
    assert check["max_abs_error"] > check["tolerance"] > 0
    assert report["environment"]["torch"] == torch.__version__


def test_a_seed_replays_a_grade_exactly(grade: Run) -> None:
    first, again, other = (
        json.loads(grade(WRONG, "--format", "json", "--seed", seed).stdout)
        for seed in ("17", "17", "18")
    )
    assert first["seed"] == 17
    del first["seconds"], again["seconds"]
    assert first == again
    assert first["todos"] != other["todos"]


def test_junit_is_one_document_and_nothing_else(grade: Run) -> None:
    result = grade(WRONG, "--format", "junit")
    assert result.exit_code == 1
    root = ElementTree.fromstring(result.stdout)
    assert (root.get("tests"), root.get("failures")) == ("2", "1")


@pytest.mark.parametrize("form", ["text", "json", "junit"])
def test_a_report_is_written_to_a_file_and_nothing_is_printed(
    grade: Run, tmp_path: Path, form: str
) -> None:
    output = tmp_path / "new" / "report"
    assert grade(WRONG, "--output", output).exit_code == 2  # folders are not made in silence
    output.parent.mkdir()
    result = grade(WRONG, "--format", form, "--output", output)
    assert result.exit_code == 1
    assert result.output == ""
    text = output.read_text(encoding="utf-8")
    assert {"text": "2 of 4 points", "json": '"score": 2', "junit": "<testsuite"}[form] in text
    assert [path.name for path in output.parent.iterdir()] == ["report"]


def test_a_report_that_cannot_be_written_leaves_the_old_one_whole(
    grade: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "report.json"
    output.write_text("old", encoding="utf-8")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = grade(WRONG, "--format", "json", "--output", output)
    assert result.exit_code == 2
    assert "cannot be written: No space left on device" in one_line(result)
    assert output.read_text(encoding="utf-8") == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "mine.py"}


def test_a_report_below_a_file_is_one_line_and_exit_code_2(grade: Run, tmp_path: Path) -> None:
    result = grade(WRONG, "--output", tmp_path / "mine.py" / "report")
    assert result.exit_code == 2
    assert "cannot be written" in one_line(result)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def test_a_git_revision_is_graded_and_not_the_file(grade: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RIGHT, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "mine.py")
    git(tmp_path, "commit", "-qm", "right")
    assert grade(WRONG, "--ref", "HEAD").exit_code == 0
    assert grade(WRONG).exit_code == 1


def test_an_unknown_git_revision_is_one_line_and_exit_code_2(grade: Run, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    result = grade(RIGHT, "--ref", "nothing")
    assert result.exit_code == 2
    assert "git knows no revision 'nothing' here" in one_line(result)


def test_a_grader_that_fails_is_exit_code_3(
    workshop: Any, warm_grade: None, tmp_path: Path
) -> None:
    lab = workshop.lab("import nothing_of_this_name\n")
    path = workshop.submission(RIGHT)
    root = str(lab.place.suites.parent)
    words = ["--labs", root, "grade", "lab-90", "--isolation=process", "--file", str(path)]
    result = CliRunner(catch_exceptions=False).invoke(main, words)
    assert result.exit_code == 3
    assert "The grader failed; your answers were not judged." in result.stdout
    assert "points" not in result.stdout


# A workspace


@pytest.fixture
def mine(infralens: Run, warm_grade: None, lab: Lab, tmp_path: Path) -> Path:
    """The learner's own file in a workspace here."""
    (tmp_path / ".infralens").mkdir()
    path = tmp_path / lab.track / lab.folder / lab.file
    path.parent.mkdir(parents=True)
    path.write_text(WRONG, encoding="utf-8")
    return path


def test_points_are_kept_and_listed(infralens: Run, mine: Path) -> None:
    assert infralens("grade", "lab-90", "--isolation=process").exit_code == 1
    assert "2/4" in infralens("list").stdout
    mine.write_text(RIGHT, encoding="utf-8")
    assert infralens("grade", "90", "--isolation=process").exit_code == 0
    assert "4/4" in infralens("list").stdout


def test_another_file_does_not_count(infralens: Run, mine: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(RIGHT, encoding="utf-8")
    result = infralens("grade", "lab-90", "--file", tmp_path / "other.py", "--isolation=process")
    assert result.exit_code == 0
    assert "0/4" in infralens("list").stdout


def test_a_seed_that_one_chose_does_not_count(infralens: Run, mine: Path) -> None:
    """A table of one seed's answers is no work."""
    mine.write_text(RIGHT, encoding="utf-8")
    assert infralens("grade", "lab-90", "--seed", "7", "--isolation=process").exit_code == 0
    assert "0/4" in infralens("list").stdout


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_report_is_shown_before_its_points_are_kept(
    infralens: Run, mine: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / ".infralens" / "progress.json")
    result = infralens("grade", "lab-90", "--isolation=process")
    assert result.exit_code == 1
    assert "2 of 4 points" in result.stdout
    assert "no regular file" in result.stderr
    assert (tmp_path / ".infralens" / "progress.json").is_fifo()


def test_points_that_cannot_be_kept_do_not_hide_the_grade(
    infralens: Run, mine: Path, tmp_path: Path
) -> None:
    (tmp_path / ".infralens" / "lock").mkdir()
    result = infralens("grade", "lab-90", "--isolation=process")
    assert result.exit_code == 1
    assert "2 of 4 points" in result.stdout
    assert result.stderr.startswith("Your points were not kept")


def test_damaged_progress_is_told_and_the_list_shown(infralens: Run, mine: Path) -> None:
    (mine.parents[2] / ".infralens" / "progress.json").write_text("{", encoding="utf-8")
    result = infralens("list")
    assert result.exit_code == 0
    assert "damaged" in result.stderr
    assert "0/4" in result.stdout


def test_reset_brings_the_stub_back_and_keeps_the_file(infralens: Run, mine: Path) -> None:
    assert infralens("reset", "lab-90").exit_code == 0
    assert mine.read_text(encoding="utf-8") == STUB
    assert mine.with_name("probe.backup-1.py").read_text(encoding="utf-8") == WRONG


def test_the_solution_is_not_shown_before_full_marks(infralens: Run, mine: Path) -> None:
    result = infralens("solution", "lab-90")
    assert result.exit_code == 2
    assert "You have 0 of 4 points" in one_line(result)


def test_init_makes_a_workspace_and_keeps_what_is_there(infralens: Run, tmp_path: Path) -> None:
    assert "Next: `cd work`, then `infralens --labs " in infralens("init", "work").stdout
    stub = tmp_path / "work" / "diffusers" / "lab-03-scheduler-reading" / "scheduler.py"
    stub.write_text("mine", encoding="utf-8")
    result = infralens("init", "work")
    assert "0 files written" in result.stdout
    assert "are kept" in result.stdout
    assert stub.read_text(encoding="utf-8") == "mine"


def test_init_over_a_file_is_one_line_and_exit_code_2(infralens: Run, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "diffusers").write_text("", encoding="utf-8")
    result = infralens("init", "work")
    assert result.exit_code == 2
    assert "cannot be written" in one_line(result)


def test_list_shows_every_lab_and_what_is_next(infralens: Run, lab: Lab) -> None:
    result = infralens("list")
    assert result.exit_code == 0
    assert "lab-03" in result.stdout
    assert "lab-90" in result.stdout
    told = f"Next: infralens --labs {lab.place.suites.parent} read overview, then process, obj"
    assert told in result.stdout


def test_list_tells_which_labs_come_before_one_where_there_is_room(infralens: Run) -> None:
    rows = infralens("list").stdout.splitlines()
    row = next(row for row in rows if row.startswith("diffsynth/lab-03"))
    assert row.split("latent_shapes.py")[1].strip() == "needs lab-05, diffsynth/lab-01"
    assert not any("needs" in row for row in rows if row.startswith("lab-01"))


def test_a_narrow_terminal_shows_the_names_of_labs_whole(
    infralens: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    lines = click.unstyle(infralens("list", env={"COLUMNS": "50"}).stdout).splitlines()
    assert any(line.startswith("diffsynth/lab-10 ") for line in lines)
    *rows, told = lines
    assert max(map(len, rows)) <= 50
    assert told.endswith(
        " read overview, then process, objective, lab-01"
    )  # what is to be copied is never split


def test_a_narrow_terminal_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    result = CliRunner().invoke(main, ["list"], env={"COLUMNS": "40"})
    words = set(click.unstyle(result.stdout).split())
    assert {word for lab in find_labs() for word in lab.title.split()} <= words


def test_help_lists_every_command() -> None:
    listed = main.list_commands(click.Context(main))
    assert sorted(listed) == sorted(main.commands)


def test_help_tells_each_command_in_a_whole_sentence(infralens: Run) -> None:
    commands = infralens("--help", env={"COLUMNS": "80"}).stdout.partition("Commands:")[2]
    assert "grade" in commands
    assert "..." not in commands


def test_read_alone_shows_the_path_and_then_the_labs_that_are_not_on_it(infralens: Run) -> None:
    lines = infralens("read").stdout.splitlines()
    names = [line.split()[0] for line in lines if line.strip()]
    assert names[0] == "overview"
    assert names.index("lab-03") < names.index("lab-90")


def test_read_prints_the_page(infralens: Run) -> None:
    result = infralens("read", "lab-90")
    assert result.exit_code == 0
    assert "The page." in result.stdout


@pytest.mark.parametrize("name", ["guidance", "handbook/guidance.md"])
def test_read_prints_a_page_of_the_handbook(infralens: Run, name: str) -> None:
    result = infralens("read", name)
    assert result.exit_code == 0
    assert "Classifier-free guidance" in result.stdout


def test_doctor_says_what_is_installed(infralens: Run) -> None:
    result = infralens("doctor")
    assert result.exit_code == 0
    for name in ("python", "torch", "diffusers", "device", "isolation"):
        assert name in result.stdout
    if " sandbox " in result.stdout:
        listed = result.stdout.rpartition("refused calls: ")[2].replace("\n", " ").split(", ")
        refused = {"keyctl", "io_uring_setup", "userfaultfd", "ptrace", "bpf", "mount"}
        assert refused < {call.strip() for call in listed}


def test_an_interpreter_that_cannot_be_started_is_one_sentence(
    infralens: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "python"
    closed.write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "executable", str(closed))
    told = infralens("doctor")
    assert told.exit_code == 1
    assert f"!!  interpreter   cannot be started  {closed}: Permission denied." in told.stdout
    assert "HOLD" not in told.stdout
    (tmp_path / "mine.py").write_text(RIGHT, encoding="utf-8")
    graded = infralens("grade", "lab-90", "--file", "mine.py", "--isolation=process")
    assert graded.exit_code == 3
    assert f"{closed} cannot be started: Permission denied; see `infralens doctor`" in one_line(
        graded
    )


def test_the_refused_calls_are_listed_below_the_findings(
    infralens: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infralens import doctor

    calls = tuple(f"call_{number}" for number in range(40))
    findings = (doctor.Finding("  refused calls", "40 system calls", True, listed=calls),)
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    lines = infralens("doctor", env={"COLUMNS": "40"}).stdout.splitlines()
    assert max(map(len, lines)) <= 40
    assert len(lines) < 20
    assert sum(line.count("call_") for line in lines) == 40


def test_a_narrow_terminal_breaks_no_word_of_the_findings(
    infralens: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infralens import doctor

    told = "judges' memory", "open to your other processes", "you are root, who may read all"
    findings = (doctor.Finding("transformers", "5.24.0", True), doctor.Finding(*told[:2], True))
    findings += (doctor.Finding("  read-only system", "HOLDS NOT", False, told[2]),)
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    for columns in (36, 80):
        shown = infralens("doctor", env={"COLUMNS": str(columns)}).stdout
        assert max(map(len, shown.splitlines())) <= columns
        assert {word for text in told for word in text.split()} < set(shown.split())
        assert {"transformers", "5.24.0", "read-only", "NOT"} < set(shown.split())


# What other programs read


@pytest.mark.parametrize(("wished", "left"), [(None, "error"), ("info", "info")])
def test_transformers_says_nothing_of_what_is_not_installed_unless_asked(
    monkeypatch: pytest.MonkeyPatch, wished: str | None, left: str
) -> None:
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", wished or "")
    if wished is None:
        monkeypatch.delenv("TRANSFORMERS_VERBOSITY")
    assert CliRunner().invoke(main, ["list"]).exit_code == 0
    assert os.environ["TRANSFORMERS_VERBOSITY"] == left


# Debugging


FOR_OTHER_PROGRAMS = {
    "PYTHONWARNINGS": "error",
    "TORCH_LOGS": "bogus",
    "PYTEST_ADDOPTS": "--no-such-option",
    "PYTEST_PLUGINS": "no_such_plugin",
}


def debug(lab: Lab, path: Path, typed: str) -> subprocess.CompletedProcess[str]:
    root = str(lab.place.suites.parent)
    words = ["--labs", root, "debug", "90.1", "--file", str(path), "--seed", "3"]
    return subprocess.run(
        [sys.executable, "-P", "-m", "infralens.cli", *words],
        env=os.environ | FOR_OTHER_PROGRAMS,
        input=typed,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_debug_stops_in_the_learners_function_with_the_failing_inputs(
    lab: Lab, workshop: Any, light_diffusers: Path
) -> None:
    path = workshop.submission("def scale(x, factor):\n    wrong = x + factor\n    return wrong\n")
    report = workshop.grade(lab, path, seed=3, todos=["90.1"])
    done = debug(lab, path, "p factor\nn\np wrong.shape\nc\n")
    assert done.returncode == 1
    assert f"{path.name}(2)scale()" in done.stdout
    call = report.todos[0].checks[0].detail.call
    factor = call.rsplit("factor=", 1)[1].rstrip(")")
    assert f"(Pdb) {factor}" in done.stdout
    assert "torch.Size([2, 3])" in done.stdout
    assert "off by up to" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_debug_tells_of_an_exit_as_the_grade_does(
    lab: Lab, workshop: Any, light_diffusers: Path
) -> None:
    path = workshop.submission("def scale(x, factor):\n    raise SystemExit(7)\n")
    done = debug(lab, path, "c\n")
    assert done.returncode == 1
    assert "SystemExit" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stdout + done.stderr


# The place a command runs in


def in_shell(script: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`infralens …` as "$@" of a POSIX shell's script, begun in this folder."""
    command = [sys.executable, "-P", "-m", "infralens.cli", *words]
    return subprocess.run(
        ["sh", "-c", script, "sh", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [("list",), ("--help",), ("read", "lab-03"), ("hint", "3.1")])
def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = in_shell('exec "$@" > /dev/full', tmp_path, *words)
    told = "infralens: The output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_a_closed_input_is_one_that_ends(tmp_path: Path) -> None:
    done = in_shell('exec "$@" <&-', tmp_path, "interview", "lab-03")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Practise in a terminal" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="POSIX locales")
@pytest.mark.parametrize("words", ["list", "read"])
def test_difficulty_is_shown_where_only_ascii_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    shown = in_shell('exec "$@"', tmp_path, words).stdout
    assert "*--" in shown
    assert "??" not in shown


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps a folder that is in use")
@pytest.mark.parametrize("words", [("list",), ("grade", "lab-03"), ("generate", "a star")])
def test_a_deleted_current_folder_is_told_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = in_shell('rmdir "$PWD" && exec "$@"', gone, *words)
    told = "infralens: The current folder is not there any more: go to another one.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


# Watching


def hear_interrupts() -> None:
    """As in a terminal: what a shell starts in the background is told to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent to a whole console on Windows")
def test_watch_grades_every_save_until_it_is_interrupted(
    lab: Lab, mine: Path, light_diffusers: Path
) -> None:
    root = str(lab.place.suites.parent)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "infralens.cli", "--labs", root, "watch", "lab-90"],
        cwd=mine.parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        preexec_fn=hear_interrupts,
    ) as watching:
        assert watching.stdout is not None

        def told(points: str) -> bool:
            assert watching.stdout is not None
            said = "".join(iter(watching.stdout.readline, "watching probe.py; Ctrl-C ends\n"))
            return f"{points} of 4 points" in said

        try:
            assert told("2")
            time.sleep(0.5)  # the watch begins behind the line
            mine.write_text(RIGHT, encoding="utf-8")
            assert told("4")
            watching.send_signal(signal.SIGINT)
            out, err = watching.communicate(timeout=60)
        finally:
            watching.kill()
    assert (watching.returncode, out, err) == (0, "", "")


def test_python_m_infralens_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "infralens", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("infralens")


# What the examiner prints

PRINTING = """
@todo("90.1")
def test_prints(candidate):
    print("the suite \\x1b[31mspeaks")
    assert_equals(candidate.one(), value=1)
"""


def test_what_the_examiner_prints_is_seen_only_where_it_is_wished_for(
    workshop: Any, warm_grade: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = workshop.lab(PRINTING)
    path = workshop.submission("def one(): return 1\n")
    log = tmp_path / "log.txt"
    words = ["--labs", str(lab.place.suites.parent), "grade", "lab-90", "--file", str(path)]
    words.append("--isolation=process")
    run = CliRunner(catch_exceptions=False).invoke
    assert "speaks" not in run(main, words).output
    assert "the suite \\x1b[31mspeaks\n" in run(main, [*words, "-v"]).stderr
    assert "INFRALENS_LOG" not in os.environ
    monkeypatch.setenv("INFRALENS_LOG", str(log))
    for _ in range(2):
        assert "speaks" not in run(main, words).output
    assert log.read_text(encoding="utf-8").count("speaks") == 2


def test_a_log_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFRALENS_LOG", str(tmp_path))
    result = CliRunner(catch_exceptions=False).invoke(main, ["list"])
    assert result.exit_code == 2
    assert f"INFRALENS_LOG names {tmp_path}, which cannot be written" in one_line(result)
