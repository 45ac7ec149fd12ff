"""What the kernel refuses a sandboxed submission: a filter of system calls, made here.

Bubblewrap hands the program, a few instructions of classic BPF, to the kernel. A refused call fails
with EPERM, as it would for somebody who may not. Linux on x86_64 and aarch64; elsewhere there is no
filter.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator

EPERM, ENOSYS = 1, 38
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | EPERM, 0x80000000
ABSENT = 0x00050000 | ENOSYS  # as on an older kernel: a C library then does without
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # ld [k], jeq #k, jge #k, ret #k
ANY_OF = 0x45  # jset #k
NUMBER_AT, MACHINE_AT, FIRST_AT = 0, 4, 16  # in struct seccomp_data
CLONE, CLONE3 = {"x86_64": 56, "aarch64": 220}, 435
NAMESPACES = 0x7E020000  # the flags of clone that make some: as `unshare` does
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
JOIN_SESSION_KEYRING = 1
X32_BIT = 0x40000000  # another set of numbers for the same calls of x86_64
REFUSED: dict[str, tuple[int, int]] = {  # on x86_64 and on aarch64
    "add_key": (248, 217),  # messages that outlive the grade
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),  # calls that no filter sees
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "memfd_create": (319, 279),  # memory that no process is seen to hold
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "sendmsg": (46, 211),  # descriptors sent on their way, which no process is seen to hold
    "sendmmsg": (307, 269),
    "vmsplice": (278, 75),  # pages that stay in a pipe when they are given back
}


def refused() -> tuple[str, ...]:
    """The calls that are refused here; none where there is no filter."""
    return (*REFUSED, "clone with namespaces") if _machine() is not None else ()


@contextlib.contextmanager
def opened() -> Iterator[int | None]:
    """A descriptor that the filter is read from; None where there is none."""
    written = program()
    if written is None:
        yield None
        return
    reading, writing = os.pipe()
    try:
        os.write(writing, written)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def fresh_keyring() -> None:
    """Give this thread, and what it starts, a session keyring that nobody else has."""
    machine = _machine()
    if machine is not None:
        number = REFUSED["keyctl"][list(MACHINES).index(machine)]
        ctypes.CDLL(None).syscall(number, JOIN_SESSION_KEYRING, None)


def numbers() -> list[int]:
    """The numbers of those calls."""
    machine = _machine()
    if machine is None:
        return []
    return [pair[list(MACHINES).index(machine)] for pair in REFUSED.values()]


def program() -> bytes | None:
    """The filter for this machine, as bubblewrap reads it; None where there is none."""
    machine = _machine()
    return None if machine is None else assembled(machine)


def assembled(machine: str) -> bytes:
    """The filter for `machine`: another set of calls is killed, those of the list are refused.

    So is a process with a namespace of its own: in there it would be root.
    """
    numbers = [pair[list(MACHINES).index(machine)] for pair in REFUSED.values()]
    lines = [(LOAD, 0, 0, MACHINE_AT), (EQUAL, 1, 0, MACHINES[machine]), (RETURN, 0, 0, KILL)]
    lines.append((LOAD, 0, 0, NUMBER_AT))
    if machine == "x86_64":
        lines += [(AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, KILL)]
    for number in numbers:
        lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    lines += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ABSENT)]  # its flags are out of sight
    lines += [(EQUAL, 0, 3, CLONE[machine]), (LOAD, 0, 0, FIRST_AT)]
    lines += [(ANY_OF, 0, 1, NAMESPACES), (RETURN, 0, 0, REFUSE)]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _machine() -> str | None:
    name = platform.machine()
    return name if sys.platform == "linux" and name in MACHINES else None
