"""Memory that processes hold and that no resident set shows.

Shared pages live as long as somebody holds their file: by a descriptor, or by a map whose pages
were dropped again. What waits in a pipe or a socket lies in the kernel; a socket does not tell how
much it holds, so that each counts as full. A sandbox's own folders lie in memory, where a file
takes some even when it is empty. Where we may not look, nobody can say: `hidden` tells
who lets nobody look.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

SHARED = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV")
MAPPED = re.compile(r"^(\w+)-(\w+) \S{3}s \S+ (\S+) (\d+) +(/.*)$", re.MULTILINE)
RESIDENT = re.compile(r"^RssShmem:\s*(\d+) kB", re.MULTILINE)
LITTLE_BYTES = 2**20
F_GETPIPE_SZ = 1032
OWN_FOLDERS = ("/tmp", "/dev/shm")  # of a sandbox: see isolation.bubblewrap
FILE_BYTES = 2**10  # that a file without content takes there, about
MOST_WAITING = (  # where Linux says what a socket may send, and what its other end may keep
    ("/proc/sys/net/core/wmem_max", "/proc/sys/net/core/rmem_max"),
    ("/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"),
)


def beyond_resident(pids: Set[int]) -> int:
    """The bytes of shared memory that these processes hold, beside what of it is resident."""
    if sys.platform != "linux":
        return 0
    held: dict[tuple[str, int], int] = {}
    waiting: dict[tuple[str, int], int] = {}
    for pid in pids:
        waiting.update(_in_own_folders(pid))
        with contextlib.suppress(OSError):
            for file, size in (*_by_descriptor(pid, waiting), *_by_map(pid)):
                held[file] = max(size, held.get(file, 0))
    total, buffered = sum(held.values()), sum(waiting.values())
    pages = max(0, total - sum(map(_resident, pids))) if total > LITTLE_BYTES else 0
    return pages + (buffered if buffered > LITTLE_BYTES else 0)


def hidden(pids: Set[int]) -> frozenset[int]:
    """Those among them that let nobody see what they hold; the dead hold nothing."""
    found = set()
    if sys.platform == "linux":
        for pid in pids:
            try:
                os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  # asked often, and quicker
            except PermissionError:
                if not _ending(pid):
                    found.add(pid)
            except OSError:
                continue
    return frozenset(found)


def _ending(pid: int) -> bool:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[:1] in (["Z"], ["X"])
    return True


def _by_descriptor(
    pid: int, waiting: dict[tuple[str, int], int]
) -> Iterator[tuple[tuple[str, int], int]]:
    """The shared files that a process has open; its pipes and sockets are put with what waits."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208  # asked often, and quicker
        with contextlib.suppress(OSError):
            path = f"{folder}/{name}"
            status = os.stat(path)  # noqa: PTH116  # quicker
            if stat.S_ISSOCK(status.st_mode):
                waiting[_named(status)] = _most_in_a_socket()
            elif stat.S_ISFIFO(status.st_mode):
                waiting[_named(status)] = _pipe_bytes(path)
            elif stat.S_ISREG(status.st_mode) and os.readlink(path).startswith(SHARED):  # noqa: PTH115  # quicker
                yield _named(status), status.st_blocks * 512


def _in_own_folders(pid: int) -> Iterator[tuple[tuple[str, int], int]]:
    """What lies in the folders that a process has in memory, and we have not."""
    for folder in OWN_FOLDERS:
        with contextlib.suppress(OSError):
            theirs = f"/proc/{pid}/root{folder}"
            name, _ = _named(os.stat(theirs))  # noqa: PTH116  # quicker
            if name not in _our_devices():
                space = os.statvfs(theirs)
                files, blocks = space.f_files - space.f_ffree, space.f_blocks - space.f_bfree
                yield (name, 0), files * FILE_BYTES + blocks * space.f_frsize


@cache
def _our_devices() -> frozenset[str]:
    """What those folders are for us, or what they would lie in."""
    there = [folder if Path(folder).exists() else "/" for folder in (*OWN_FOLDERS, "/")]
    return frozenset(_named(Path(folder).stat())[0] for folder in there)


def _pipe_bytes(path: str) -> int:
    """How much a pipe may hold."""
    if sys.platform != "linux":
        return 0
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return fcntl.fcntl(descriptor, F_GETPIPE_SZ)
    finally:
        os.close(descriptor)


@cache
def _most_in_a_socket() -> int:
    """How much a socket of any kind may hold here: what is sent, and what is not read yet."""
    most = 0
    for files in MOST_WAITING:
        with contextlib.suppress(OSError):
            texts = [Path(file).read_text(encoding="ascii").split()[-1] for file in files]
            most = max(most, sum(map(int, texts)))
    return most


def _by_map(pid: int) -> Iterator[tuple[tuple[str, int], int]]:
    text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    if "-s " not in text and "xs " not in text:  # no shared map, as in most: a look costs little
        return
    for begin, end, device, inode, name in MAPPED.findall(text):
        if name.startswith(SHARED):
            try:
                status = os.stat(f"/proc/{pid}/map_files/{begin}-{end}")  # noqa: PTH116  # quicker
                yield _named(status), status.st_blocks * 512
            except OSError:  # only root sees more of it than where it ends
                yield (device, int(inode)), int(end, 16) - int(begin, 16)


def _named(status: os.stat_result) -> tuple[str, int]:
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    return device, status.st_ino


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        found = RESIDENT.search(text)
        return int(found.group(1)) * 1024 if found else 0
    return 0
