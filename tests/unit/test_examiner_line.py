"""The line to the examiner: a verdict belongs to its request, and must fit it."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from infralens.examiner.errors import UnfitResultError, UnreadableError
from infralens.examiner.service import client
from infralens.examiner.service.client import Bounds
from infralens.examiner.service.line import is_private
from infralens.examiner.service.protocol import Request
from infralens.examiner.service.result import report_of
from infralens.grading import Examiners, examiner
from infralens.labs import find_lab, find_labs
from infralens.report import CheckResult, Environment, TodoResult

LAB = find_lab("lab-03", find_labs())
PR_GET_DUMPABLE = 3
LATE = """
import json, os, sys, time
from infralens.examiner.isolation.ourselves import stay_private

stay_private()
print(json.dumps({{"event": "private"}}), flush=True)
lines = (json.loads(line) for line in sys.stdin if line.strip())
token = next(lines)["token"]
for request in lines:
    late = request["submission"].endswith("late.py")
    {before}
    told = "late" if late else "in time"
    event = {{"event": "unreadable", "message": told, "id": request["id"], "token": token}}
    print("\\n" + json.dumps(event), flush=True)
"""


def requested(name: str, **more: Any) -> Request:
    todos = tuple(todo.id for todo in LAB.todos)
    return Request(LAB, Path(name), todos, seed=1, device="cpu", isolation="process", **more)


def answering(before: str) -> tuple[str, str]:
    """An examiner that answers each request with "late" or "in time", after doing `before`."""
    return ("-c", LATE.format(before=before))


def test_a_late_answer_is_not_the_next_ones() -> None:
    """The one that was given up is replaced: its word would shift every later grade by one."""
    bounds = Bounds(start_seconds=1.0, grace_seconds=0.0)  # beside what the lab allows
    lab = replace(LAB, limits=replace(LAB.limits, lab_seconds=0))
    program = answering("time.sleep(60 if late else 0)")
    with examiner(serve=True, program=program, bounds=bounds) as one:
        first = one.process.pid
        given_up = one.ask(replace(requested("late.py"), lab=lab))
        assert given_up.grader_error == "the examiner did not answer in time"
        with pytest.raises(UnreadableError, match="in time"):
            one.ask(requested("next.py"))
        assert one.process.pid != first


def test_an_answer_to_another_request_is_passed_over() -> None:
    stray = (
        'print(json.dumps({"event": "unreadable", "message": "another\'s", "id": "0", '
        '"token": token}), flush=True)'
    )
    with (
        examiner(serve=True, program=answering(stray)) as one,
        pytest.raises(UnreadableError, match="in time"),
    ):
        one.ask(requested("next.py"))


def test_a_grade_that_was_interrupted_leaves_no_answer_behind() -> None:
    def interrupt(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    planned = (
        'print(json.dumps({"event": "planned", "id": request["id"], "token": token}), flush=True)'
    )
    with examiner(serve=True, program=answering(planned)) as one:
        first = one.process.pid
        with pytest.raises(KeyboardInterrupt):
            one.ask(requested("late.py"), interrupt)
        with pytest.raises(UnreadableError, match="in time"):
            one.ask(requested("next.py"))
        assert one.process.pid != first


def test_an_examiner_that_died_is_replaced_before_the_next_grade() -> None:
    with examiner(serve=True, program=answering("os._exit(3) if late else None")) as one:
        assert "the examiner ended" in str(one.ask(requested("late.py")).grader_error)
        with pytest.raises(UnreadableError, match="in time"):
            one.ask(requested("next.py"))
        one.process.kill()
        one.process.wait()
        with pytest.raises(UnreadableError, match="in time"):
            one.ask(requested("next.py"))


def test_an_examiner_that_is_killed_takes_no_other_of_its_command_with_it() -> None:
    both = Examiners()
    program = answering("pass")
    with (
        examiner(serve=True, program=program, among=both) as one,
        examiner(serve=True, program=program, among=both) as other,
    ):
        one.process.kill()
        one.close()
        assert other.process.poll() is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_no_token_exists_before_both_ends_are_private() -> None:
    """Not even for an examiner that only says so."""
    with examiner(serve=True, program=answering("pass")) as one:
        assert one.line.open.wait(30)
        assert one.line.token
        assert is_private(one.process.pid)
        assert Path(f"/proc/{one.process.pid}/fd").stat().st_uid == 0
        assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0


NO_CANDIDATE = """
from infralens.examiner.service import serve, stock

def refused(*_):
    raise OSError(11, "Resource temporarily unavailable")

stock.Spares.begin = stock.Spares.prepare = refused
serve.main()
"""


def test_where_no_candidate_starts_the_examiner_says_so_and_lives() -> None:
    with examiner(serve=True, program=("-c", NO_CANDIDATE)) as one:
        report = one.ask(requested(str(LAB.stub)))
        assert "no candidate starts: [Errno 11] Resource temp" in str(report.grader_error)


TOLD = """
from infralens.examiner.service import libraries, serve, stock

prepared = []
stock.Spares.begin = libraries.Libraries.load = lambda *_: None
stock.Spares.prepare = lambda *_: prepared.append(1)

def told(work, service, emit):
    emit({"event": "unreadable", "message": f"prepared {len(prepared)}"})

