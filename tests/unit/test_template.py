"""The template of candidates, when a submission stops or kills it; without torch."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infralens.candidate.limits import KEYCTL
from infralens.examiner.isolation import launch, seccomp
from infralens.examiner.isolation.launch import Started, TemplateLauncher, template_lacks
from infralens.examiner.service import stock

pytestmark = pytest.mark.skipif(template_lacks() is not None, reason="a template forks")

PROGRAM = """
import sys
from infralens.candidate.template import serve_forks
serve_forks()
{says}
sys.stdout.flush()
sys.stdin.read()
"""


class Small(TemplateLauncher):
    """A template that loads nothing."""

    says = 'print("forked")'

    def _start(self) -> None:
        self.command = (sys.executable, "-P", "-c", PROGRAM.format(says=self.says))
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


@pytest.mark.skipif(seccomp.program() is None, reason="no such calls here")
def test_each_fork_has_a_keyring_of_its_own(tmp_path: Path) -> None:
    keyctl = KEYCTL[os.uname().machine]

    class Asked(Small):
        says = f"import ctypes; print(ctypes.CDLL(None).syscall({keyctl}, 0, -3, 0))"

    launcher = Asked({})
    forked = [launcher.launch(tmp_path, {}) for _ in range(2)]
    told = {candidate.answers.readline() for candidate in forked}
    assert [ended(candidate) for candidate in forked] == [0, 0]
    launcher.close()
    assert len(told) == 2


def test_a_template_that_does_not_answer_is_replaced(
    launcher: TemplateLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "fork_seconds", 0.3)
    monkeypatch.setattr(launcher, "_wake", lambda: None)
    first = launcher.launch(tmp_path, {})
    assert runs(first)
    os.kill(launcher.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    second = launcher.launch(tmp_path, {})
    assert runs(second)
    assert time.monotonic() - began < 10
    assert first.poll() == -signal.SIGKILL
    assert ended(second) == 0


@pytest.mark.parametrize(
    ("owner", "name"), [(os, "fork"), (socket, "send_fds"), (socket, "SOCK_SEQPACKET")]
)
def test_without_what_a_template_needs_candidates_start_one_by_one(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(owner, name)
    setting = stock.Setting("process", (), (), cuda=False)
    launcher = stock.Spares(more_will_follow=True)._launcher(setting)
    assert isinstance(launcher, launch.DirectLauncher)
    assert name in str(template_lacks())


def test_sockets_that_a_system_names_and_has_not_are_no_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise OSError(43, "Protocol not supported")  # as on macOS

    monkeypatch.setattr(socket, "socketpair", refused)
    assert "Protocol not supported" in str(template_lacks())
