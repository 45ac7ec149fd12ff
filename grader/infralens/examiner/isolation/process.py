"""A candidate process seen from outside: started, spoken to, watched, ended."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import select
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from infralens.examiner.isolation.folders import remove
from infralens.examiner.isolation.killing import kill_family
from infralens.examiner.isolation.launch import Launcher
from infralens.examiner.isolation.watch import Watcher

START_SECONDS = 120.0  # a cold torch import from a slow disk takes half a minute
MAX_OUTPUT = 16_000
QUIET_SECONDS = 0.02
KEPT_ENVIRONMENT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "SYSTEMROOT",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
)


def candidate_environment(folder: Path) -> dict[str, str]:
    """All that a candidate learns of our environment, with `folder` as its home."""
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return kept | {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "TEMP": str(folder),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


class CandidateProcess:
    """One started candidate. Frames come out of a queue, so that waiting has a time limit."""

    def __init__(self, launcher: Launcher, watcher: Watcher) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="infralens-"))
        self.process = launcher.launch(self.folder, candidate_environment(self.folder))
        self.frames: queue.Queue[Any] = queue.Queue(maxsize=4)
        self.outbox: queue.Queue[bytes | None] = queue.Queue()
        self.output = Output(self.process.printed)
        self.watch = watcher.over(*self.process.roots)
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._write, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, frame: bytes) -> None:
        """Hand a frame over. Never blocks: a candidate that does not read shows by its silence."""
        self.outbox.put(frame)

    @property
    def unread(self) -> bool:
        """Whether a frame lies here that the candidate has not begun to read."""
        return not self.outbox.empty()

    def receive(self, seconds: float) -> Any:
        """The next frame, or the exception that reading met. queue.Empty when time is up.

        When it is up, what lies here is not taken: a flood of frames would never end.
        """
        if seconds <= 0:
            raise queue.Empty
        return self.frames.get(timeout=seconds)

    def early(self) -> Any:
        """A frame that lies here although nothing was asked. queue.Empty when there is none."""
        return self.frames.get_nowait()

    def ending(self) -> int | None:
        """How the process ended, given a moment to do so."""
        return self.process.wait(1.0)

    def _write(self) -> None:
        pipe = self.process.requests
        with contextlib.suppress(OSError, ValueError):  # the candidate is gone: reading tells
            while (frame := self.outbox.get()) is not None:
                pipe.write(frame)
                pipe.flush()
        with contextlib.suppress(OSError, ValueError):
            pipe.close()

    def _read(self) -> None:
        from infralens.wire import (
            ChannelError,
            read_frame,
        )  # imports torch: not at start

        with self.process.answers as pipe:
            while not self.ended:
                try:
                    self.frames.put(read_frame(pipe))
                except (ChannelError, OSError, ValueError) as error:
                    self.frames.put(error)
                    return
                except MemoryError:  # a lent function at work leaves little room: memory.allowance
                    self.frames.put(ChannelError("more than there was room for"))
                    return

    def kill(self) -> None:
        """End the candidate and all that it started; remove its folder."""
        if self.ended:
            return
        self.ended = True
        self.watch.stop()
        others = (
            self.process.roots - {self.pid} if self.alive else ()
        )  # else their numbers are free
        kill_family(self.pid, *others)
        self.process.kill()
        self.outbox.put(None)
        # Let the reader go, which may be waiting to put a frame into a full queue.
        with contextlib.suppress(queue.Empty):
            while True:
                self.frames.get_nowait()
        remove(self.folder)


class Output:
    """What the submission printed: read without end, kept up to a bound."""

    def __init__(self, pipe: BinaryIO) -> None:
        self.pipe = pipe
        self.kept = bytearray()
        self.total = 0
        self.last = time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with self.pipe, contextlib.suppress(OSError, ValueError):
            while piece := os.read(self.pipe.fileno(), 65536):
                self.kept += piece[: MAX_OUTPUT - len(self.kept)]
                self.total += len(piece)
                self.last = time.monotonic()

    def _quiet(self) -> bool:
        """Nothing lies in the pipe, and the last piece was taken out a moment ago."""
        if time.monotonic() - self.last < QUIET_SECONDS:
            return False
        try:
            return self.pipe.closed or not select.select([self.pipe], [], [], 0)[0]
        except (OSError, ValueError):  # Windows selects no pipes; a closed one is quiet
            return True

    def start(self) -> None:
        """Forget what was printed so far."""
        self.kept, self.total = bytearray(), 0

    def text(self) -> str:
        """What was printed since `start`, once the pipe has been quiet for a moment."""
        deadline = time.monotonic() + 10 * QUIET_SECONDS
        while time.monotonic() < deadline and not self._quiet():
            time.sleep(QUIET_SECONDS / 4)
        text = bytes(self.kept).decode("utf-8", "replace")
        left = self.total - len(self.kept)
        return text + (f"\n… and {left:,} bytes more" if left > 0 else "")


def new_call() -> str:
    """A name for one call that cannot be guessed."""
    return secrets.token_hex(16)


def exit_sentence(returncode: int | None) -> str:
    """How a process ended, in words: "ended with exit code 0", "was killed by signal SIGSEGV"."""
    if returncode is None:
        return "closed the channel"
    number = -returncode if returncode < 0 else returncode - 128  # a sandbox adds 128
    if number <= 0:
        return f"ended its process with exit code {returncode}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended its process with exit code {returncode}"
    return f"crashed its process (signal {name})"
