"""A process with torch loaded, of which candidates are forked. It runs no submission itself."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from infralens.candidate import limits
from infralens.candidate.entering import Sandbox

MESSAGE_BYTES = 65536


def try_a_sandbox() -> None:
    """Before torch is loaded: enter a sandbox as the first order says, and say whether it went.

    If not, that is all.
    """
    limits.adopt_orphans()
    with socket.socket(fileno=os.dup(0)) as control:
        message = control.recv(MESSAGE_BYTES)
        if not message:
            _leave()
        try:
            pid, sandbox = _forked(json.loads(message))
            if pid == 0:
                _come_to_be(sandbox, lambda: None)
                _leave()
            _wait_for(pid, sandbox)
            os.waitpid(pid, 0)
        except OSError as error:
            control.send(json.dumps({"refused": str(error)}).encode())
            _leave()
        if sandbox is not None:
            sandbox.close()
        control.send(json.dumps({"tried": True}).encode())


def serve_forks() -> None:
    """Fork a candidate for each order on fd 0 until the examiner closes it; report every ending.

    Returns only in a forked candidate, whose stdin, stdout and stderr are then its channel.
    """
    control = socket.socket(fileno=os.dup(0))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    candidates: dict[int, Sandbox | None] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_endings(control, candidates)
        if control.fileno() in ready:
            message, ends, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 3)
            if not message:
                _leave()
            order = json.loads(message)
            answer: dict[str, object]
            try:
                pid, sandbox = _forked(order)
                if pid:
                    _wait_for(pid, sandbox)
            except OSError as error:
                answer = {"refused": str(error)}
            else:
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for descriptor in (woken, wake):
                        os.close(descriptor)
                    control.close()
                    _come_to_be(sandbox, partial(_settle, order, ends))
                    return
                candidates[pid] = sandbox
                answer = {"forked": pid, "sandbox": sandbox.pid if sandbox else None}
            for end in ends:
                os.close(end)
            control.send(json.dumps(answer).encode())


def _forked(order: dict[str, Any]) -> tuple[int, Sandbox | None]:
    """The new process, and the sandbox that it is to be in. 0: this is the new process."""
    if "walls" not in order:
        return os.fork(), None
    sandbox = Sandbox(order["walls"])
    try:
        return sandbox.fork(), sandbox
    except OSError:
        sandbox.close()
        raise


def _wait_for(pid: int, sandbox: Sandbox | None) -> None:
    """Return when the new process is what it is to be. OSError: it has ended instead."""
    if sandbox is None:
        return
    try:
        sandbox.begun()
    except OSError:
        sandbox.close()
        os.waitpid(pid, 0)
        raise


def _come_to_be(sandbox: Sandbox | None, settle: Callable[[], None]) -> None:
    """In the new process: go in, where there is a sandbox, and settle there."""
    if sandbox is None:
        settle()
        return
    try:
        sandbox.enter()
        settle()
        sandbox.begin()
    except BaseException as error:  # whatever it is, no submission comes here
        sandbox.refuse(error)


def _settle(order: dict[str, Any], ends: list[int]) -> None:
    """Become a candidate: a session, a folder, an environment and pipes of its own."""
    os.setsid()
    for target, end in enumerate(ends):
        os.dup2(end, target)
    for end in ends:
        if end > 2:
            os.close(end)
    if order["environment"] is not None:
        os.environ.clear()
        os.environ.update(order["environment"])
    os.chdir(order["folder"])
    limits.die_with_the_examiner()
    limits.fresh_keyring()


def _report_endings(control: socket.socket, candidates: dict[int, Sandbox | None]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            for sandbox in filter(None, candidates.values()):
                sandbox.heard_of(pid)
            if pid not in candidates:
                continue
            ended_in = candidates.pop(pid)
            if ended_in is not None:
                ended_in.close()
            ended = {"ended": pid, "status": os.waitstatus_to_exitcode(status)}
            control.send(json.dumps(ended).encode())


def _leave() -> NoReturn:
    os._exit(0)
