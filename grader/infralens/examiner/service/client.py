"""The examiner seen from the command: started, asked, believed only in signed lines, ended."""

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

from infralens.examiner.errors import UnavailableError, UnfitResultError, UnreadableError
from infralens.examiner.isolation import tree
from infralens.examiner.isolation.folders import HeldFolder, sweep
from infralens.examiner.isolation.killing import adopt_orphans, children_of_ours, kill_descendants
from infralens.examiner.isolation.ourselves import stay_private
from infralens.examiner.isolation.process import KEPT_ENVIRONMENT
from infralens.examiner.isolation.system import exposed, unwatchable
from infralens.examiner.service.log import OnPrint, as_wished, shown
from infralens.examiner.service.protocol import FINAL, Request
from infralens.examiner.service.result import report_of, void_report
from infralens.report import Report

START_SECONDS = 300.0  # a first import of torch and diffusers from a cold disk
MOST_GRADES = 500  # by one examiner
MOST_GROWN_BYTES = 2**29  # since its first grade; the suites of all labs take about half of that
MOST_TOLD_BYTES = 2**20  # of what an examiner prints during one grade
GRACE_SECONDS = 60.0  # beyond the lab's own limit: restarts, references, naming
OnEvent = Callable[[dict[str, Any]], None]
EXAMINER = ("-m", "infralens.examiner")
EXAMINER_KEEPS = (
    *KEPT_ENVIRONMENT,
    *("HOME", "PWD", "USER", "LOGNAME", "XDG_CACHE_HOME", "TZ"),
    *("USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "COMSPEC", "PATHEXT"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONUTF8"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
)
EXAMINER_KEEPS_BEGINNING = ("LC_", "CUDA", "NVIDIA_", "INFRALENS_")
"""Nothing else of the user's: PYTHONWARNINGS, TORCH_LOGS or PYTEST_ADDOPTS would void a grade."""


class _Line:
    """The two pipes to one examiner process, and what signs each line on them.

    The token is known to the two ends alone: what somebody else writes into a pipe is no line of
    ours. It is made, and handed over, when nobody can read the memory of either end any more,
    unless this system keeps nobody's memory from anyone.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.kept = process, exposed() is None
        self.token = ""
        self.open = threading.Event()
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the silence that follows tells
            self.process.stdin.write("\n" + json.dumps({**message, "token": self.token}) + "\n")
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                if not self.token and _says_private(line) and self._is_private():
                    self.token = secrets.token_hex(16)
                    self.write({})
                    self.open.set()
                elif self.token and (event := _signed_event(line, self.token)) is not None:
                    self.events.put(event)
        self.events.put(None)
        self.open.set()

    def _is_private(self) -> bool:
        return not self.kept or is_private(self.process.pid)


class Examiner:
    """A running examiner process. `ask` may be called again and again on a serving one.

    One that has died, or that owes an answer to an earlier request, is replaced by another.
    """

    running: ClassVar[set[int]] = set()

    def __init__(
        self, *, serve: bool, program: Sequence[str] = EXAMINER, on_print: OnPrint = as_wished
    ) -> None:
        self.serve, self.program, self.on_print = serve, program, on_print
        self._start()

    def _start(self) -> None:
        if (reason := unwatchable()) is not None:
            raise UnavailableError(f"Nothing can be graded here: {reason}.")
        stay_private()  # before there is a token: this memory holds it
        # Everything temporary lies in here, and goes even when the examiner is killed.
        sweep()
        self.folder = HeldFolder()
        adopt_orphans()  # should the examiner be killed, what it watched over comes to us
        self.earlier = children_of_ours()
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self.process = subprocess.Popen(
            [sys.executable, "-P", *self.program, *(["--serve"] if self.serve else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C comes to us first; we end it in good order
            env=examiner_environment(self.folder.path),
        )
        Examiner.running.add(self.process.pid)
        self.ended = self.owing = False
        self.graded = self.bytes_at_first = self.told = 0
        self.line = _Line(self.process)

    def ask(self, request: Request, on_event: OnEvent = lambda event: None) -> Report:
        """The report of one submission. UnreadableError when there is no file to grade."""
        started = time.monotonic()
        deadline = started + START_SECONDS + request.lab.limits.lab_seconds + GRACE_SECONDS
        if self.ended or self.owing or self.process.poll() is not None or self._worn():
            self._end()
            self._start()
        self.graded += 1
        try:
            self.owing = True
            self._send(request, deadline)
            while True:
                event = self.line.events.get(timeout=max(deadline - time.monotonic(), 0.01))
                if event is None:
                    return self._gives_up(request, "the examiner ended", started)
                if event.get("id") != request.id:
                    continue  # of an earlier request, which was given up
                if event["event"] in FINAL:
                    self.owing = False
                if event["event"] == "unreadable":
                    raise UnreadableError(event["message"])
                if event["event"] == "unavailable":
                    raise UnavailableError(event["message"])
                if event["event"] == "grader_error":
                    return self._gives_up(request, event["message"], started)
                if event["event"] == "result":
                    return report_of(request, event, started)
                on_event(event)
        except queue.Empty:
            return self._gives_up(request, "the examiner did not answer in time", started)
        except UnfitResultError as error:
            return self._gives_up(request, f"the examiner's result does not fit: {error}", started)
        except OSError:
            return self._gives_up(request, "the examiner ended", started)
        finally:
            self._tell()

    def _tell(self) -> None:
        """Hand on what the examiner has printed since it was told last."""
        if (
            self.errors.closed or sys.platform == "win32"
        ):  # which cannot read beside another's place
            return
        printed = os.pread(self.errors.fileno(), MOST_TOLD_BYTES, self.told)
        self.told += len(printed)
        if printed.strip():
            self.on_print(shown(printed))

    def _worn(self) -> bool:
        """Whether it has graded for long, or keeps much that hostile answers left in its heap."""
        taken = tree.resident({self.process.pid})
        if self.graded == 1:
            self.bytes_at_first = taken
        grown = taken - self.bytes_at_first if self.bytes_at_first else 0
        return self.graded >= MOST_GRADES or grown > MOST_GROWN_BYTES

    def _gives_up(self, request: Request, reason: str, started: float) -> Report:
        """A void report. Nothing more is believed of this examiner: the next grade has another."""
        if reason == "the examiner ended":
            reason += f": {self._last_words()}"
        report = void_report(request, reason, started)
        self._end()
        return report

    def _send(self, request: Request, deadline: float) -> None:
        if not self.line.open.wait(max(deadline - time.monotonic(), 0.01)):
            raise queue.Empty
        self.line.write(request.as_message())

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        self.errors.seek(0)
        lines = self.errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.process.returncode}"

    def close(self) -> None:
        """End the process and, through it, every candidate."""
        self._end()

    def _end(self) -> None:
        if self.ended:
            return
        self.ended = True
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
        self._tell()
        self.errors.close()
        self.folder.remove()


def examiner_environment(folder: Path) -> dict[str, str]:
    """All that an examiner learns of our environment, with `folder` for what is temporary."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in EXAMINER_KEEPS or name.startswith(EXAMINER_KEEPS_BEGINNING)
    }
    return kept | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",  # glibc gives back what threads freed from its first heap alone
        "TMPDIR": str(folder),
    }


def is_private(pid: int) -> bool:
    """Whether other processes of the same user are kept out of this one's memory (Linux).

    What may not be read belongs to root in /proc; for root itself no such wall exists.
    """
    if sys.platform != "linux":
        return True
    try:
        return os.geteuid() == 0 or Path(f"/proc/{pid}/fd").stat().st_uid != os.geteuid()
    except OSError:
        return False


def _says_private(line: str) -> bool:
    try:
        return bool(json.loads(line) == {"event": "private"})
    except (ValueError, RecursionError):
        return False


def _signed_event(line: str, token: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    signed = isinstance(event, dict) and event.get("token") == token
    return event if signed else None


def _kill_group(process: subprocess.Popen[str]) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
