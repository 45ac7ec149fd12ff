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
MOST_SECONDS = 1e6  # no timer runs longer; who is to be rung later is asked again then
Result = TypeVar("Result")


def done_by(until: float | Callable[[], float], work: Callable[[], Result]) -> Result:
    """What `work()` gives; AlarmError once `time.monotonic()` has come to `until`.

    `until` may be asked for again when it has come: what is not known yet may move. One may run in
    another. For the main thread. Not a context manager, whose own lines the alarm could interrupt.
    """
    if sys.platform == "win32":
        return work()

    def left() -> float:
        return min((until() if callable(until) else until) - time.monotonic(), MOST_SECONDS)

    over = False

    def ring(number: int, frame: FrameType | None) -> None:
        if over:  # it was on its way when the work ended: set again, it would end the process
            return
        more = left()
        if more <= 0:
            raise AlarmError
        signal.setitimer(signal.ITIMER_REAL, max(more, LEAST_SECONDS))

    before = signal.signal(signal.SIGALRM, ring)
    outer, _ = signal.setitimer(signal.ITIMER_REAL, max(left(), LEAST_SECONDS))
    try:
        return work()
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:  # it rings at once, and sees for itself how long is left
            signal.setitimer(signal.ITIMER_REAL, LEAST_SECONDS)
