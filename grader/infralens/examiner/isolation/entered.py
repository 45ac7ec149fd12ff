"""Candidates forked from a template into sandboxes that bubblewrap builds, one for each.

The template is in a sandbox itself: it sees what a candidate sees, has no network, and runs nothing
of a submission. It has bubblewrap build each candidate's walls and its fork go in (see
infralens.candidate.entering). Where that is not to be had, each candidate is a fresh interpreter.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from infralens.examiner.isolation import bubblewrap, seccomp
from infralens.examiner.isolation.launch import (
    SandboxLauncher,
    Started,
    TemplateLauncher,
    started_quietly,
    template_lacks,
)
from infralens.examiner.isolation.process import candidate_environment

ENTER_SECONDS = 30.0  # to build walls and go in, on a busy machine


def entering_lacks() -> str | None:
    """Why no fork can enter a sandbox here, in a few words; None where it can."""
    if (lacks := template_lacks()) is not None:
        return lacks
    launcher = EnteringLauncher(candidate_environment(bubblewrap.INSIDE), ())
    try:
        return launcher.tried()
    finally:
        launcher.close()


class EnteringLauncher(TemplateLauncher):
    """Keeps a template that forks candidates into sandboxes, where `template_lacks` nothing."""

    def __init__(
        self, environment: Mapping[str, str], masked: tuple[str, ...], loaded: tuple[str, ...] = ()
    ) -> None:
        self.lacks: str | None = None
        self.one_by_one = SandboxLauncher(masked, cuda=False, loaded=loaded)
        self.pid: int | None = None  # the template's; our own child is bubblewrap
        super().__init__(environment, loaded)
        self.fork_seconds = ENTER_SECONDS

    @property
    def forks(self) -> bool:
        return self.lacks is None

    def launch(self, folder: Path, environment: Mapping[str, str]) -> Started:
        if self.lacks is None:
            try:
                return super().launch(folder, environment)
            except OSError as error:
                if not self.answered:
                    self.lacks = str(error)
                    self._end()
        return self.one_by_one.launch(folder, environment)

    def _start(self) -> None:
        super()._start()
        with contextlib.suppress(OSError):  # it is gone: the first candidate shows that
            self.control.send(json.dumps({"walls": self._walls()}).encode())  # to be tried

    def tried(self) -> str | None:
        """Why none can be entered, in a few words; None if one can, once it was tried."""
        said = self._said(ENTER_SECONDS)
        if said is None:
            return "bubblewrap builds no sandbox in another"
        return str(said["refused"]) if "refused" in said else None

    def _process(self, control: int) -> subprocess.Popen[bytes]:
        self.pid = None
        told, tell = os.pipe()
        try:
            command = bubblewrap.workshop(
                (*self.command, "--sandboxes"),
                self.environment,
                masked=self.one_by_one.masked,
                masks=self.one_by_one.masks,
                told=tell,
            )
            process = started_quietly(command, self.environment, control, (tell,))
        finally:
            os.close(tell)
        with os.fdopen(told, "rb") as information:
            said = information.read()  # before anybody asks who these processes are
        with contextlib.suppress(ValueError):  # it has died: the first candidate shows that
            self.pid = int(json.loads(said)["child-pid"])
        return process

    def _order(self, folder: Path, environment: Mapping[str, str]) -> dict[str, object]:
        return {
            "folder": str(bubblewrap.INSIDE),
            "environment": None,  # the template's is what a candidate would be given
            "walls": self._walls(),
        }

    def _walls(self) -> dict[str, object]:
        user, calls = bubblewrap.user_of_its_own(), seccomp.program()
        other = bubblewrap.user_of_its_own()  # a candidate has no way to what holds the room
        return {
            "command": bubblewrap.held(self.environment, other),
            "user": None if user is None else int(user),
            "calls": None if calls is None else base64.b64encode(calls).decode(),
        }

    def pids(self) -> frozenset[int]:
        if self.lacks is not None:
            return frozenset()
        return super().pids() | ({self.pid} if self.pid is not None else set())

    def close(self) -> None:
        super().close()
        self.one_by_one.close()
