"""What descends from a process and what it takes, read from /proc: a look costs little.

psutil reads the whole machine's processes for one tree, and it is asked often. Linux tells the
children of each thread; it may leave one out while a sibling ends, so that a look now and then is
psutil's, and so is every look before a kill. Elsewhere all looks are.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Set
from pathlib import Path

import psutil

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
CHILDREN_ARE_TOLD = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()
Children = Mapping[int, list[int]]


def children_of(pid: int, *, sure: bool = False) -> Children:
    """The children of `pid`, and of all that descends from it. `sure`: none is missed."""
    if sure or not CHILDREN_ARE_TOLD:
        return _found_by_psutil(pid)
    found: dict[int, list[int]] = {}
    unseen = [pid]
    while unseen:
        parent = unseen.pop()
        found[parent] = [child for child in _told(parent) if child not in found]
        unseen += found[parent]
    return found


def below(pid: int, children: Children) -> set[int]:
    """All that descends from `pid`."""
    found: set[int] = set()
    unseen = list(children.get(pid, ()))
    while unseen:
        child = unseen.pop()
        if child not in found:
            found.add(child)
            unseen += children.get(child, ())
    return found


def resident(pids: Set[int]) -> int:
    """The bytes of memory that these processes take."""
    return sum(map(_resident, pids))


def _found_by_psutil(pid: int) -> Children:
    found: dict[int, list[int]] = {}
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found.setdefault(child.ppid(), []).append(child.pid)
    return found


def _told(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # asked often, and quicker
            with contextlib.suppress(OSError):
                found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _resident(pid: int) -> int:
    if sys.platform == "linux":
        # A process whose first thread has ended tells nothing; its other threads do.
        return _pages(f"/proc/{pid}/statm") or max(map(_pages, _threads(pid)), default=0)
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _threads(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        tasks = f"/proc/{pid}/task"
        return [f"{tasks}/{name}/statm" for name in os.listdir(tasks)]  # noqa: PTH208  # quicker
    return []


def _pages(statm: str) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(_read(statm).split()[1]) * PAGE_BYTES
    return 0


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65536)
    finally:
        os.close(descriptor)
