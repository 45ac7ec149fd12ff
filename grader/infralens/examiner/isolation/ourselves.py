"""What one of our own processes does to itself: it ends with its parent, and is read by nobody."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

PARENT_SECONDS = 0.5
DEAF_SECONDS = 10.0
PR_SET_DUMPABLE = 4


def end_with_the_parent(
    look_seconds: float = PARENT_SECONDS, deaf_seconds: float = DEAF_SECONDS
) -> None:
    """Send ourselves SIGTERM when the process that started us is gone; who is deaf to it ends too.

    Python hears a signal only between two operations, and one in C++ can take minutes.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(look_seconds)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(deaf_seconds)
        os._exit(128 + signal.SIGTERM)

    if sys.platform != "win32":
        threading.Thread(target=watch, daemon=True).start()


def stay_private() -> None:
    """Let no other process of the same user trace this one or read its memory (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
