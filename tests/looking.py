"""What a process finds out about itself in a sandbox, and what comes of its attempts to get out.

Its text is handed to an interpreter there, which sees nothing of the tests.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXE, FIRST = Path("/proc/self/exe"), Path("/proc/1")
STATUS = (
    *("Umask", "NoNewPrivs", "Seccomp", "Seccomp_filters", "TracerPid", "Cpus_allowed"),
    *("SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
)
NEW_USER = 0x10000000
DUMPABLE = 4
UNSHARE = 272  # on x86_64


def tried(attempt: Callable[[], Any]) -> str:
    """What it gave, or which error it met."""
    try:
        return f"gave {attempt()!r}"
    except OSError as error:
        return f"{type(error).__name__} {error.errno}"


def called(number: int, *arguments: int) -> tuple[int, int]:
    """Whether a system call fails, and how."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(number, *arguments), ctypes.get_errno()


def imported(name: str) -> str:
    try:
        return f"gave {__import__(name)!r}"
    except ImportError as error:
        return str(error)


def opened(path: str | Path, how: int = os.O_RDONLY) -> Callable[[], None]:
    return lambda: os.close(os.open(path, how))


def alike(numbers: list[int]) -> dict[str, Any]:
    """All that is the same for a fresh candidate and for one that was forked."""
    status = dict(line.split(":", 1) for line in lines("/proc/self/status"))
    outer = EXE.resolve()
    return {
        "status": {name: status[name].strip() for name in STATUS},
        "alone": len({*os.getresuid(), *os.getresgid()}),
        "root": os.getuid() == 0,
        "groups": status["Groups"].split(),
        "cwd": [str(Path("/proc/self/cwd").readlink()), str(Path.cwd()), named("/tmp")],
        "top": [str(Path("/proc/self/root").readlink()), named("/")],
        "exe": [str(EXE.readlink()), EXE.stat().st_ino],
        "environment at first": sorted(read("/proc/self/environ").split("\0")),
        "environment": dict(os.environ),
        "path": sys.path,
        "limits": {
            name: resource.getrlimit(getattr(resource, name))
            for name in dir(resource)
            if name.startswith("RLIMIT_")
        },
        "oom": read("/proc/self/oom_score_adj"),
        "cgroup": read("/proc/self/cgroup"),
        "nice": [os.nice(0), os.sched_getscheduler(0)],
        "timers": [signal.getitimer(kind) for kind in range(3)],
        "handlers": [str(signal.getsignal(number)) for number in signal.valid_signals()],
        "wakeup": signal.set_wakeup_fd(-1),
        "host": os.uname().nodename,
        "network": [
            sorted(name for _, name in socket.if_nameindex()),
            tried(lambda: socket.create_connection(("192.0.2.1", 80), timeout=2)),
        ],
        "calls": {number: called(number, 0, 0, 0, 0, 0) for number in numbers},
        "a user namespace": called(UNSHARE, NEW_USER),
        "the interpreter": [
            tried(opened(EXE, os.O_WRONLY)),
            tried(lambda: EXE.chmod(0o777)),
            tried(lambda: os.utime(EXE)),
            tried(lambda: os.utime(outer)),
        ],
        "what is masked": imported("diffusers"),
        "the library": tried(lambda: os.utime("/infralens/infralens/wire.py")),
        "the top": tried(lambda: Path("/x").mkdir()),
        "the first process": {
            name: tried(opened(FIRST / name)) for name in ("environ", "mem", "maps", "fd", "ns")
        },
        "its places": {name: tried((FIRST / name).readlink) for name in ("root", "cwd", "exe")},
        "nodes": named("/dev"),
    }


def own() -> dict[str, Any]:
    """What is a candidate's own."""
    mounts = []
    for line in lines("/proc/self/mountinfo"):
        fields = line.split()
        kind = fields[fields.index("-") + 1]
        mounts.append([fields[4], kind, "ro" in fields[5].split(",")])
    spaces = Path("/proc/self/ns")
    return {
        "descriptors": sorted(map(int, named("/proc/self/fd")))[:-1],  # less the look's own
        "namespaces": {path.name: str(path.readlink()) for path in spaces.iterdir()},
        "mounts": sorted(mounts),
        "processes": [int(name) for name in named("/proc") if name.isdigit()],
        "powers": of_each("CapInh", "CapPrm", "CapEff", "CapAmb"),
        "filters": of_each("Seccomp"),
        "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getppid()],
        "user": os.getuid(),
        "keyrings": [line.split()[0] for line in read("/proc/keys").splitlines() if "_ses" in line],
        "mapped from elsewhere": [
            line for line in lines("/proc/self/maps") if "/" in line and not seen(line[73:])
        ],
    }


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")


def seen(path: str) -> bool:
    return Path(path).exists()


def of_each(*facts: str) -> list[str]:
    """What these facts are for each process in view."""
    said = [lines(f"/proc/{name}/status") for name in named("/proc") if name.isdigit()]
    begin = tuple(f"{fact}:" for fact in facts)
    return [line.split()[1] for told in said for line in told if line.startswith(begin)]


def lines(path: str) -> list[str]:
    return read(path).splitlines()


def named(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def look(numbers: list[int]) -> str:
    """Both, in a line."""
    ctypes.CDLL(None).prctl(DUMPABLE, 1, 0, 0, 0)  # as any process may, to see itself
    return json.dumps([alike(numbers), own()])
