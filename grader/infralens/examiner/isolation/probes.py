"""Proof that the sandbox holds here: probes that are run in it and must fail to get out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from infralens.examiner.isolation import seccomp
from infralens.examiner.isolation.bubblewrap import mask_folder, sandboxed
from infralens.examiner.isolation.process import candidate_environment
from infralens.labs import PACKAGE

SECONDS = 90  # to import torch too
NAMES = ("no network", "read-only system", "suites out of view", "calls refused")
PROBE = """
import ctypes, json, os, socket, sys
hidden, readonly, calls = json.loads(sys.argv[1])

def holds(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False

def network():
    socket.create_connection(("192.0.2.1", 80), timeout=2)

def write():
    open(os.path.join(readonly, "infralens-probe"), "w")

def look():
    if not any(os.path.exists(path) for path in hidden):
        raise OSError

libc = ctypes.CDLL(None, use_errno=True)
def refused(number):
    return libc.syscall(number, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1  # EPERM

try:
    import infralens.candidate.serving  # all that a candidate is made of, torch with it
    failure = ""
except Exception as error:
    failure = f"{type(error).__name__}: {error}"

print(json.dumps([failure, holds(network), holds(write), holds(look), all(map(refused, calls))]))
"""


@dataclass(frozen=True)
class Probe:
    """One thing that was tried from inside a sandbox, and whether the sandbox held."""

    name: str
    held: bool
    reason: str = ""


def probe_the_sandbox() -> tuple[Probe, ...]:
    """Try to reach the network, write to the Python installation, see the suites, be refused.

    Where no candidate starts that is all there is to tell.
    """
    hidden = [str(PACKAGE / "suites"), str(PACKAGE / "examiner"), str(Path.home() / ".ssh")]
    question = json.dumps([hidden, sys.prefix, seccomp.numbers()])
    masks = mask_folder()
    program = [sys.executable, "-P", "-c", PROBE, question]
    try:
        with seccomp.opened() as calls:
            environment = candidate_environment(masks)
            done = subprocess.run(
                sandboxed(program, environment, masks=masks, calls=calls),
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
                pass_fds=(calls,) if calls else (),
            )
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            return (Probe("a candidate starts", False, said[-1][:300]),)
        failure, *held = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (Probe("a candidate starts", False, str(error)[:300]),)
    finally:
        shutil.rmtree(masks, ignore_errors=True)
    starts = Probe("a candidate starts", not failure, failure[:300])
    return (starts, *(Probe(name, bool(ok)) for name, ok in zip(NAMES, held, strict=True)))