serve._answer = told
serve.main()
"""


def test_after_a_grade_that_is_alone_nothing_is_stocked() -> None:
    """A candidate is started ahead only for a grade that may take it."""
    request = requested(str(LAB.stub))
    with examiner(serve=True, program=("-c", TOLD)) as one:
        for alone, prepared in ((True, 1), (False, 2), (False, 4)):
            with pytest.raises(UnreadableError, match=f"prepared {prepared}"):
                one.ask(replace(request, id=str(prepared), alone=alone))


def test_an_examiner_begins_by_removing_what_killed_ones_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swept: list[str] = []
    monkeypatch.setattr(client, "sweep", lambda: swept.append("swept"))
    with examiner(serve=True, program=answering("pass")):
        assert swept == ["swept"]


# What fits


CHECK = CheckResult("test_one", "One.", "passed")


def result(**more: Any) -> dict[str, Any]:
    """The event of full marks."""
    todos = [
        asdict(TodoResult(todo.id, todo.title, todo.points, todo.points, "passed", (CHECK,)))
        for todo in LAB.todos
    ]
    environment = asdict(Environment("cpu", ("float32",), "3", "2", "0", "process"))
    told = {"grader_error": None, "todos": todos, "notes": [], "environment": environment}
    return told | more


def test_what_fits_is_the_report() -> None:
    report = report_of(requested("a.py"), result(), 0.0)
    assert report.passed
    assert report.score == LAB.max_score


def without_checks(event: dict[str, Any]) -> None:
    event["todos"][0]["checks"] = []


UNFIT: dict[str, Callable[[dict[str, Any]], object]] = {
    "a todo is missing": lambda event: event["todos"].pop(),
    "a todo twice": lambda event: event["todos"].append(event["todos"][0]),
    "an unknown todo": lambda event: event["todos"][0].update(id="3.9"),
    "other points": lambda event: event["todos"][0].update(points=5, score=5),
    "half the points": lambda event: event["todos"][0].update(score=1),
    "half the points, not passed": lambda event: event["todos"][0].update(score=1, status="error"),
    "points below none": lambda event: event["todos"][0].update(score=-1, status="failed"),
    "paid, not passed": lambda event: event["todos"][0].update(status="failed"),
    "passed, not paid": lambda event: event["todos"][0].update(score=0),
    "paid without a check": without_checks,
    "another isolation": lambda event: event["environment"].update(isolation="sandbox"),
    "another device": lambda event: event["environment"].update(device="cuda"),
    "no todos": lambda event: event.pop("todos"),
    "todos that are none": lambda event: event.update(todos=[1]),
    "an environment that is none": lambda event: event.update(environment="x"),
}


@pytest.mark.parametrize("change", UNFIT.values(), ids=UNFIT)
def test_what_does_not_fit_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    event = result()
    change(event)
    with pytest.raises(UnfitResultError):
        report_of(requested("a.py"), event, 0.0)


def test_isolation_and_titles_are_filled_in_here() -> None:
    event = result()
    event["todos"][0]["title"] = "another"
    report = report_of(requested("a.py"), event, 0.0)
    assert report.todos[0].title == LAB.todos[0].title
    assert report.environment.isolation == "process"


# What an examiner learns of our environment


@pytest.mark.parametrize(
    "name", ["PYTHONWARNINGS", "TORCH_LOGS", "PYTEST_ADDOPTS", "PYTHONSTARTUP", "LD_PRELOAD"]
)
def test_what_would_void_a_grade_is_not_handed_on(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "error")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    given = client.examiner_environment(tmp_path)
    assert name not in given
    assert given["CUDA_VISIBLE_DEVICES"] == ""
    assert given["PATH"] == os.environ["PATH"]


FREED = """
import ctypes, os, threading

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

def read_large_frames():
    for megabytes in (20, 30, 20, 30):
        bytearray(megabytes * 2**20)

before = resident()
for _ in range(4):
    thread = threading.Thread(target=read_large_frames)
    thread.start()
    thread.join()
ctypes.CDLL(None).malloc_trim(0)
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's heaps")
def test_what_reading_large_frames_took_is_given_back(tmp_path: Path) -> None:
    """A heap for each thread kept up to 64 MiB for good: a warm examiner grew and grew."""
    environment = client.examiner_environment(tmp_path)
    done = subprocess.run(
        [sys.executable, "-S", "-c", FREED], env=environment, capture_output=True, check=True
    )
    assert int(done.stdout) < 10


# As an ordinary user, for whom there are walls (root passes them all)

ORDINARY = """
import os, sys, time
from types import SimpleNamespace
from infralens.examiner.isolation.ourselves import stay_private
from infralens.examiner.service.line import Line, is_private

if "private" in sys.argv:
    stay_private()
child = os.fork()
if child == 0:
    time.sleep(60)
pid = os.getpid()
other = os.fork()
if other == 0:
    print("seen as private" if is_private(pid) else "seen as open", flush=True)
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            print("memory read", flush=True)
    except PermissionError:
        print("memory kept", flush=True)
    os._exit(0)
os.waitpid(other, 0)
os.kill(child, 9)

(told, tells), (hears, asks) = os.pipe(), os.pipe()
examiner = os.fork()
if examiner == 0:
    if "private" in sys.argv:
        stay_private()
    os.write(tells, b'{"event": "private"}\\n')
    os.read(hears, 1)
    os._exit(0)
ends = {"stdin": open(asks, "w"), "stdout": open(told)}
line = Line(SimpleNamespace(pid=examiner, **ends))
line.open.wait(0.5 if "open" in sys.argv else 30)
print("token made" if line.token else "no token", flush=True)
os.kill(examiner, 9)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("how", ["private", "open"])
def test_another_process_of_the_same_user_does_not_read_the_token(how: str) -> None:
    """Nor is a token made for an examiner whose memory is open."""
    command = [sys.executable, "-P", "-c", ORDINARY, how]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        command = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "ModuleNotFoundError" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip("another user cannot read this checkout")
    said = done.stdout.splitlines()
    if how == "private":
        assert said == ["seen as private", "memory kept", "token made"]
    else:  # whether it can be read is for the system's own rules to say
        assert (said[0], said[-1]) == ("seen as open", "no token")
