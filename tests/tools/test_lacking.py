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

LAB = find_lab("lab-02", find_labs())
PROGRAM = [sys.executable, "-P", "-m", "infralens"]
WITHOUT_PROC = ["--tmpfs", "/proc"]
PRCTL = {"x86_64": 157, "aarch64": 167}
REFUSE = 0x00050000 | errno.EPERM
pytestmark = pytest.mark.sandbox


def inside(
    *walls: str, command: list[str], calls: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in a bubblewrap that takes something away and nothing else."""
    seccomp = ["--seccomp", str(calls)] if calls is not None else []
    return subprocess.run(
        [
            "bwrap",
            "--bind",
            "/",
            "/",
            "--dev-bind",
            "/dev",
            "/dev",
            *walls,
            *seccomp,
            "--",
            *command,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        pass_fds=(calls,) if calls is not None else (),
    )


@pytest.mark.parametrize(
    "words",
    [
        ("grade", "lab-02", "--file", str(LAB.solution)),
        ("watch", "lab-02", "--file", str(LAB.solution)),
    ],
    ids=["grade", "watch"],
)
def test_without_proc_a_command_ends_with_a_sentence(words: tuple[str, ...]) -> None:
    done = inside(*WITHOUT_PROC, command=[*PROGRAM, *words])
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "infralens: Nothing can be graded here: "
        "the processes of this system cannot be seen: mount /proc."
    )


def test_without_proc_doctor_says_so() -> None:
    program = "from infralens.doctor import isolation\nfor f in isolation(): print(f.name, f.value)"
    done = inside(*WITHOUT_PROC, command=[sys.executable, "-P", "-c", program])
    assert "processes out of view: nothing can be graded" in done.stdout, done.stderr
    assert "isolation process" in done.stdout


def refusing_prctl() -> bytes:
    number = PRCTL[os.uname().machine]
    lines = [(LOAD, 0, 0, NUMBER_AT), (EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, (RETURN, 0, 0, ALLOW)])


def test_where_prctl_is_refused_an_ordinary_user_is_graded_all_the_same(tmp_path: Path) -> None:
    """Nobody's memory is private there: waiting for it would have no end, and doctor tells."""
    assert LAB.solution is not None
    program = (
        "from infralens.examiner.isolation.system import exposed; print(exposed())\n"
        "from pathlib import Path\n"
        "from infralens.grading import grade\n"
        "from infralens.labs import find_lab, find_labs\n"
        "lab = find_lab('lab-02', find_labs())\n"
        "print(grade(lab, lab.solution, todos=['2.1'], isolation='process').passed)\n"
    )
    filter_ = tmp_path / "filter"
    filter_.write_bytes(refusing_prctl())
    user = ("--unshare-user", "--uid", "65533", "--gid", "65533")
    with filter_.open("rb") as calls:
        done = inside(*user, command=[sys.executable, "-P", "-c", program], calls=calls.fileno())
    assert done.stdout.splitlines() == ["prctl is refused", "True"], done.stderr


SPAWNING = """
import os, socket
import psutil, torch
from infralens.examiner.service.serve import main

del os.fork, socket.send_fds, socket.SOCK_SEQPACKET
main()
"""


def test_where_processes_are_only_spawned_a_warm_examiner_grades() -> None:
    """As on Windows, and nearly as on macOS: no fork, no descriptors sent, no seqpackets."""
    assert LAB.solution is not None
    with examiner(serve=True, program=("-c", SPAWNING)) as warm:
        for _ in range(2):
            report = grade(LAB, LAB.solution, todos=["2.1"], isolation="process", using=warm)
            assert report.passed, report.grader_error
