"""A candidate forked into a sandbox is what a fresh one is, and can no more; without torch."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infralens.examiner.isolation import bubblewrap
from infralens.examiner.isolation.entered import EnteringLauncher, entering_lacks
from infralens.examiner.isolation.launch import template_lacks
from infralens.examiner.isolation.process import candidate_environment
from infralens.examiner.isolation.seccomp import EPERM, REFUSED
from ordinary import as_ordinary_user

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(template_lacks() is not None, reason="a template forks"),
]

LOOKING = Path(__file__).parents[1] / "looking.py"
BEGIN = """
import sys
sys.argv[1:] = ["--template"] if {forked} else []
from infralens.candidate import limits
limits.die_with_the_examiner()
limits.stay_private()
if {forked}:
    from infralens.candidate.template import serve_forks, try_a_sandbox
    try_a_sandbox()
    serve_forks()
"""
COMPARED = """
import json, sys
from pathlib import Path
from infralens.examiner.isolation.entered import EnteringLauncher
from infralens.examiner.isolation.launch import SandboxLauncher
from infralens.examiner.isolation.killing import adopt_orphans
from infralens.examiner.isolation.ourselves import stay_private
from infralens.examiner.isolation.process import candidate_environment

forked, fresh, looked = sys.argv[1:]
spaces = {path.name: str(path.readlink()) for path in Path("/proc/self/ns").iterdir()}
stay_private()
adopt_orphans()

class Small(EnteringLauncher):
    def _start(self):
        self.command = (sys.executable, "-P", "-c", forked + looked)
        super()._start()

folder = Path("/tmp")
environment = candidate_environment(folder)
launchers = [SandboxLauncher(("diffusers",), cuda=False), Small(environment, ("diffusers",))]
launchers[0].command = (sys.executable, "-P", "-c", fresh + looked)
told, alive = [], []
for launcher in (*launchers, launchers[1]):
    started = launcher.launch(folder, environment)
    assert getattr(launcher, "lacks", None) is None, launcher.lacks
    alive.append(started)
    told.append(started.answers.readline() or started.printed.read())
for started, said in zip(alive, told):
    started.requests.close()
    ended = started.wait(10.0)
    if ended:
        sys.exit(f"ended with {ended}: {said} {started.printed.read()}")
for launcher in launchers:
    launcher.close()
print(json.dumps([*map(json.loads, told), spaces]))
"""


def compared(user: str) -> Any:
    looked = LOOKING.read_text(encoding="utf-8")
    numbers = [number for number, _ in REFUSED.values()]
    looked += f"\nprint(look({numbers}), flush=True)\nsys.stdin.read()\n"
    ways = [BEGIN.format(forked=forked) for forked in (True, False)]
    program = [sys.executable, "-P", "-c", COMPARED, *ways, looked]
    if user == "ordinary":
        program = as_ordinary_user(program)
    done = subprocess.run(
        program,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("user", ["this", "ordinary"])
def test_who_is_forked_into_a_sandbox_is_what_a_fresh_candidate_is(user: str) -> None:
    fresh, forked, second, ours = compared(user)
    assert forked[0] == fresh[0]
    assert second[0] == fresh[0]
    facts, own = forked
    status = facts["status"]
    assert {status[name] for name in status if name.startswith("Cap")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"], facts["root"]) == ("1", "2", False)
    assert "it holds the answer" in facts["what is masked"]
    assert set(map(tuple, facts["calls"].values())) == {(-1, EPERM)}
    assert own["descriptors"] == fresh[1]["descriptors"] == [0, 1, 2]
    assert own["session"] == [True, True, 0]
    assert own["mapped from elsewhere"] == []
    assert own["mounts"] == fresh[1]["mounts"]
    assert max(own["processes"]) <= 4  # bubblewrap's first, what holds the room, the candidate
    assert set(own["powers"]) == {"0" * 16}  # what holds the room may no more, nor is less refused
    assert set(own["filters"]) == {"2"}
    walls = {"mnt", "net", "ipc", "uts", "pid", "pid_for_children"}
    differing = walls | ({"user"} if fresh[1]["namespaces"]["user"] != ours["user"] else set())
    for name in differing:
        assert len({own["namespaces"][name], second[1]["namespaces"][name], ours[name]}) == 3, name
    assert set(second[1]["keyrings"]) - set(own["keyrings"])  # a new one, whoever else's are seen
    if fresh[1]["user"] != second[1]["user"]:
        assert own["user"] != second[1]["user"]  # as root, nobody else's number


LEAVES_ONE_BEHIND = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("left", flush=True)
sys.stdin.read()
"""
Launch = Callable[..., EnteringLauncher]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """Launchers whose candidates run the given text, without torch."""
    made = []

    def launcher(text: str, before: str = "") -> EnteringLauncher:
        program = before + BEGIN.format(forked=True) + text

        class Small(EnteringLauncher):
            def _start(self) -> None:
                self.command = (sys.executable, "-P", "-c", program)
                super()._start()

        made.append(Small(candidate_environment(Path("/tmp")), ()))
        made[-1].one_by_one.command = (sys.executable, "-P", "-c", "print('fresh', flush=True)")
        return made[-1]

    yield launcher
    for each in made:
        each.close()


