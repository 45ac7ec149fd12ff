"""The growth of another process, as the operating system tells it.

On Linux the largest extent that its address space ever had is read afterwards: it cannot be made
smaller. Elsewhere the resident size is sampled.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from pathlib import Path

import psutil

from infralens.examiner.errors import MeterError

TOUCHED_BYTES = 16 * 2**20  # of the baseline's extent, pages that are touched only later
SAMPLE_SECONDS = 0.005


class Meter:
    """The growth of one process from now on, in bytes."""

    def __init__(self, pid: int) -> None:
        self.process = psutil.Process(pid)
        self.extent = extent(pid)
        self.identity, self.reaped = _identity(pid), _reaped(pid)
        self.resident = self._resident()
        self.peak = self.resident
        self._stopped = False
        self._sampling = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()
        self.resume()

    def growth(self) -> int:
        """The largest growth so far."""
        sampled = max(self.peak, self._resident()) - self.resident
        if self.extent is None:
            return sampled
        if _identity(self.process.pid) != self.identity:
            raise MeterError("replaced its process, whose memory was being measured")
        if _reaped(self.process.pid) != self.reaped:
            raise MeterError("started another process, whose memory nobody measured")
        # Resident pages beside the extent: who unmaps libraries has room that no extent shows.
        peak = _status(self.process.pid, "VmPeak")
        if peak is None:
            raise MeterError("ended its process before its memory was measured")
        return max(peak - self.extent, sampled - TOUCHED_BYTES)

    def resume(self) -> None:
        """From here peaks of the resident size are seen."""
        self._sampling.set()

    def pause(self) -> None:
        """Look no more until `resume`: nothing that is measured runs meanwhile."""
        self._sampling.clear()

    def stop(self) -> None:
        self._stopped = True
        self._sampling.set()

    def _resident(self) -> int:
        private = _status(self.process.pid, "RssAnon")
        if private is not None:
            return private + (_status(self.process.pid, "RssShmem") or 0)
        with contextlib.suppress(psutil.Error):
            return int(self.process.memory_info().rss)
        return 0

    def _sample(self) -> None:
        while self._sampling.wait() and not self._stopped:
            with contextlib.suppress(MemoryError):  # a lent function at work leaves little room
                self.peak = max(self.peak, self._resident())
            time.sleep(SAMPLE_SECONDS)


def extent(pid: int) -> int | None:
    """The size of a process's address space in bytes; None elsewhere than on Linux."""
    return _status(pid, "VmSize")


def innermost(pid: int) -> int:
    """The candidate itself: a sandbox is a chain of processes around it."""
    process = psutil.Process(pid)
    while children := process.children():
        process = children[0]
    return process.pid


def _status(pid: int, field: str) -> int | None:
    """A size in bytes from /proc/PID/status; None elsewhere than on Linux, and of the dead."""
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError):
        found = re.search(rf"^{field}:\s*(\d+) kB", _proc(pid, "status"), re.MULTILINE)
        return int(found.group(1)) * 1024 if found else None
    return None


def _identity(pid: int) -> tuple[str, ...]:
    """Where program and stack begin: drawn anew by Linux whenever a program is started."""
    fields = _stat(pid)
    return tuple(fields[i] for i in (23, 24, 25)) if fields else ()


def _reaped(pid: int) -> int:
    """The page faults of the children that the process has waited for."""
    fields = _stat(pid)
    return int(fields[8]) if fields else 0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name (the third of proc(5) is the first here)."""
    if sys.platform != "linux":
        return []
    with contextlib.suppress(OSError):
        return _proc(pid, "stat").rpartition(")")[2].split()
    return []


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
