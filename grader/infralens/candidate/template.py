"""A process with torch loaded, of which candidates are forked. It runs no submission itself."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from typing import NoReturn

from infralens.candidate import limits


def serve_forks() -> None:
    """Fork a candidate for each order on fd 0 until the examiner closes it; report every ending.

    Returns only in a forked candidate, whose stdin, stdout and stderr are then its channel.
    """
    control = socket.socket(fileno=os.dup(0))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_endings(control)
        if control.fileno() in ready:
            order, ends, _, _ = socket.recv_fds(control, 65536, 3)
            if not order:
                _leave()
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (woken, wake):
                    os.close(descriptor)
                control.close()
                _settle(json.loads(order), ends)
                return
            for end in ends:
                os.close(end)
            control.send(json.dumps({"forked": pid}).encode())


def _settle(order: dict[str, object], ends: list[int]) -> None:
    """Become a candidate: a session, a folder, an environment and pipes of its own."""
    os.setsid()
    for target, end in enumerate(ends):
        os.dup2(end, target)
    for end in ends:
        if end > 2:
            os.close(end)
    os.environ.clear()
    environment = order["environment"]
    assert isinstance(environment, dict)
    os.environ.update(environment)
    os.chdir(str(order["folder"]))
    limits.die_with_the_examiner()
    limits.fresh_keyring()


def _report_endings(control: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            ended = {"ended": pid, "status": os.waitstatus_to_exitcode(status)}
            control.send(json.dumps(ended).encode())


def _leave() -> NoReturn:
    os._exit(0)