def gone(processes: list[psutil.Process]) -> bool:
    def ended(process: psutil.Process) -> bool:
        with contextlib.suppress(ChildProcessError):  # orphans are ours where a test adopted them
            os.waitpid(process.pid, os.WNOHANG)
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE

    deadline = time.monotonic() + 10
    left = processes
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [process for process in left if not ended(process)]  # one waits for another's end
    return not left


@pytest.mark.parametrize("end", ["candidate", "sandbox", "template", "bubblewrap"])
def test_nothing_outlives_a_candidate_its_sandbox_or_its_template(end: str, small: Launch) -> None:
    launcher = small(LEAVES_ONE_BEHIND)
    started = launcher.launch(Path("/tmp"), {})
    assert started.answers.readline() == b"left\n"
    family = [
        process
        for root in started.roots
        for process in (psutil.Process(root), *psutil.Process(root).children(recursive=True))
    ]
    assert len(family) == 5  # two of bubblewrap's, what holds the room, candidate, what was left
    (sandbox,) = started.roots - {started.pid}
    assert launcher.pid is not None
    pids = {"sandbox": sandbox, "template": launcher.pid, "bubblewrap": launcher.process.pid}
    if end == "candidate":
        started.kill()
        assert started.poll() == -9
    else:
        psutil.Process(pids[end]).kill()
    assert gone(family)
    if end in ("candidate", "sandbox"):
        assert launcher.launch(Path("/tmp"), {}).answers.readline() == b"left\n"


@pytest.mark.parametrize(
    "before",
    [
        "from infralens.candidate import limits; limits.give_up_privileges = lambda user: None\n",
        "from infralens.candidate import limits; limits.refuse_calls = lambda program: None\n",
        "from infralens.candidate import entering; entering._set = lambda *_: 1 / 0\n",
    ],
    ids=["privileges", "calls", "namespaces"],
)
def test_who_is_not_what_a_candidate_is_becomes_none(before: str, small: Launch) -> None:
    launcher = small("print('forked', flush=True)", before)
    started = launcher.launch(Path("/tmp"), {})
    assert started.answers.readline() == b"fresh\n"
    assert launcher.lacks is not None
    assert not launcher.forks


def test_where_no_sandbox_is_built_in_another_candidates_start_one_by_one(
    small: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "held", lambda *_: ["bwrap", "--no-such-wall"])
    launcher = small("print('forked', flush=True)")
    assert launcher.launch(Path("/tmp"), {}).answers.readline() == b"fresh\n"
    assert "no-such-wall" in str(entering_lacks())
