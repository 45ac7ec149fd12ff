"""Who is watched, who is spared, and what a look sees; without torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from infralens.examiner.isolation import tree
from infralens.examiner.isolation.watch import Watcher
from infralens.examiner.memory import shared

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX processes")

SOON = 10.0
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
kept = bytearray(b"x") * {megabytes} * 2**20
print("kept", flush=True)
child.wait()
time.sleep(60)
"""
ALONE = """
import sys
from infralens.examiner.isolation.killing import adopt_orphans, kill_descendants
import subprocess, psutil, time

adopt_orphans()
families = []
for number in range(3):
    process = subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1]], stdout=subprocess.PIPE)
    families.append((process.pid, int(process.stdout.readline())))
(spared, theirs), (alone, gone), family = families
kill_descendants(spare={spared}, alone={alone})
def lives(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
print([lives(pid) for pid in (spared, theirs, alone, gone, *family)])
kill_descendants()
"""
Started = Callable[..., tuple[int, int]]


def test_the_spared_keep_what_descends_from_them() -> None:
    command = [sys.executable, "-c", ALONE, PARENT.format(megabytes=0)]
    told = subprocess.check_output(command, text=True, timeout=60)
    assert told.strip() == "[True, True, True, False, False, False]"


@pytest.fixture
def started() -> Iterator[Started]:
    """A process with a child: their pids, once both run."""
    begun: list[subprocess.Popen[str]] = []

    def start(megabytes: int = 0) -> tuple[int, int]:
        program = PARENT.format(megabytes=megabytes)
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        begun.append(process)
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.stdout.readline()
        return process.pid, child

    yield start
    for process in begun:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def others() -> frozenset[int]:
    """What descends from us already: examiners of other tests, which are no strays."""
    return frozenset(child.pid for child in psutil.Process().children(recursive=True))


def test_a_look_sees_whom_psutil_sees(started: Started) -> None:
    pids = started()
    for sure in (False, True):
        found = tree.below(os.getpid(), tree.children_of(os.getpid(), sure=sure))
        assert found >= set(pids)
    assert tree.resident({pids[0]}) == psutil.Process(pids[0]).memory_info().rss


HEADLESS = """
import ctypes, threading, time
kept = bytearray(b"x") * 100 * 2**20
threading.Thread(target=lambda: (time.sleep(0.2), print("\\n", flush=True), time.sleep(60))).start()
ctypes.CDLL(None).syscall(60 if "x86_64" in __import__("platform").machine() else 93, 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux threads")
def test_a_process_whose_first_thread_has_ended_is_counted() -> None:
    with subprocess.Popen([sys.executable, "-c", HEADLESS], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert psutil.Process(process.pid).memory_info().rss == 0  # this is what it hides
            assert tree.resident({process.pid}) > 100 * 2**20
        finally:
            process.kill()


MANY_FILES = """
import os
os.mkdir("/tmp/many")
for number in range(4000):
    os.close(os.open(f"/tmp/many/{number}", os.O_CREAT))
print("made", flush=True)
import time
time.sleep(60)
"""


@pytest.mark.sandbox
def test_files_in_the_memory_of_a_sandbox_are_counted_though_empty() -> None:
    command = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--die-with-parent"]
    # An environment may lie in the /tmp that is hidden; its base installation does not.
    python = str(Path(sys.executable).resolve())
    command += ["--size", str(2**26), "--tmpfs", "/tmp", python, "-S", "-c", MANY_FILES]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"made\n"
            family = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
            assert shared.beyond_resident(family | {process.pid}) >= 4000 * 2**10
        finally:
            process.kill()


BY_FILES = """
import os
files = [os.memfd_create("kept") for _ in range(4)]
for file in files:
    os.write(file, bytes(25 * 2**20))
"""
BY_DROPPED_PAGES = """
import mmap
kept = mmap.mmap(-1, 100 * 2**20)
for _ in range(100):
    kept.write(bytes(2**20))
kept.madvise(mmap.MADV_DONTNEED)
"""
MAPPED = """
import mmap, os
kept = mmap.mmap(-1, 100 * 2**20)
for _ in range(100):
    kept.write(bytes(2**20))
"""


FILLED = """
import fcntl, os, socket
def filled(end):
    os.set_blocking(end, False)
    put = 0
    try:
        while True:
            put += os.write(end, bytes(2**16))
    except BlockingIOError:
        return put
"""
IN_PIPES = """
kept = [os.pipe() for _ in range(16)]
for _, end in kept:
    fcntl.fcntl(end, 1031, 2**20)  # F_SETPIPE_SZ
put = sum(filled(end) for _, end in kept)
"""
IN_SOCKETS = """
kept = [end for _ in range(8) for end in socket.socketpair()]
for end in kept:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**24)
put = sum(filled(end.fileno()) for end in kept)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux memory")
@pytest.mark.parametrize("kept", [IN_PIPES, IN_SOCKETS], ids=["pipes", "sockets"])
def test_what_waits_in_pipes_and_sockets_is_counted(kept: str) -> None:
    program = f"{FILLED}{kept}\nprint(put, flush=True)\nimport time\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            put = int(process.stdout.readline())
            assert put > 2 * 2**20
            assert shared.beyond_resident({process.pid}) >= put
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux memory")
@pytest.mark.parametrize(
    ("held", "beyond"), [(BY_FILES, 100), (BY_DROPPED_PAGES, 100), (MAPPED, 0), ("", 0)]
)
def test_shared_memory_that_is_not_resident_is_counted(held: str, beyond: int) -> None:
    program = held + "\nprint(flush=True)\nimport time\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert shared.beyond_resident({process.pid}) == beyond * 2**20
        finally:
            process.kill()


def test_one_who_takes_too_much_ends_and_his_neighbour_does_not(
    others: frozenset[int], started: Started
) -> None:
    watcher = Watcher(lambda: others)
    small, large = started(), started(megabytes=200)
    quiet, greedy = watcher.over(small[0]), watcher.over(large[0])
    quiet.limit(100)
    greedy.limit(100)
    assert greedy.most_bytes is not None
    greedy.most_bytes -= 200 * 2**20  # as if it had been limited before it took them
    deadline = time.monotonic() + SOON
    while greedy.verdict is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert greedy.verdict == "used more than 100 MiB of memory"
    assert quiet.verdict is None
    assert psutil.Process(small[0]).status() != psutil.STATUS_ZOMBIE
    quiet.stop()
    greedy.stop()


def test_a_stray_counts_unless_one_is_starting_or_it_is_a_launcher(
    others: frozenset[int], started: Started
) -> None:
    mine, stray = started(), started()
    watcher = Watcher(lambda: others.union(stray))
    watch = watcher.over(mine[0])
    watch.limit(1000)
    watch.allow_no_more_processes()
    watcher.look()
    assert watch.verdict is None
    watcher.launchers = lambda: others
    with watcher.starting():
        watcher.look()
    assert watch.verdict is None
    watcher.look()
    assert watch.verdict == "started another process"
    watch.stop()
