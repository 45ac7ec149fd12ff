"""The limits that a candidate puts on itself before it loads a submission.

Where the operating system has no such limit (Windows, partly macOS) the examiner's watchdog is what
holds; these make the common case end in the learner's own MemoryError instead of a killed process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

MAX_FILE_BYTES = 64 * 2**20
MAX_OPEN_FILES = 256
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4


def die_with_the_examiner() -> None:
    """Ask Linux to kill this process when its parent dies."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request was made
            os._exit(1)


def limit_files() -> None:
    """No core dumps, no large files, few open files."""
    if sys.platform == "win32":
        return
    import resource

    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
    ):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))


def limit_memory(extra_mb: int) -> None:
    """Let the address space grow by `extra_mb` MiB from here. Elsewhere than on Linux: nothing."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + extra_mb * 2**20
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
