"""A time limit on our own work, for what a submission has the examiner compute.

The alarm is heard between two operations: one that runs in C++ is finished first. Windows has none;
there a lent function takes the time that it takes.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

LEAST_SECONDS = 0.001  # zero would mean no alarm


class AlarmError(BaseException):
    """Time is up. Not an Exception, which the code that is stopped might take for its own."""


@contextlib.contextmanager
def stopped_at(until: float) -> Iterator[None]:
    """AlarmError once `time.monotonic()` has come to `until`. For the main thread."""
    if sys.platform == "win32":
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), LEAST_SECONDS))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
