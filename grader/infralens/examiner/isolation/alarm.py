"""A time limit on our own work, for what a submission has the examiner compute.

The alarm is heard between two operations: one that runs in C++ is finished first. Windows has none;
there a lent function takes the time that it takes.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from infralens.examiner.errors import AlarmError

LEAST_SECONDS = 0.001  # zero would mean no alarm
Result = TypeVar("Result")


def done_by(until: float, work: Callable[[], Result]) -> Result:
    """What `work()` gives; AlarmError once `time.monotonic()` has come to `until`.

    For the main thread. Not a context manager, whose own lines the alarm could interrupt.
    """
    if sys.platform == "win32":
        return work()

    def ring(number: int, frame: FrameType | None) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), LEAST_SECONDS))
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
