"""The template of candidates, when a submission stops or kills it; without torch."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infralens.examiner import launching
from infralens.examiner.launching import CAN_FORK, Started, TemplateLauncher

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="a template forks")

PROGRAM = """
import sys
from infralens.candidate.template import serve_forks
serve_forks()
print("forked", flush=True)
sys.stdin.read()
"""


class Small(TemplateLauncher):
    """A template that loads nothing."""

    def _start(self) -> None:
        self.command = (sys.executable, "-P", "-c", PROGRAM)
        super()._start()


@pytest.fixture
def launcher() -> Iterator[TemplateLauncher]:
    started = Small({})
    yield started
    started.close()


def runs(candidate: Started) -> bool:
    return candidate.answers.readline() == b"forked\n"


def ended(candidate: Started) -> int | None:
    candidate.requests.close()
    return candidate.wait(10.0)


def test_a_template_that_was_stopped_goes_on(launcher: TemplateLauncher, tmp_path: Path) -> None:
    first = launcher.launch(tmp_path, {})
    template = launcher.pids()
    os.kill(launcher.process.pid, signal.SIGSTOP)
    second = launcher.launch(tmp_path, {})
    assert launcher.pids() == template
    assert runs(first)
    assert runs(second)
    assert ended(first) == ended(second) == 0


def test_a_template_that_does_not_answer_is_replaced(
    launcher: TemplateLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "FORK_SECONDS", 0.3)
    monkeypatch.setattr(TemplateLauncher, "_wake", lambda self: None)
    first = launcher.launch(tmp_path, {})
    assert runs(first)
    os.kill(launcher.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    second = launcher.launch(tmp_path, {})
    assert runs(second)
    assert time.monotonic() - began < 10
    assert first.poll() == -signal.SIGKILL
    assert ended(second) == 0
