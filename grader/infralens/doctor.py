"""What is installed, which device there is, which isolation is active."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from infralens.examiner.isolation.bubblewrap import unavailable

TESTED = {
    "torch": "2.13.0",
    "diffusers": "0.42.1",
    "transformers": "5.24.0",
    "numpy": "2.4.6",
    "pytest": "9.2.0",
    "safetensors": "0.8.0",
}
PROBE = (
    "import json, torch; "
    "print(json.dumps([torch.cuda.is_available(), "
    "torch.cuda.get_device_name() if torch.cuda.is_available() else '']))"
)


INTERPRETER = "interpreter"


@dataclass(frozen=True)
class Finding:
    """One line of `infralens doctor`."""

    name: str
    value: str
    good: bool
    advice: str = ""
    listed: tuple[str, ...] = ()  # more than a line's worth of names


def installed(package: str) -> Finding:
    """A package's version beside the tested one."""
    tested = TESTED[package]
    try:
        found = version(package)
    except PackageNotFoundError:
        advice = f"install it: pip install '{package}=={tested}'"
        return Finding(package, "not installed", False, advice)
    same = Version(found).release[:2] == Version(tested).release[:2]
    return Finding(package, found, True, "" if same else f"tested with {tested}")


def complaints() -> Iterator[tuple[str, bool]]:
    """What stands in the way of grading: a sentence, and whether nothing can be graded at all."""
    for package in ("torch", "diffusers"):
        finding = installed(package)
        if not finding.good:
            yield f"{package} is not installed; {finding.advice}.", True
        elif finding.advice:
            sentence = f"{package} {finding.value} is untested here; this kit was {finding.advice}."
            yield sentence, False


def device() -> Finding:
    """The device that `--device auto` takes. Asks torch in a process of its own."""
    command = [sys.executable, "-P", "-c", PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        advice = f"{sys.executable}: {error.strerror}. Nothing is graded without it"
        return Finding(INTERPRETER, "cannot be started", False, advice)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return Finding("device", "torch does not import", False, last)
    has_cuda, name = json.loads(done.stdout)
    return Finding("device", f"cuda ({name})" if has_cuda else "cpu", True)


def isolation() -> tuple[Finding, ...]:
    """Which level keeps a submission away from its judge; for a sandbox, the proof of it."""
    from infralens.examiner.isolation.launch import template_lacks

    lacks = template_lacks()
    value = "a copy of one that is ready" if lacks is None else "one by one, which takes seconds"
    starts = (Finding("candidates", value, True, lacks or ""), *_system())
    reason = unavailable()
    if reason is not None:
        level = Finding("isolation", "process", True, f"no sandbox: {reason}")
        return (*starts, level)
    from infralens.examiner.isolation.probes import probe_the_sandbox
    from infralens.examiner.isolation.seccomp import refused

    probes = probe_the_sandbox()
    level = Finding("isolation", "sandbox", all(probe.held for probe in probes))
    return (
        *starts,
        level,
        *(
            Finding(
                f"  {probe.name}",
                "holds" if probe.held else "DOES NOT HOLD",
                probe.held,
                probe.reason,
            )
            for probe in probes
        ),
        Finding(
            "  refused calls",
            f"{len(refused())} system calls" if refused() else "none here",
            bool(refused()),
            listed=refused(),
        ),
    )


def _system() -> tuple[Finding, ...]:
    """What grading rests on that a system may lack: processes in view, memory out of view."""
    from infralens.examiner.isolation.system import exposed, unwatchable

    unseen, open_ = unwatchable(), exposed()
    watched = "in view" if unseen is None else "out of view: nothing can be graded"
    memory = "kept from your other processes" if open_ is None else "open to your other processes"
    return (
        Finding("processes", watched, unseen is None, unseen or ""),
        Finding("judges' memory", memory, True, open_ or ""),
    )


def examine() -> tuple[Finding, ...]:
    """All findings, in the order they are shown."""
    good_python = sys.version_info >= (3, 11)
    python = Finding("python", platform.python_version(), good_python)
    packages = tuple(installed(package) for package in TESTED)
    found = (python, *packages)
    if packages[0].value == "not installed":
        return found
    asked = device()
    return (*found, asked) if asked.name == INTERPRETER else (*found, asked, *isolation())
