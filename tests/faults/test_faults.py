"""What happens around a grade when processes are killed, interrupted, or find nothing installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from infralens.grading import examiner, grade
from infralens.labs import find_lab, find_labs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX signals")

LABS = Path(__file__).parents[1] / "attacks" / "lab"
LAB = find_lab("attacks/lab-01", find_labs([LABS]))  # it asks diffusers for nothing
OF_THE_KIT = find_lab("lab-03", find_labs())
SECONDS = 90.0  # for an examiner to import torch and diffusers on a busy machine
PROMPTLY = 20.0  # on a busy machine; a grade would go on for a minute
SLEEPY = """
import os, time
print("begun", flush=True)

def denoise(denoiser, sample, timesteps):
    {first}
    open({marker!r}, "w").close()
    time.sleep(9)
"""


@dataclass
class Running:
    """`infralens grade` of a submission that sleeps, stopped in the middle of its call."""

    process: subprocess.Popen[str]
    workspace: Path
    family: list[psutil.Process]

    def examiner(self) -> psutil.Process:
        return examiner_under(self.process)

    def end(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr, which must come promptly."""
        out, err = self.process.communicate(timeout=PROMPTLY)
        return self.process.returncode, out, err

    def left(self) -> list[str]:
        """What of its family is alive, after a moment in which it may go."""
        _, alive = psutil.wait_procs(self.family, timeout=5)
        return [" ".join(member.cmdline()) for member in alive if running(member)]

    def folders(self) -> list[str]:
        """What is left of its temporary folders."""
        return [path.name for path in (self.workspace.parent / "temporary").iterdir()]


def running(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def grade_process(
    workspace: Path, *words: str, isolation: str = "process"
) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "infralens.cli", "--labs", str(LABS), "grade", LAB.id]
    return subprocess.Popen(
        [*command, "--isolation", isolation, "--device", "cpu", *words],
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        preexec_fn=hear_interrupts,
    )


def hear_interrupts() -> None:
    """As in a terminal: in the background, or under nohup, a program is told to ignore these."""
    for sent in ENDS:
        signal.signal(sent, signal.SIG_DFL)


Start = Callable[..., Running]


@pytest.fixture
def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, light_diffusers: Path
) -> Iterator[Start]:
    begun: list[Running] = []
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))

    def start(*words: str, first: str = "pass", isolation: str = "process") -> Running:
        workspace, marker = tmp_path / "work", tmp_path / "marker"
        path = workspace / LAB.track / LAB.folder / LAB.file
        path.parent.mkdir(parents=True)
        (workspace / ".infralens").mkdir()
        (workspace / ".infralens" / "progress.json").write_text(PROGRESS, encoding="utf-8")
        path.write_text(SLEEPY.format(marker=str(marker), first=first), encoding="utf-8")
        process = grade_process(workspace, "--todo", "1.1", *words, isolation=isolation)
        started = Running(process, workspace, [])
        begun.append(started)
        deadline = time.monotonic() + SECONDS
        while not marker.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started.family = psutil.Process(process.pid).children(recursive=True)
        assert len(started.family) >= 2
        return started

    yield start
    for each in begun:
        for member in each.family:
            with suppress(psutil.Error):
                member.kill()
        each.process.kill()
        each.process.communicate()


PROGRESS = json.dumps(
    {
        "schema": 1,
        "labs": {LAB.id: {"1.1": {"score": 2, "points": 2, "status": "passed"}}},
        "hints": {},
    }
)


def progress_of(run: Running) -> str:
    return (run.workspace / ".infralens" / "progress.json").read_text(encoding="utf-8")


CHILD = "import subprocess, sys; subprocess.Popen(['sleep', '77'], start_new_session=True)"


def test_an_examiner_that_is_killed_is_a_report_of_a_grader_that_failed(start: Start) -> None:
    """And nothing is left, no child of the submission either."""
    run = start("--format", "json", first=CHILD)
    assert any("sleep" in member.name() for member in run.family)
    run.examiner().send_signal(signal.SIGKILL)
    code, out, err = run.end()
    assert code == 3
    report = json.loads(out)
    assert report["grader_error"].startswith("the examiner ended")
    assert (report["score"], report["passed"]) == (0, False)
    assert [todo["status"] for todo in report["todos"]] == ["error"]
    assert "Traceback" not in err
    assert run.left() == []
    assert progress_of(run) == PROGRESS


ENDS = [getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "QUIT")]


WAITING = """
import time
from infralens.cli import main

@main.command()
def waits():
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        print("closed", flush=True)

main(["waits"])
"""


@pytest.mark.parametrize("sent", ENDS[1:], ids=lambda sent: sent.name)
def test_a_signal_ends_a_command_as_an_exception_does(sent: signal.Signals) -> None:
    """So what it has begun is closed; below, all that this comes to in a grade."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", WAITING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "begun\n"
        waiting.send_signal(sent)
        out, err = waiting.communicate(timeout=PROMPTLY)
    assert (waiting.returncode, out, err) == (128 + sent, "closed\n", "")


@pytest.mark.parametrize("sent", ENDS[:2], ids=lambda sent: sent.name)
def test_an_interrupted_grade_ends_promptly_and_leaves_nothing(
    start: Start, sent: signal.Signals
) -> None:
    run = start(first=CHILD)
    run.process.send_signal(sent)
    began = time.monotonic()
    code, out, err = run.end()
    assert code != 0
    assert time.monotonic() - began < PROMPTLY
    assert "points" not in out
    assert "Traceback" not in err
    assert run.left() == []
    assert run.folders() == []
    assert progress_of(run) == PROGRESS


def test_a_killed_command_line_leaves_nothing(start: Start) -> None:
    run = start()
    run.process.kill()
    run.end()
    _, alive = psutil.wait_procs(run.family, timeout=15)
    assert [member for member in alive if running(member)] == []
    assert run.folders() == []
    assert progress_of(run) == PROGRESS


def test_an_examiner_told_to_end_again_and_again_ends(solved: Path) -> None:
    """It may be closing already, and waiting: the end of its parent tells it twice."""
    with examiner(serve=True) as one:
        path = solved / LAB.track / LAB.folder / LAB.file
        assert grade(LAB, path, todos=["1.2"], isolation="process", using=one).score
        family = psutil.Process(one.process.pid).children(recursive=True)
        assert family
        for _ in range(100):
            one.process.terminate()
            time.sleep(0.002)
        assert one.process.wait(timeout=PROMPTLY) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(family, timeout=5)
    assert [member for member in alive if running(member)] == []


DEAF = """
import signal, sys, time
from infralens.examiner.isolation.ourselves import end_with_the_parent

