"""Starting candidate processes: one by one, or forked from a template that has torch loaded.

Importing torch takes two seconds of processor time. Where many submissions are graded in a row, a
template process imports it once and each candidate is a fork of it: its own session, folder and
pipes, nothing shared but what torch looked like when it had just been imported.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

from infralens.examiner.errors import RefusedError
from infralens.examiner.isolation import bubblewrap, seccomp

PROGRAM = (sys.executable, "-P", "-m", "infralens.candidate")
TEMPLATE_SECONDS = 120.0  # to import torch, from a slow disk
FORK_SECONDS = 8.0  # of a template that has answered before, on a busy machine


def template_lacks() -> str | None:
    """What this system lacks for a template, in a few words; None where it has all."""
    for owner, name in ((os, "fork"), (socket, "send_fds"), (socket, "SOCK_SEQPACKET")):
        if not hasattr(owner, name):
            return f"{owner.__name__}.{name} is missing"
    try:
        for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET):
            end.close()
    except OSError as error:  # macOS has the name, and no such sockets
        return f"there are no sockets that keep messages apart: {error.strerror}"
    return None


def candidate_command(loaded: tuple[str, ...]) -> tuple[str, ...]:
    """A candidate's command line; `loaded` are modules to import beside torch."""
    return (*PROGRAM, "--load", ",".join(loaded)) if loaded else PROGRAM


class Started(Protocol):
    """A process that was started, and its three pipes."""

    pid: int
    roots: frozenset[int]  # it, and what its processes are left to when their parents end
    requests: BinaryIO
    answers: BinaryIO
    printed: BinaryIO

    def poll(self) -> int | None:
        """How it ended (negative: the signal), or None while it runs."""

    def wait(self, seconds: float) -> int | None:
        """`poll`, after waiting up to so many seconds for the end."""

    def kill(self) -> None:
        """Kill this process (not its children) and wait for its end."""


class Launcher(Protocol):
    """Starts candidates."""

    @property
    def forks(self) -> bool:
        """Whether another candidate is there at once."""

    def launch(self, folder: Path, environment: Mapping[str, str]) -> Started:
        """Start one that lives in `folder`."""

    def pids(self) -> frozenset[int]:
        """Processes of the launcher itself, which live on when candidates are cleared away."""

    def close(self) -> None:
        """End those."""


