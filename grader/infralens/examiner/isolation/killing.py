"""How processes are killed: one with its family, some at once, all that descend from us.

Orphans are adopted first, so that all that a submission started descends from us still.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Set

import psutil

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make Linux hand us the children of a candidate that dies: no double fork slips away."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_family(pid: int, *others: int) -> None:
    """Kill a process that leads a session, that session, and what descends from it elsewhere.

    What descends from `others` is its family too.
    """
    family: list[psutil.Process] = []
    for root in {pid, *others}:
        with contextlib.suppress(psutil.Error):
            family += psutil.Process(root).children(recursive=True)
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.Error):
            process.kill()


def freeze_and_kill(pids: Set[int]) -> None:
    """Kill these, all stopped first: none sees another die.

    Nothing else is asked of them: beside hundreds that run, each question waits for its turn.
    """
    signs = (signal.SIGTERM,) if sys.platform == "win32" else (signal.SIGSTOP, signal.SIGKILL)
    for sign in signs:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, sign)


def children_of_ours() -> frozenset[int]:
    """The processes that descend from this one now."""
    return frozenset(child.pid for child in psutil.Process().children(recursive=True))


def kill_descendants(spare: Set[int] = frozenset(), alone: Set[int] = frozenset()) -> None:
    """Kill every process that descends from this one.

    Those in `spare` live on and theirs with them; those in `alone` do, and theirs do not.
    """
    me = psutil.Process()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        children = me.children(recursive=True)
        kept = alone | _families(spare)  # asked only now: whoever is new is known by now
        victims = [child for child in children if child.pid not in kept]
        if not victims:
            return
        # Stopped first: a fork bomb otherwise grows between the look and the blow.
        for sign in (
            (signal.SIGTERM,) if sys.platform == "win32" else (signal.SIGSTOP, signal.SIGKILL)
        ):
            for victim in victims:
                with contextlib.suppress(psutil.Error, OSError):
                    victim.send_signal(sign)
        _, alive = psutil.wait_procs(victims, timeout=0.5)
        if not alive and sys.platform == "win32":
            return


def _families(pids: Set[int]) -> set[int]:
    """These processes and all that descends from them. psutil misses none, and kills follow."""
    found = set(pids)
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return found
