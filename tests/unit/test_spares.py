"""What is kept ready for the next grade, and outlives this one."""

from __future__ import annotations

import sys
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from infralens.examiner.candidate.link import Link
from infralens.examiner.candidate.submission import Submission
from infralens.examiner.errors import GraderFaultError
from infralens.examiner.isolation.launch import DirectLauncher, TemplateLauncher
from infralens.examiner.isolation.process import CandidateProcess
from infralens.examiner.isolation.watch import Watcher
from infralens.examiner.service import stock
from infralens.examiner.service.stock import Setting, Spares
from infralens.labs import find_lab, find_labs

SUITE = """
    @todo("90.1")
    def test_one(candidate):
        "One is one."
        assert_equals(candidate.one(), value=1)
"""
RIGHT = "def one():\n    return 1\n"
SOON = 60.0


def stocked(examiner: int) -> set[int]:
    """The sandboxes under an examiner, as soon as one waits whose candidate runs."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        family = psutil.Process(examiner).children(recursive=True)
        alive = [each for each in family if each.status() != psutil.STATUS_ZOMBIE]
        found = {each.pid for each in alive if each.name() == "bwrap"}
        if found and any("infralens.candidate" in each.cmdline() for each in alive):
            return {each.pid for each in alive}
        time.sleep(0.05)
    raise AssertionError("no sandbox was stocked")


@pytest.mark.sandbox
def test_a_syntax_error_leaves_the_stocked_sandbox_to_the_next_save(workshop: Any) -> None:
    lab = workshop.lab(SUITE)
    assert workshop.grade(lab, RIGHT, isolation="sandbox").passed
    before = stocked(workshop.warm.process.pid)
    assert workshop.grade(lab, "def one(:\n", isolation="sandbox").score == 0
    assert stocked(workshop.warm.process.pid) >= before
    assert workshop.grade(lab, RIGHT, isolation="sandbox").passed


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_what_dies_before_it_is_ready_is_our_fault() -> None:
    """As where a checkout is closed to the sandbox's user."""
    lab = find_lab("lab-03", find_labs())
    launcher, watcher = DirectLauncher(), Watcher()
    launcher.command = (sys.executable, "-S", "-c", "raise SystemExit('no way to the packages')")
    submission = Submission("x = 1\n", "scheduler.py")
    start = partial(CandidateProcess, launcher, watcher)
    link = Link(lab, submission, start, limit_address_space=False)
    with pytest.raises(GraderFaultError, match="no candidate starts here: no way to the packages"):
        link.request({"kind": "get", "on": None, "name": "x"})


@pytest.mark.parametrize(("launcher", "wait"), [(DirectLauncher, 3), (TemplateLauncher, 1)])
def test_as_many_wait_as_a_grade_needs(
    launcher: Any, wait: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is metered nobody waits for torch three times; a template forks at once."""
    spares, killed = Spares(more_will_follow=True), list[int]()
    setting, other = (Setting("process", masked, (), False, 3) for masked in ((), ("diffusers",)))
    made = object.__new__(launcher)
    spares.launchers = {setting: made, other: made}
    started: Any = lambda _: SimpleNamespace(alive=True, kill=lambda: killed.append(1))  # noqa: E731
    monkeypatch.setattr(spares, "_started", started)
    spares.prepare(setting)
    first = spares.waiting[setting][0]
    assert len(spares.waiting[setting]) == wait
    assert spares.take(setting) is first
    assert len(spares.waiting[setting]) == wait - 1
    spares.prepare(setting)
    assert len(spares.waiting[setting]) == wait
    spares.prepare(other)
    assert len(killed) == wait
    assert list(spares.waiting) == [other]


@pytest.mark.parametrize(
    ("more", "processes", "cuda", "kind"),
    [
        (False, 1, False, "SandboxLauncher"),  # a template would be loaded for one candidate
        (False, 3, False, "EnteringLauncher"),
        (True, 1, False, "EnteringLauncher"),
        (True, 1, True, "SandboxLauncher"),
    ],
)
def test_a_template_serves_the_sandbox_where_several_follow_and_no_gpu_is_used(
    more: bool, processes: int, cuda: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SandboxLauncher", "EnteringLauncher"):
        monkeypatch.setattr(stock, name, lambda *_, name=name, **__: name)
    monkeypatch.setattr(stock, "template_lacks", lambda: None)
    setting = Setting("sandbox", ("diffusers",), (), cuda, processes)
    assert str(Spares(more_will_follow=more)._launcher(setting)) == kind
