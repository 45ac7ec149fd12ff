"""Running a program as an ordinary user, also where the tests are run by root."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from infralens.labs import PACKAGE

USER = "65533"
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


def as_ordinary_user(
    program: Sequence[str], *, readable: Iterable[Path] = (), seccomp: int | None = None
) -> list[str]:
    """The command, with `readable` and what Python needs in view; through bubblewrap where needed.

    `seccomp` is the descriptor of a filter of system calls that it is to run with.
    """
    root = os.geteuid() == 0
    if not root and seccomp is None:
        return list(program)
    command = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    if root:
        needed = [Path(sys.base_prefix), Path(sys.prefix), PACKAGE.parent, *readable]
        closed = [folder for path in needed for folder in path.parents if not _open(folder)]
        tops = {folder for folder in closed if not set(closed) & set(folder.parents)}
        for folder in sorted(tops):
            command += ["--perms", "0755", "--tmpfs", str(folder)]
        for path in needed:
            for parent in reversed(path.parents):
                if tops & set(parent.parents):
                    command += ["--perms", "0755", "--dir", str(parent)]
            if tops & set(path.parents):
                command += ["--bind", str(path), str(path)]
        for capability in CAPABILITIES:
            command += ["--cap-add", capability]
    if seccomp is not None:
        command += ["--seccomp", str(seccomp)]
    command.append("--")
    if root:
        command += ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
        command += ["--bounding-set", "-all", "--inh-caps", "-all"]
    return [*command, *program]


def _open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)
