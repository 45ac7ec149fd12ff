"""The limits that a candidate puts on itself before it loads a submission.

Where the operating system has no such limit (Windows, partly macOS) the examiner's watchdog is what
holds; these make the common case end in the learner's own MemoryError instead of a killed process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
from pathlib import Path

MAX_FILE_BYTES = 64 * 2**20
MAX_OPEN_FILES = 256
STACK_BYTES = 2**20  # torch and numpy need less in a thread; by itself it would be 8 MiB
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITY_VERSION = 0x20080522  # the third, of 64 capabilities
MOST_CAPABILITIES = 64
SECCOMP_MODE_FILTER = 2
INSTRUCTION_BYTES = 8  # of classic BPF
KEYCTL = {"x86_64": 250, "aarch64": 219}  # glibc has no function of its own for it
JOIN_SESSION_KEYRING = 1


def die_with_the_examiner() -> None:
    """Ask Linux to kill this process when its parent dies."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request was made
            os._exit(1)


def stay_private() -> None:
    """Keep other processes of the same user out of this one's memory (Linux).

    A template or a spare is for a later grade: an earlier submission must not write there.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def be_seen() -> None:
    """Let our own user's processes look at this one again (Linux).

    A submission is about to be loaded: what it holds in memory is to be counted.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def fresh_keyring() -> None:
    """Take a session keyring that nobody else has: what lies in it ends with this process."""
    number = KEYCTL.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        ctypes.CDLL(None).syscall(number, JOIN_SESSION_KEYRING, None)


def adopt_orphans() -> None:
    """Have Linux hand this process what a child of its leaves behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def give_up_privileges(user: int | None) -> None:
    """Become `user`, where it is given, hold no capability, and never get one again (Linux)."""
    libc = ctypes.CDLL(None)
    for capability in range(MOST_CAPABILITIES):  # those that a kernel does not know it refuses
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if user is not None and sys.platform != "win32":
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())  # effective, permitted, inheritable: none
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


class _Program(ctypes.Structure):
    """struct sock_fprog: a filter, as prctl takes it."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_calls(program: bytes) -> None:
    """Have Linux refuse the system calls that this filter names, to this process and its own."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        filter_ = _Program(len(program) // INSTRUCTION_BYTES, program)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0)


def limit_files() -> None:
    """No core dumps, no large files, few open files."""
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_FSIZE", MAX_FILE_BYTES)
    _limit("RLIMIT_NOFILE", MAX_OPEN_FILES)


def limit_cpu(seconds: int) -> None:
    """Seconds of processor time for each process."""
    _limit("RLIMIT_CPU", seconds)


def limit_processes(most: int) -> None:
    """Processes and threads of this user. Only in a sandbox, where nobody else is this user."""
    _limit("RLIMIT_NPROC", most)


def _limit(kind: str, most: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(OSError, ValueError, AttributeError):
        resource.setrlimit(getattr(resource, kind), (most, most))


def limit_memory(extra_mb: int) -> None:
    """Let the address space grow by `extra_mb` MiB from here. Elsewhere than on Linux: nothing."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _limit("RLIMIT_AS", pages * resource.getpagesize() + extra_mb * 2**20)


def limit_extent(most_bytes: int) -> None:
    """Let the address space be so large and no larger, and no file: one could lie in memory.

    Threads that start from here have a small stack: it counts whole, whatever is used of it, and
    that of a thread that has just ended is not free at once.
    """
    threading.stack_size(STACK_BYTES)
    _limit("RLIMIT_AS", most_bytes)
    _limit("RLIMIT_FSIZE", 0)
