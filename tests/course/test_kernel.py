"""A learner's kernel: what it replays, what a check says, and what is told before the deadline."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infralens.course import kernel as module
from infralens.course.kernel import MOST_CELLS, Extension, NoVerdictError, Warm, is_check
from infralens.course.telling import told
from infralens.report import CheckResult, Detail, Environment, Report, TodoResult

OWN = Path(__file__).resolve().parents[1] / "attacks" / "lab"
RIGHT = CheckResult("t", "the input is scaled", "passed")
ENVIRONMENT = Environment("cpu", ("float32",), "3.11", "2.13", "0.42", "sandbox")


def kernel(*texts: str, names: dict[int, str] | None = None) -> Extension:
    history = SimpleNamespace(input_hist_raw=["", *texts])
    extension = Extension(SimpleNamespace(history_manager=history, user_ns={}))
    extension.names = names or {}
    return extension


# What is replayed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('check("3.3")', True),
        ('check("3.3")\ncheck("3.4")  # both', True),
        ("%hint 3.3", True),
        ("%grade lab-03\n%read scheduler", True),
        ("", False),
        ("x = check('3.3')", False),
        ('x = 1\ncheck("3.3")', False),
        ("%time x = 1", False),
        ("check = 3", False),
        ("def (", False),
    ],
)
def test_what_only_asks_for_a_verdict_is_not_replayed(text: str, expected: bool) -> None:
    assert is_check(text) is expected


def test_a_cell_has_the_number_that_jupyter_shows_and_an_answer_its_name() -> None:
    names = {1: "imports", 2: "answer-3-1", 3: "check-3-1", 4: "7f9c-own"}
    cells = kernel("import torch", "def f(): ...", 'check("3.1")', "x = 2", names=names).cells()
    assert [cell["source"] for cell in cells] == ["import torch", "def f(): ...", "", "x = 2"]
    marks = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells]
    assert marks == [None, "answer-3-1", None, None]


def test_after_very_many_runs_only_the_last_of_each_cell_is_replayed() -> None:
    runs = MOST_CELLS + 5
    names = dict.fromkeys(range(2, runs + 1), "answer-3-1")
    texts = ["import torch", *(f"x = {n}" for n in range(2, runs + 1))]
    sources = [cell["source"] for cell in kernel(*texts, names=names).cells()]
    assert sources == ["import torch", f"x = {runs}"]


@pytest.mark.parametrize(
    ("what", "begins"),
    [
        ("2.4", "### 2.4 · `ddpm_step`"),
        ("lab-02#checkpoints", "## Checkpoints"),
        ("lab-02", "# Lab 02"),
    ],
)
def test_read_shows_a_lab_or_the_part_of_it_that_is_named(
    monkeypatch: pytest.MonkeyPatch, what: str, begins: str
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("infralens.course.kernel.display", shown.append)
    kernel().read(what)
    assert shown[0].data.startswith(begins)


# The process that keeps an examiner


def test_a_grader_that_ends_says_why() -> None:
    with pytest.raises(NoVerdictError, match="The grader ended: no room"):
        Warm(("-c", "import sys; sys.exit('no room')")).ask({})


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs an alarm")
def test_an_interrupted_check_leaves_no_answer_for_the_next() -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    warm = Warm(("-c", "import time; time.sleep(60)"))
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            warm.ask({})
    finally:
        signal.signal(signal.SIGALRM, before)
    assert warm.process is None


# How much is told


def report(check: CheckResult) -> Report:
    todo = TodoResult("3.3", "Euler's method", 4, 0, "failed", (check,))
    return Report("diffusers/lab-03", "S", "x", 0, 4, False, 1, 1.0, None, ENVIRONMENT, (todo,))


def test_a_course_may_tell_only_the_name_of_a_mistake_or_only_the_points() -> None:
    detail = Detail(call="step(1)", expected="[2.0]", yours="[3.0]", explanation="Divide by √.")
    wrong = CheckResult("t", "the input is scaled", "failed", "off by 1", "no-root", detail=detail)
    whole = report(wrong)
    assert told(whole, "everything") is whole
    (named,) = told(whole, "name").todos[0].checks
    assert (named.misconception, named.detail) == ("no-root", Detail(explanation="Divide by √."))
    (points,) = told(whole, "points").todos[0].checks
    assert (points.misconception, points.detail, points.title) == (None, None, "Euler's method")
    assert all("off by" not in check.message for check in (named, points))


def test_what_stopped_the_learners_own_code_is_always_told() -> None:
    stopped = CheckResult("t", "x", "error", "your code raised ZeroDivisionError on line 3")
    assert told(report(stopped), "points").todos[0].checks == (stopped,)


# What is asked and shown


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Jupyter is given to show."""
    things: list[Any] = []
    monkeypatch.setattr(module, "display", lambda thing, raw=False: things.append(thing))
    return things


