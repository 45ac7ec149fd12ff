"""The examiner seen from the command: started, asked, believed only in signed lines, ended."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from infralens.examiner.errors import UnavailableError, UnfitResultError, UnreadableError
from infralens.examiner.isolation import tree
from infralens.examiner.isolation.folders import HeldFolder, sweep
from infralens.examiner.isolation.killing import adopt_orphans, children_of_ours, kill_descendants
from infralens.examiner.isolation.ourselves import stay_private
from infralens.examiner.isolation.process import KEPT_ENVIRONMENT
from infralens.examiner.isolation.system import unwatchable
from infralens.examiner.service.line import Line
from infralens.examiner.service.log import OnPrint, as_wished, shown
from infralens.examiner.service.protocol import FINAL, Request
from infralens.examiner.service.result import report_of, void_report
from infralens.report import Report

MOST_TOLD_BYTES = 2**20  # of what an examiner prints during one grade
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


@dataclass(frozen=True)
class Bounds:
    """How long an examiner is waited for, and how much it may grow old."""

    start_seconds: float = 300.0  # a first import of torch and diffusers from a cold disk
    grace_seconds: float = 60.0  # beyond the lab's own limit: restarts, references, naming
    grades: int = 500
    grown_bytes: int = 2**29  # since its first grade; the suites of all labs take half of that


class Examiners:
    """The examiners that run in one command: where one is killed, the others are spared."""

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._changing = threading.Lock()  # held by who starts one and by who kills

    def started(self, start: Callable[[], subprocess.Popen[str]]) -> subprocess.Popen[str]:
        """Start one, which nobody kills as a stray in the moment before it is known."""
        with self._changing:
            process = start()
            self._pids.add(process.pid)
        return process

    def ended(self, pid: int, *, killed: bool, earlier: Set[int]) -> None:
        """One has ended. Where it was killed, what it left behind is killed, as it would have done.

        What ran `earlier` was never its own.
        """
        with self._changing:
            self._pids.discard(pid)
            if killed:
                kill_descendants(spare=self._pids | earlier)


class Examiner:
    """A running examiner process. `ask` may be called again and again on a serving one.

    One that has died, or that owes an answer to an earlier request, is replaced by another.
    """

    def __init__(
        self,
        *,
        serve: bool,
        program: Sequence[str] = EXAMINER,
        on_print: OnPrint = as_wished,
        among: Examiners | None = None,
        bounds: Bounds = Bounds(),  # frozen
    ) -> None:
        self.serve, self.program, self.on_print = serve, program, on_print
        self.among, self.bounds = among or Examiners(), bounds
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
        self.process = self.among.started(self._opened)
        self.ended = self.owing = False
        self.graded = self.bytes_at_first = self.told = 0
        self.line = Line(self.process)

    def _opened(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", *self.program, *(["--serve"] if self.serve else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C comes to us first; we end it in good order
            env=examiner_environment(self.folder.path),
        )

    def ask(self, request: Request, on_event: OnEvent = lambda event: None) -> Report:
        """The report of one submission. UnreadableError when there is no file to grade."""
        started = time.monotonic()
        bounds = self.bounds
        most = bounds.start_seconds + request.lab.limits.lab_seconds + bounds.grace_seconds
        deadline = started + most
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
        return self.graded >= self.bounds.grades or grown > self.bounds.grown_bytes

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
        killed = self.process.returncode is not None and self.process.returncode < 0
        self.among.ended(self.process.pid, killed=killed, earlier=self.earlier)
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


def _kill_group(process: subprocess.Popen[str]) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
