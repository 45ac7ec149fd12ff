"""Entering a sandbox that bubblewrap has built around a process that does nothing.

A template's fork takes the namespaces of that process, gives up what bubblewrap has its own program
give up, and is then where and what a fresh candidate is; it looks whether that is so before it goes
on. What is in the sandbox ends with the process of bubblewrap's that built it.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
from pathlib import Path
from typing import Any, NoReturn

from infralens.candidate import limits

BUILD_SECONDS = 10.0
NS_GET_USERNS = 0xB701  # who owns a namespace, see ioctl_ns(2)
NEW_PID, NEW_USER = 0x20000000, 0x10000000
ROOM = {  # the namespaces to be entered, and what setns calls them
    "mnt": 0x00020000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
WALLS = {"pid", "mnt", "net", "ipc", "uts"}  # without these it is no sandbox
NONE_HELD = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
GO = b"go"


class Sandbox:
    """One sandbox: built here, entered in a fork, closed when that has ended."""

    def __init__(self, walls: dict[str, Any]) -> None:
        self.user: int | None = walls["user"]
        self.calls = base64.b64decode(walls["calls"]) if walls["calls"] else None
        self.word: socket.socket | None = None
        self.namespaces: dict[str, int] = {}
        limits.fresh_keyring()  # one for each sandbox, which the process inside inherits
        self.pid, inside = _built(walls["command"], self.calls)
        self.stands = True
        try:
            self.namespaces = _namespaces(inside)
            if self.user is None and "user" not in self.namespaces:
                raise OSError("bubblewrap built no user namespace")
        except OSError:
            self.close()
            raise

    def fork(self) -> int:
        """As os.fork; the child is born among the sandbox's processes, and is yet to `enter`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        between = os.fork()  # only a child of who enters a PID namespace is in it
        if between == 0:
            ours.close()
            self.word = theirs
            self._fork_again()
            return 0
        theirs.close()
        ours.settimeout(BUILD_SECONDS)
        self.word = ours
        said = ours.recv(4096).decode()
        os.waitpid(between, 0)  # from here the child is ours
        if not said.isdecimal():
            raise OSError(said)
        ours.send(GO)
        self._let_go()
        return int(said)

    def _fork_again(self) -> None:
        assert self.word is not None
        try:
            _set(self.namespaces["pid"], NEW_PID)
            child = os.fork()
        except OSError as error:
            self.refuse(error)
        if child:
            self.word.send(str(child).encode())
            os._exit(0)
        if self.word.recv(len(GO)) != GO:
            os._exit(1)

    def enter(self) -> None:
        """In the child: be in there, and hold no privilege."""
        for name in ("owner", *ROOM, "user"):  # who owns the room may enter it
            if name in self.namespaces:
                _set(self.namespaces[name], ROOM.get(name, NEW_USER))
        limits.give_up_privileges(self.user)

    def begin(self) -> None:
        """In the child, at last: have calls refused, look around, and tell the template."""
        assert self.word is not None
        _close_all_but(0, 1, 2, self.word.fileno())
        if self.calls is not None:
            limits.refuse_calls(self.calls)
        if (lacking := self._lacking()) is not None:
            raise OSError(f"a candidate in the sandbox {lacking}")
        self.word.send(GO)
        self.word.close()

    def refuse(self, error: BaseException) -> NoReturn:
        """In the child: tell the template why there is no candidate, and end."""
        if self.word is not None:
            self.word.send(f"{type(error).__name__}: {error}".encode()[:4000])
        os._exit(1)

    def begun(self) -> None:
        """Wait for the child to `begin`. OSError: it does not."""
        assert self.word is not None
        said = self.word.recv(4096)
        self.word.close()
        if said != GO:
            raise OSError(said.decode() or "a candidate in the sandbox ended at once")

    def heard_of(self, pid: int) -> None:
        """This process was waited for: its number may be another's from now on."""
        self.stands = self.stands and pid != self.pid

    def close(self) -> None:
        """End all that is in there."""
        self._let_go()
        if self.stands:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.stands = False

    def _let_go(self) -> None:
        for descriptor in self.namespaces.values():
            os.close(descriptor)
        self.namespaces = {}

    def _lacking(self) -> str | None:
        """What this process is that it should not be; None where it is as it should be."""
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        told = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        held = [name for name in NONE_HELD if int(told[name][0], 16)]
        if held:
            return f"holds capabilities ({', '.join(held)})"
        user = str(os.getuid() if self.user is None else self.user)
        if set(told["Uid"]) != {user} or user == "0":
            return "is another user"
        if self.user is not None and (set(told["Gid"]) != {user} or told["Groups"]):
            return "is in other groups"
        if told["NoNewPrivs"] != ["1"]:
            return "may get privileges"
        if self.calls is not None and told["Seccomp"] != ["2"]:
            return "is refused no calls"
        return None


def _built(command: list[str], calls: bytes | None) -> tuple[int, int]:
    """Have bubblewrap build a sandbox: its own process, and the first one inside."""
    told, tell = os.pipe()
    ready, begun = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    opened = [tell, begun, null]
    name, *rest = command
    given = ["--info-fd", str(tell)]
    try:
        if calls is not None:
            reading, writing = os.pipe()
            opened.append(reading)
            os.write(writing, calls)
            os.close(writing)
            os.set_inheritable(reading, True)
            given += ["--seccomp", str(reading)]
        os.set_inheritable(tell, True)
        pid = os.posix_spawnp(
            name,
            [name, *given, *rest],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, at, to) for to, at in enumerate((null, begun, begun))
            ],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT],
        )
    finally:
        for descriptor in opened:
            os.close(descriptor)
    try:
        said = b""
        while b"\n" not in said and select.select([ready], [], [], BUILD_SECONDS)[0]:
            piece = os.read(ready, 4096)
            if not piece:
                break
            said += piece
        if said != b"\n":  # the word of the process inside; all else is bubblewrap's complaint
            raise OSError(said.decode(errors="replace").strip() or "bubblewrap builds no sandbox")
        with os.fdopen(told, "rb", closefd=False) as information:
            return pid, int(json.loads(information.read())["child-pid"])
    except (OSError, ValueError, KeyError) as error:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise OSError(str(error)) from None
    finally:
        os.close(told)
        os.close(ready)


def _namespaces(pid: int) -> dict[str, int]:
    """The namespaces of `pid` that are not ours, opened; `owner` is who owns them, if another."""
    found: dict[str, int] = {}
    ours = Path("/proc/self/ns")
    for name in ("pid", "user", *ROOM):
        path = Path(f"/proc/{pid}/ns/{name}")
        if path.stat().st_ino != (ours / name).stat().st_ino:
            found[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if missing := WALLS - found.keys():
        raise OSError(f"bubblewrap built no namespaces of these kinds: {sorted(missing)}")
    owner = fcntl.ioctl(found["mnt"], NS_GET_USERNS)
    if os.fstat(owner).st_ino == (ours / "user").stat().st_ino:
        os.close(owner)
    else:
        found["owner"] = owner
    return found


def _close_all_but(*kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # names are all that is wanted
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the one that this list was read from
                os.close(int(name))


def _set(descriptor: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, kind):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