def test_a_whole_lab_is_graded_as_far_as_the_course_tells_it(shown: list[Any]) -> None:
    detail = Detail(call="step(1)", expected="[2.0]", yours="[3.0]")
    wrong = CheckResult("t", "the input is scaled", "failed", "off by 1", "no-root", detail=detail)
    asked: list[Any] = []
    extension = kernel("x = 1")
    ask: Any = SimpleNamespace(ask=lambda question: asked.append(question) or report(wrong))
    extension.warm = ask
    extension.grade("")
    extension.grade("lab-03")
    extension.shell.user_ns["INFRALENS_TELLS"] = "points"
    extension.grade("")
    assert [len(question["todos"]) for question in asked] == [8, 8]
    assert [question["tells"] for question in asked] == ["everything", "points"]
    everything, little = shown
    assert set(everything) == {"text/html", "text/plain"}
    assert "off by 1" in everything["text/html"]
    assert "off by 1" not in little["text/html"] + little["text/plain"]
    assert "0/4" in little["text/plain"]


def test_labs_of_an_authors_own_folder_are_graded_too(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFRALENS_LABS", str(OWN))
    asked: list[Any] = []
    extension = kernel("x = 1")
    ask: Any = SimpleNamespace(ask=lambda question: asked.append(question) or report(RIGHT))
    extension.warm = ask
    extension.grade("attacks/lab-01")
    assert [(question["lab"], question["labs"]) for question in asked] == [
        ("attacks/lab-01", [str(OWN)])
    ]


def test_hints_come_one_by_one_and_pages_are_shown(shown: list[Any]) -> None:
    extension = kernel()
    for _ in range(4):
        extension.hint("3.3")
    assert [thing.data.count("\n") for thing in shown] == [0, 1, 2, 2]
    extension.infralens("read handbook/scheduler.md#scaling-the-input")
    assert "caling the input" in shown[-1].data


# A kernel with everything in it

SESSION = '''
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()

def run(text, name=""):
    shell.run_cell(text, store_history=True, cell_id=name)

RIGHT = """
def denoiser_calls(class_name, n):
    if class_name == "HeunDiscreteScheduler":
        return 2 * n - 1
    if class_name == "PNDMScheduler":
        return n + (n > 1)
    if class_name in ("EulerDiscreteScheduler", "DDIMScheduler", "DPMSolverMultistepScheduler"):
        return n
    raise ValueError(class_name)
"""
run("%load_ext infralens")
run('check("3.6")', "check-3-6")
run("import torch", "imports")
run(RIGHT, "answer-3-6")
run("1 / 0")
run("print('passes?')")
run('check("3.6")', "check-3-6")
run(RIGHT.replace("2 * n - 1", "2 * n"), "answer-3-6")
run("print('fails?')")
run('check("3.6")', "check-3-6")
run("%hint 3.6")
run('check("3.66")')
run("%unload_ext infralens")
'''


def test_a_check_replays_what_was_run_and_says_the_verdict() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SESSION)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    begun, _, rest = done.stdout.partition("passes?")
    passed, _, failed = rest.partition("fails?")
    assert "Run the cell that defines `denoiser_calls` first." in begun
    assert "✔  3.6  Counting denoiser calls  1/1" in passed
    assert "]: 0" not in passed
    assert "✘  3.6  Counting denoiser calls  0/1" in failed
    assert "%infralens hint 3.6" in failed
    assert "infralens debug" not in failed
    assert failed.count("]: 0") == 2  # a number for nbgrader's Validate
    assert "There is no todo '3.66'. Did you mean 3.6?" in failed
