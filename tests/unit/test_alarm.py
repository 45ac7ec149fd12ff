"""A time limit on our own work: it may move, and one may lie in another."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from infralens.examiner.errors import AlarmError
from infralens.examiner.isolation.alarm import done_by

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarm")


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_work_is_ended_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(AlarmError):
        done_by(began + 0.05, lambda: spin(5))
    assert time.monotonic() - began < 1
    spin(0.1)  # nothing rings afterwards


def test_a_time_that_moves_is_asked_for_again() -> None:
    began = time.monotonic()
    with pytest.raises(AlarmError):
        done_by(lambda: began + (0.05 if time.monotonic() < began + 0.04 else 0.2), lambda: spin(5))
    assert 0.2 <= time.monotonic() - began < 1


def test_the_outer_of_two_still_rings() -> None:
    began = time.monotonic()

    def work() -> None:
        done_by(began + 60, lambda: None)
        with pytest.raises(AlarmError):
            done_by(time.monotonic() + 0.01, lambda: spin(5))
        spin(5)

    with pytest.raises(AlarmError):
        done_by(began + 0.2, work)
    assert 0.2 <= time.monotonic() - began < 1


def test_an_alarm_on_its_way_at_the_end_sets_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heard between the last two steps, it would ring when nobody is there to hear it."""
    set_timer = signal.setitimer

    def heard_late(which: int, seconds: float) -> tuple[float, float]:
        before = set_timer(which, seconds)
        if seconds == 0:
            hear = signal.getsignal(signal.SIGALRM)
            assert callable(hear)
            hear(signal.SIGALRM, None)
        return before

    monkeypatch.setattr(signal, "setitimer", heard_late)
    done_by(time.monotonic() + 60, lambda: None)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
