"""The filter of system calls: its instructions, and what a sandbox refuses with it."""

from __future__ import annotations

import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from infralens.candidate.limits import KEYCTL
from infralens.examiner.isolation import seccomp
from infralens.examiner.isolation.launch import DirectLauncher
from infralens.examiner.isolation.probes import probe_the_sandbox

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003}
READ = {"x86_64": 0, "aarch64": 63}


def ruled(program: bytes, machine: str, number: int, first: int = 0) -> int:
    """What a kernel would do with this call, whose first argument is `first`."""
    lines = list(struct.iter_unpack("=HBBI", program))
    data, value, at = {0: number, 4: ARCHITECTURES[machine], 16: first}, 0, 0
    while True:
        code, when, otherwise, operand = lines[at]
        at += 1
        if code == seccomp.RETURN:
            return int(operand)
        if code == seccomp.LOAD:
            value = data[operand]
        else:
            held = {
                seccomp.EQUAL: value == operand,
                seccomp.AT_LEAST: value >= operand,
                seccomp.ANY_OF: bool(value & operand),
            }[code]
            at += when if held else otherwise


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_what_is_listed_is_refused_and_the_rest_is_not(machine: str) -> None:
    program = seccomp.assembled(machine)
    place = list(seccomp.MACHINES).index(machine)
    for name, numbers in seccomp.REFUSED.items():
        assert ruled(program, machine, numbers[place]) == seccomp.REFUSE, name
    assert ruled(program, machine, READ[machine]) == seccomp.ALLOW
    assert ruled(program, "i386", 26) == seccomp.KILL  # its own numbers: ptrace there


SIGCHLD, THREAD = 17, 0x3D0F00  # what fork and pthread_create ask of clone
NEW_USER, NEW_NET = 0x10000000, 0x40000000


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_a_process_has_no_namespace_of_its_own(machine: str) -> None:
    program, clone = seccomp.assembled(machine), seccomp.CLONE[machine]
    for flags in (SIGCHLD, THREAD):
        assert ruled(program, machine, clone, flags) == seccomp.ALLOW
    for flags in (NEW_USER, NEW_NET | SIGCHLD):
        assert ruled(program, machine, clone, flags) == seccomp.REFUSE
    assert ruled(program, machine, seccomp.CLONE3) == seccomp.ABSENT
    assert ruled(program, machine, READ[machine], NEW_USER) == seccomp.ALLOW


FILTERED = """
import ctypes, os, platform, subprocess, threading
from infralens.candidate.limits import refuse_calls
from infralens.examiner.isolation import seccomp

refuse_calls(seccomp.program())
libc = ctypes.CDLL(None, use_errno=True)
clone = seccomp.CLONE[platform.machine()]
made = libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0)
if made == 0:
    os._exit(0)
said = [made, ctypes.get_errno()]
thread = threading.Thread(target=said.append, args=("thread",))
thread.start()
thread.join()
said.append(subprocess.run(["true"]).returncode)
forked = os.fork()
if forked == 0:
    os._exit(0)
said.append(os.waitpid(forked, 0)[1])
print(said)
"""


@pytest.mark.skipif(seccomp.program() is None, reason="no such calls here")
def test_threads_and_processes_begin_under_the_filter_and_namespaces_do_not() -> None:
    told = subprocess.check_output([sys.executable, "-c", FILTERED], text=True)
    assert told.strip() == "[-1, 1, 'thread', 0, 0]"


KEYS = {"add_key", "request_key", "keyctl"}
RINGS = {"io_uring_setup", "io_uring_enter", "io_uring_register"}
TRACING = {"ptrace", "bpf", "perf_event_open", "userfaultfd", "process_vm_readv"}
MOUNTS = {"mount", "umount2", "move_mount", "open_tree", "fsopen", "fsmount", "unshare", "setns"}
MEMORY = {"memfd_create", "memfd_secret", "shmget", "semget", "msgget", "sendmsg", "vmsplice"}


def test_what_a_lab_has_no_use_for_is_listed() -> None:
    assert seccomp.REFUSED.keys() >= KEYS | RINGS | TRACING | MOUNTS | MEMORY


def test_another_set_of_numbers_is_no_way_round() -> None:
    program = seccomp.assembled("x86_64")
    ptrace = seccomp.REFUSED["ptrace"][0]
    assert ruled(program, "x86_64", ptrace | seccomp.X32_BIT) == seccomp.KILL


@pytest.mark.sandbox
def test_a_sandbox_holds_and_refuses_each_call() -> None:
    probes = probe_the_sandbox()
    assert [probe.name for probe in probes if not probe.held] == []
    assert "calls refused" in {probe.name for probe in probes}


KEYRINGS = """
import ctypes
from infralens.candidate.limits import KEYCTL, fresh_keyring as ours
from infralens.examiner.isolation.seccomp import fresh_keyring
import platform

def session():
    return ctypes.CDLL(None).syscall(KEYCTL[platform.machine()], 0, -3, 0)  # its own, not made

found = [session()]
for fresh in (fresh_keyring, ours):
    fresh()
    found.append(session())
print(len(set(found)))
"""


@pytest.mark.skipif(seccomp.program() is None, reason="no such calls here")
def test_a_candidate_has_a_keyring_of_its_own() -> None:
    told = subprocess.check_output([sys.executable, "-c", KEYRINGS], text=True)
    assert told.strip() == "3"


SESSION = """
import ctypes, sys
print(ctypes.CDLL(None).syscall(int(sys.argv[1]), 0, -3, 0), flush=True)
"""


@pytest.mark.skipif(seccomp.program() is None, reason="no such calls here")
def test_each_candidate_is_started_with_another_keyring(tmp_path: Path) -> None:
    launcher, number = DirectLauncher(), KEYCTL[platform.machine()]
    launcher.command = (sys.executable, "-S", "-c", SESSION, str(number))
    started = [launcher.launch(tmp_path, {}) for _ in range(2)]
    told = {candidate.answers.readline() for candidate in started}
    assert [candidate.wait(10.0) for candidate in started] == [0, 0]
    assert len(told) == 2
