"""What a system may lack of what grading rests on. It is tried here, not looked up by its name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from infralens.examiner.isolation.ourselves import stay_private


def unwatchable() -> str | None:
    """Why nobody can watch over a submission here, in a few words; None where one can."""
    try:
        psutil.Process().children()
    except (psutil.Error, OSError):
        mount = ": mount /proc" if sys.platform == "linux" else ""
        return f"the processes of this system cannot be seen{mount}"
    return None


def exposed() -> str | None:
    """Why the memory of this process is open to others of its user; None where it is not (Linux).

    It tries to close it. As root there is no such wall, and elsewhere it is not asked for.
    """
    if sys.platform != "linux":
        return "only on Linux"
    if os.geteuid() == 0:
        return "you are root, who may read all"
    stay_private()
    try:
        open_to_us = Path("/proc/self/fd").stat().st_uid == os.geteuid()
    except OSError:
        return "/proc is not mounted"
    return "prctl is refused" if open_to_us else None
