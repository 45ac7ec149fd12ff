"""grade(lab, submission) → Report. Starts the examiner process and believes only what it says."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

from infralens.examiner.processes import (
    adopt_orphans,
    children_of_ours,
    kill_descendants,
    remove,
)
from infralens.labs import Lab
from infralens.report import CheckResult, Environment, Note, Report, TodoResult, todo_result

START_SECONDS = 300.0  # a first import of torch and diffusers from a cold disk
GRACE_SECONDS = 60.0  # beyond the lab's own limit: restarts, references, naming
OnEvent = Callable[[dict[str, Any]], None]
EXAMINER = ("-m", "infralens.examiner")
PYTEST_SETTINGS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")  # the user's, for tests of their own


class UnreadableError(Exception):
    """There is no submission to grade; the text says why."""


class UnavailableError(Exception):
    """The device or the isolation that was asked for is not there; the text says so."""


@dataclass(frozen=True)
class Request:
    """What to grade, and how."""

    lab: Lab
    submission: Path
    todos: tuple[str, ...]
    seed: int
    device: str
    isolation: str


class Examiner:
    """A running examiner process. `grade` may be called again and again on a serving one."""

    running: ClassVar[set[int]] = set()

    def __init__(self, *, serve: bool, program: Sequence[str] = EXAMINER) -> None:
        # Everything temporary lies in here, and goes even when the examiner is killed.
        self.folder = Path(tempfile.mkdtemp(prefix="infralens-"))
        adopt_orphans()  # should the examiner be killed, what it watched over comes to us
        self.earlier = children_of_ours()
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self.process = subprocess.Popen(
            [sys.executable, "-P", *program, *(["--serve"] if serve else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C comes to us first; we end it in good order
            env={
                **{name: os.environ[name] for name in os.environ if name not in PYTEST_SETTINGS},
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "OMP_NUM_THREADS": "1",
                "TMPDIR": str(self.folder),
            },
        )
        # Known to the two ends alone: what somebody else writes into a pipe is no line of ours.
        self.token = secrets.token_hex(16)
        self._write({"token": self.token})
        Examiner.running.add(self.process.pid)
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                event = _signed_event(line, self.token)
                if event is not None:
                    self.events.put(event)
        self.events.put(None)

    def grade(self, request: Request, on_event: OnEvent = lambda event: None) -> Report:
        """The report of one submission. UnreadableError when there is no file to grade."""
        started = time.monotonic()
        deadline = started + START_SECONDS + request.lab.limits.lab_seconds + GRACE_SECONDS
        try:
            self._send(request)
            while True:
                event = self.events.get(timeout=max(deadline - time.monotonic(), 0.01))
                if event is None:
                    return _void(request, f"the examiner ended: {self._last_words()}", started)
                if event["event"] == "unreadable":
                    raise UnreadableError(event["message"])
                if event["event"] == "unavailable":
                    raise UnavailableError(event["message"])
                if event["event"] == "grader_error":
                    return _void(request, event["message"], started)
                if event["event"] == "result":
                    return _report(request, event, started)
                on_event(event)
        except queue.Empty:
            return _void(request, "the examiner did not answer in time", started)
        except OSError:
            return _void(request, f"the examiner ended: {self._last_words()}", started)

    def _send(self, request: Request) -> None:
        place = request.lab.place
        message = {
            "suite": str(request.lab.suite),
            "place": [
                str(place.suites),
                str(place.exercises),
                str(place.solutions) if place.solutions else None,
            ],
            "submission": str(request.submission),
            "todos": list(request.todos),
            "seed": request.seed,
            "device": request.device,
            "isolation": request.isolation,
            "masked": list(request.lab.masked),
            "loaded": list(request.lab.loaded),
        }
        self._write({**message, "token": self.token})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the silence that follows tells
            self.process.stdin.write("\n" + json.dumps(message) + "\n")
            self.process.stdin.flush()

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        self.errors.seek(0)
        lines = self.errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.process.returncode}"

    def close(self) -> None:
        """End the process and, through it, every candidate."""
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                _kill_group(self.process)
        if self.process.returncode and self.process.returncode < 0:
            kill_descendants(spare=self.earlier | Examiner.running)
        Examiner.running.discard(self.process.pid)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()
        remove(self.folder)


def _signed_event(line: str, token: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    signed = isinstance(event, dict) and event.get("token") == token
    return event if signed else None


def _kill_group(process: subprocess.Popen[str]) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


@contextmanager
def examiner(*, serve: bool = False, program: Sequence[str] = EXAMINER) -> Iterator[Examiner]:
    """An examiner process for the block. `serve`: keep a candidate warm for the next grade."""
    running = Examiner(serve=serve, program=program)
    try:
        yield running
    finally:
        running.close()


def grade(
    lab: Lab,
    submission: Path,
    *,
    todos: Sequence[str] | None = None,
    seed: int | None = None,
    device: str = "cpu",
    isolation: str = "process",
    on_event: OnEvent = lambda event: None,
    using: Examiner | None = None,
) -> Report:
    """Grade one submission against one lab. With `using`, in a process that is already warm."""
    request = Request(
        lab=lab,
        submission=submission,
        todos=tuple(todos) if todos else tuple(todo.id for todo in lab.todos),
        seed=secrets.randbits(32) if seed is None else seed,
        device=device,
        isolation=isolation,
    )
    if using is not None:
        return using.grade(request, on_event)
    with examiner() as started:
        return started.grade(request, on_event)


def _report(request: Request, event: dict[str, Any], started: float) -> Report:
    todos = tuple(todo_result(data) for data in event["todos"])
    environment = event["environment"]
    fault = event["grader_error"]
    score = 0 if fault else sum(todo.score for todo in todos)
    most = sum(todo.points for todo in todos)
    return Report(
        lab=request.lab.id,
        title=request.lab.title,
        submission=str(request.submission),
        score=score,
        max_score=most,
        passed=fault is None and all(todo.status == "passed" for todo in todos),
        seed=request.seed,
        seconds=round(time.monotonic() - started, 3),
        grader_error=fault,
        environment=Environment(**{**environment, "dtype": tuple(environment["dtype"])}),
        todos=todos,
        notes=tuple(Note(**note) for note in event["notes"]),
    )


def _void(request: Request, reason: str, started: float) -> Report:
    """The report of a run in which the grader, not the submission, failed."""
    wanted = [todo for todo in request.lab.todos if todo.id in request.todos]
    check = CheckResult("run", "The run", "not_run", "the grader failed")
    empty = Environment(request.device, request.lab.dtypes, "", "", "", "")
    report = Report(
        lab=request.lab.id,
        title=request.lab.title,
        submission=str(request.submission),
        score=0,
        max_score=sum(todo.points for todo in wanted),
        passed=False,
        seed=request.seed,
        seconds=round(time.monotonic() - started, 3),
        grader_error=reason,
        environment=empty,
    )
    todos = tuple(
        TodoResult(todo.id, todo.title, todo.points, 0, "error", (check,)) for todo in wanted
    )
    return replace(report, todos=todos)
