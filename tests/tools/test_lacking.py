"""The commands where a system lacks something: they do without it, or say so in a sentence."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from infralens.examiner.isolation.seccomp import ALLOW, EQUAL, LOAD, NUMBER_AT, RETURN
from infralens.grading import examiner, grade
from infralens.labs import find_lab, find_labs
from ordinary import as_ordinary_user

LAB = find_lab("lab-02", find_labs())
OWN = Path(__file__).parents[1] / "attacks" / "lab"
PROGRAM = [sys.executable, "-P", "-m", "infralens"]
CHECKOUT = Path(__file__).parents[2]
PRCTL, PR_SET_DUMPABLE = {"x86_64": 157, "aarch64": 167}, 4
FIRST_ARGUMENT_AT = 16  # in struct seccomp_data
REFUSE = 0x00050000 | errno.EPERM
pytestmark = pytest.mark.sandbox


def run(command: list[str], inherited: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=CHECKOUT,
        pass_fds=inherited,
    )


def without_proc(command: list[str]) -> subprocess.CompletedProcess[str]:
    walls = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--tmpfs", "/proc"]
    return run([*walls, "--", *command])


@pytest.mark.parametrize(
    "words",
    [
        ("grade", "lab-02", "--file", str(LAB.solution)),
        ("watch", "lab-02", "--file", str(LAB.solution)),
    ],
    ids=["grade", "watch"],
)
def test_without_proc_a_command_ends_with_a_sentence(words: tuple[str, ...]) -> None:
    done = without_proc([*PROGRAM, *words])
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "infralens: Nothing can be graded here: "
        "the processes of this system cannot be seen: mount /proc."
    )


def test_without_proc_doctor_says_so() -> None:
    program = "from infralens.doctor import isolation\nfor f in isolation(): print(f.name, f.value)"
    done = without_proc([sys.executable, "-P", "-c", program])
    assert "processes out of view: nothing can be graded" in done.stdout, done.stderr
    assert "isolation process" in done.stdout


def refusing_privacy() -> bytes:
    """A filter that refuses prctl(PR_SET_DUMPABLE, ...) and nothing else."""
    lines = [
        (LOAD, 0, 0, NUMBER_AT),
        (EQUAL, 0, 3, PRCTL[os.uname().machine]),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        (EQUAL, 0, 1, PR_SET_DUMPABLE),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


STARTED = """
from infralens.examiner.isolation.system import exposed
from infralens.grading import examiner

says_private = "import sys; print('{\\"event\\": \\"private\\"}', flush=True); sys.stdin.read()"
print(exposed())
with examiner(program=("-c", says_private)) as one:
    print(one.line.open.wait(30) and bool(one.line.token))
"""


def test_where_prctl_is_refused_an_ordinary_user_is_graded_all_the_same(tmp_path: Path) -> None:
    """Nobody's memory is private there: waiting for it would have no end, and doctor tells."""
    file = tmp_path / "filter"
    file.write_bytes(refusing_privacy())
    program = [sys.executable, "-P", "-c", STARTED]
    with file.open("rb") as calls:
        number = calls.fileno()
        done = run(as_ordinary_user(program, readable=[CHECKOUT], seccomp=number), (number,))
    assert done.stdout.splitlines() == ["prctl is refused", "True"], done.stderr


SPAWNING = """
import os, socket
import psutil, torch
from infralens.examiner.service.serve import main

del os.fork, socket.send_fds, socket.SOCK_SEQPACKET
main()
"""


def test_where_processes_are_only_spawned_a_warm_examiner_grades(light_diffusers: Path) -> None:
    """As on Windows, and nearly as on macOS: no fork, no descriptors sent, no seqpackets."""
    lab = find_lab("attacks/lab-01", find_labs([OWN]))
    assert lab.solution is not None
    with examiner(serve=True, program=("-c", SPAWNING)) as warm:
        for _ in range(2):
            report = grade(lab, lab.solution, todos=["1.2"], isolation="process", using=warm)
            assert report.passed, report.grader_error