signal.signal(signal.SIGTERM, signal.SIG_IGN)
end_with_the_parent(look_seconds=0.1, deaf_seconds=0.1)
print(flush=True)
time.sleep(60)
"""
PARENT = """
import subprocess, sys

child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid)
"""


def test_an_examiner_deaf_to_signals_ends_after_its_parent() -> None:
    """So is one that is in the middle of a long operation of torch's."""
    told = subprocess.check_output([sys.executable, "-c", PARENT, DEAF], text=True)
    deadline = time.monotonic() + PROMPTLY
    with suppress(psutil.NoSuchProcess):
        child = psutil.Process(int(told))
        while running(child):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def solved(tmp_path: Path, light_diffusers: Path) -> Path:
    """A workspace with the solution in it."""
    path = tmp_path / LAB.track / LAB.folder / LAB.file
    path.parent.mkdir(parents=True)
    assert LAB.solution is not None
    path.write_text(LAB.solution.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / ".infralens").mkdir()
    return tmp_path


def examiner_under(process: subprocess.Popen[str]) -> psutil.Process:
    """The examiner, as soon as it runs as such."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children():
            if "infralens.examiner" in child.cmdline():
                return child
        time.sleep(0.01)
    raise AssertionError("no examiner was started")


@pytest.mark.parametrize("after", [0.0, 0.5, 1.5, 3.0])
def test_an_examiner_killed_at_any_point_leaves_a_whole_record_or_none(
    solved: Path, after: float
) -> None:
    """A grade may be over by then; what must not be is half of one."""
    process = grade_process(solved, "--format", "json", "--todo", "1.2")
    examiner = examiner_under(process)
    time.sleep(after)
    family = psutil.Process(process.pid).children(recursive=True)
    with suppress(psutil.Error):
        examiner.kill()
    out, err = process.communicate(timeout=SECONDS)
    report = json.loads(out)
    assert (process.returncode, report["grader_error"] is None) in ((3, False), (0, True))
    assert "Traceback" not in err
    kept = solved / ".infralens" / "progress.json"
    if report["grader_error"] is None:
        assert json.loads(kept.read_text("utf-8"))["labs"][LAB.id]["1.2"]["score"] > 0
    else:
        assert not kept.exists()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert [member for member in alive if running(member)] == []


def test_two_grades_of_one_lab_at_once_are_both_kept(solved: Path) -> None:
    processes = [
        grade_process(solved, "--format", "json", "--todo", todo) for todo in ("1.1", "1.2")
    ]
    for process in processes:
        _, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (0, "")
    kept = json.loads((solved / ".infralens" / "progress.json").read_text("utf-8"))["labs"][LAB.id]
    assert {todo: entry["status"] for todo, entry in kept.items()} == {
        "1.1": "passed",
        "1.2": "passed",
    }


# Nothing installed

BLOCK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without(package: str, folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """`infralens …` where a package cannot be imported."""
    (folder / "sitecustomize.py").write_text(BLOCK.format(package=package), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-P", "-m", "infralens.cli", *words],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("package", ["torch", "diffusers"])
def test_a_missing_package_is_one_sentence_and_exit_code_3(tmp_path: Path, package: str) -> None:
    words = ["grade", "lab-03", "--isolation", "process", "--file", str(OF_THE_KIT.stub)]
    done = without(package, tmp_path, words)
    assert done.returncode == 3
    assert "The grader failed; your answers were not judged." in done.stdout
    assert package in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stdout.strip().splitlines()) <= 6


def test_a_missing_package_is_a_report_where_one_is_asked_for(tmp_path: Path) -> None:
    words = ["grade", "lab-03", "--isolation", "process", "--file", str(OF_THE_KIT.stub)]
    done = without("torch", tmp_path, [*words, "--format", "json"])
    assert done.returncode == 3
    assert "torch" in json.loads(done.stdout)["grader_error"]
    assert done.stderr == ""


@pytest.mark.parametrize("package", ["torch", "diffusers", "transformers"])
def test_a_picture_that_a_missing_package_draws_is_one_sentence(
    tmp_path: Path, package: str
) -> None:
    done = without(package, tmp_path, ["generate", "a ring", "--out", str(tmp_path / "ring.png")])
    assert done.returncode == 2
    assert done.stderr == f"infralens: {package} is needed for this; see `infralens doctor`.\n"


@pytest.mark.parametrize("words", [["list"], ["read", "lab-03"], ["--help"], ["hint", "3.1"]])
def test_what_only_shows_works_without_torch(tmp_path: Path, words: Sequence[str]) -> None:
    done = without("torch", tmp_path, words)
    assert done.returncode == 0
    assert done.stderr == ""
