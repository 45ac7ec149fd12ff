"""Proof that the sandbox holds here: three probes that are run in it and must fail to get out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from infralens.examiner.processes import candidate_environment
from infralens.examiner.sandbox import mask_folder, sandboxed
from infralens.labs import PACKAGE

SECONDS = 30
PROBE = """
import json, os, socket, sys
hidden, readonly = json.loads(sys.argv[1])

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

print(json.dumps([holds(network), holds(write), holds(look)]))
"""


@dataclass(frozen=True)
class Probe:
    """One thing that was tried from inside a sandbox, and whether the sandbox held."""

    name: str
    held: bool


def probe_the_sandbox() -> tuple[Probe, ...]:
    """Try to reach the network, to write to the Python installation, to see the suites."""
    hidden = [str(PACKAGE / "suites"), str(PACKAGE / "examiner"), str(Path.home() / ".ssh")]
    question = json.dumps([hidden, sys.prefix])
    masks = mask_folder()
    program = [sys.executable, "-P", "-c", PROBE, question]
    try:
        command = sandboxed(program, candidate_environment(masks), masks=masks)
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        held = json.loads(done.stdout) if done.returncode == 0 else [False] * 3
    finally:
        shutil.rmtree(masks, ignore_errors=True)
    names = ("no network", "read-only system", "suites out of view")
    return tuple(Probe(name, bool(ok)) for name, ok in zip(names, held, strict=True))
