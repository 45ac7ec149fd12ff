"""The line between command and examiner, and how each of them knows what the other said."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from infralens.examiner.isolation.system import exposed


class Line:
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