def started_quietly(
    command: Sequence[str],
    environment: Mapping[str, str],
    control: int,
    inherited: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """A template, with `control` as its stdin."""
    return subprocess.Popen(
        command,
        stdin=control,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,
        pass_fds=inherited,
    )


class _Direct:
    """A candidate that is our own child."""

    def __init__(
        self,
        command: tuple[str, ...],
        folder: Path,
        env: Mapping[str, str],
        inherited: tuple[int, ...] = (),
    ) -> None:
        seccomp.fresh_keyring()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(env),
            start_new_session=True,
            pass_fds=inherited,
        )
        self.pid = self.process.pid
        self.roots = frozenset({self.pid})
        self.requests = _pipe(self.process.stdin)
        self.answers = _pipe(self.process.stdout)
        self.printed = _pipe(self.process.stderr)

    def poll(self) -> int | None:
        return self.process.poll()

    def wait(self, seconds: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def _pipe(pipe: IO[bytes] | None) -> BinaryIO:
    assert isinstance(pipe, io.BufferedIOBase)
    return cast(BinaryIO, pipe)


class DirectLauncher:
    """Starts each candidate as a fresh interpreter."""

    @property
    def forks(self) -> bool:
        return False

    def __init__(self, loaded: tuple[str, ...] = ()) -> None:
        self.command = candidate_command(loaded)

    def launch(self, folder: Path, environment: Mapping[str, str]) -> Started:
        return _Direct(self.command, folder, environment)

    def pids(self) -> frozenset[int]:
        return frozenset()

    def close(self) -> None:
        return


class SandboxLauncher:
    """Starts each candidate as a fresh interpreter in a sandbox of its own."""

    @property
    def forks(self) -> bool:
        return False

    def __init__(
        self, masked: tuple[str, ...], *, cuda: bool, loaded: tuple[str, ...] = ()
    ) -> None:
        self.masked, self.cuda = masked, cuda
        self.command = candidate_command(loaded)
        self.masks = bubblewrap.mask_folder()

    def launch(self, folder: Path, environment: Mapping[str, str]) -> Started:
        with seccomp.opened() as calls:
            command = bubblewrap.sandboxed(
                self.command,
                environment,
                masked=self.masked,
                masks=self.masks,
                cuda=self.cuda,
                calls=calls,
            )
            return _Direct(tuple(command), folder, environment, (calls,) if calls else ())

    def pids(self) -> frozenset[int]:
        return frozenset()

    def close(self) -> None:
        shutil.rmtree(self.masks, ignore_errors=True)


class _Forked:
    """A candidate that is the template's child; the template tells how it ended."""

    def __init__(
        self, template: TemplateLauncher, pid: int, sandbox: int | None, ends: tuple[int, int, int]
    ) -> None:
        self.template, self.pid = template, pid
        self.roots = frozenset({pid} if sandbox is None else {pid, sandbox})
        self.requests: BinaryIO = os.fdopen(ends[0], "wb")
        self.answers: BinaryIO = os.fdopen(ends[1], "rb")
        self.printed: BinaryIO = os.fdopen(ends[2], "rb")

    def poll(self) -> int | None:
        return self.template.ending_of(self.pid, 0.0)

    def wait(self, seconds: float) -> int | None:
        return self.template.ending_of(self.pid, seconds)

    def kill(self) -> None:
        if self.poll() is not None:
            return  # the template has waited for it: its number may be another's by now
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        self.template.ending_of(self.pid, 2.0)


class TemplateLauncher:
    """Keeps a template process and has it fork candidates, where `template_lacks` nothing."""

    @property
    def forks(self) -> bool:
        return True

    def __init__(self, environment: Mapping[str, str], loaded: tuple[str, ...] = ()) -> None:
        self.environment, self.fork_seconds = dict(environment), FORK_SECONDS
        self.command = (*candidate_command(loaded), "--template")
        self.endings: dict[int, int] = {}
        self.forked: set[int] = set()
        self._start()

    def _start(self) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.answered = False
        with theirs:
            self.process = self._process(theirs.fileno())

    def _process(self, control: int) -> subprocess.Popen[bytes]:
        return started_quietly(self.command, self.environment, control)

    def _order(self, folder: Path, environment: Mapping[str, str]) -> dict[str, object]:
        return {"folder": str(folder), "environment": dict(environment)}

    def launch(self, folder: Path, environment: Mapping[str, str]) -> Started:
        order = json.dumps(self._order(folder, environment)).encode()
        if self.process.poll() is None:
            self._wake()
            try:
                return self._ordered(order)
            except RefusedError:
                raise
            except OSError:  # a submission of this user can have stopped it
                pass
        self._end()
        for pid in self.forked - self.endings.keys():
            self.endings[pid] = -signal.SIGKILL  # they die with their template
        self._start()
        return self._ordered(order)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.process.pid, signal.SIGCONT)

    def _ordered(self, order: bytes) -> Started:
        request_end, to_requests = os.pipe()
        from_answers, answer_end = os.pipe()
        from_printed, printed_end = os.pipe()
        theirs, ours = (
            (request_end, answer_end, printed_end),
            (to_requests, from_answers, from_printed),
        )
        try:
            socket.send_fds(self.control, [order], theirs)
            pid, sandbox = self._forked()
            self.endings.pop(pid, None)  # of an earlier process with this number
            self.forked.add(pid)
        except BaseException:
            for end in ours:
                os.close(end)
            raise
        finally:
            for end in theirs:
                os.close(end)
        return _Forked(self, pid, sandbox, ours)

    def _forked(self) -> tuple[int, int | None]:
        deadline = time.monotonic() + (self.fork_seconds if self.answered else TEMPLATE_SECONDS)
        while (said := self._said(deadline - time.monotonic())) is not None:
            if "forked" in said:
                self.answered = True
                return said["forked"], said["sandbox"]
            if "refused" in said:
                raise RefusedError(said["refused"])
            self._note(said)
        raise OSError("the candidates' template did not answer")

    def _note(self, said: dict[str, Any]) -> None:
        if "ended" in said:
            self.endings[said["ended"]] = said["status"]

    def _said(self, seconds: float) -> dict[str, Any] | None:
        ready, _, _ = select.select([self.control], [], [], max(seconds, 0.0))
        if not ready:
            return None
        try:
            message = self.control.recv(4096)
        except OSError:
            return None
        said: dict[str, Any] | None = json.loads(message) if message else None
        return said

    def ending_of(self, pid: int, seconds: float) -> int | None:
        """How the candidate `pid` ended, waiting up to so many seconds for the word of it."""
        deadline = time.monotonic() + seconds
        while pid not in self.endings:
            said = self._said(deadline - time.monotonic())
            if said is None:
                break
            self._note(said)
        return self.endings.get(pid)

    def pids(self) -> frozenset[int]:
        return frozenset({self.process.pid})

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        self.control.close()
        self.process.kill()
        self.process.wait()
