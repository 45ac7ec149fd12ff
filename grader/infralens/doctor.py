"""What is installed, which device there is, which isolation is active."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from infralens import unstable
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.labs import home

PACKAGES = ("torch", "diffusers", "transformers", "numpy", "pytest", "safetensors")
DISTRIBUTION = "infralens-labs"
# In a process of its own: torch is slow to load, and some of its names are no Python.
PROBE = """
import json, pkgutil, sys, torch
def lacks(name):
    owner, _, last = name.rpartition(".")
    try:
        owner = pkgutil.resolve_name(owner)
    except (AttributeError, ImportError):
        return True
    return not hasattr(owner, last) and last not in getattr(owner, "__annotations__", ())
cuda = torch.cuda.is_available()
name = torch.cuda.get_device_name() if cuda else ""
print(json.dumps([cuda, name, [name for name in sys.argv[1:] if lacks(name)]]))
"""
INTERPRETER = "interpreter"
NAMES = "private names"


@dataclass(frozen=True)
class Finding:
    """One line of `infralens doctor`."""

    name: str
    value: str
    good: bool
    advice: str = ""
    listed: tuple[str, ...] = ()  # more than a line's worth of names


@lru_cache(maxsize=1)
def tested() -> dict[str, str]:
    """The releases that were tested together, by package, as constraints.txt pins them.

    Empty where the file is not there: what is handed on to grade one lab leaves it out.
    """
    file = home() / "constraints.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    pins = (line.strip().split("==") for line in lines if "==" in line)
    return {name.lower(): release for name, release in pins}


def taken(package: str) -> SpecifierSet | None:
    """The releases that the kit takes, where it says from which to which: those were graded."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # run from files that nobody installed
        return None
    for needed in map(Requirement, lines):
        if needed.name == package and any("<" in one.operator for one in needed.specifier):
            return needed.specifier
    return None


def installed(package: str) -> Finding:
    """A package's version beside the tested one."""
    pinned = tested().get(package)
    try:
        found = version(package)
    except PackageNotFoundError:
        wanted = package if pinned is None else f"{package}=={pinned}"
        return Finding(package, "not installed", False, f"install it: pip install '{wanted}'")
    return Finding(package, found, True, _untested(package, found, pinned))


def _untested(package: str, found: str, pinned: str | None) -> str:
    """Which release was tested, where the one found is neither of its minor release nor graded."""
    if pinned is None or Version(found).release[:2] == Version(pinned).release[:2]:
        return ""
    graded = taken(package)
    return "" if graded is not None and graded.contains(found) else f"tested with {pinned}"


def complaints() -> Iterator[tuple[str, bool]]:
    """What stands in the way of grading: a sentence, and whether nothing can be graded at all."""
    for package in ("torch", "diffusers"):
        finding = installed(package)
        if not finding.good:
            yield f"{package} is not installed; {finding.advice}.", True
        elif finding.advice:
            sentence = f"{package} {finding.value} is untested here; this kit was {finding.advice}."
            yield sentence, False


def device() -> tuple[Finding, ...]:
    """The device that `--device auto` takes, and names that may have gone.

    Asks torch in a process of its own; the sources of the other libraries are read meanwhile.
    """
    command = [sys.executable, "-P", "-c", PROBE, *unstable.compiled()]
    try:
        asked = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
    except OSError as error:
        advice = f"{sys.executable}: {error.strerror}. Nothing is graded without it"
        return (Finding(INTERPRETER, "cannot be started", False, advice),)
    lacking = [one.name for one in unstable.missing()]
    said, complained = asked.communicate()
    if asked.returncode:
        last = (complained.strip().splitlines() or ["no reason given"])[-1]
        return (Finding("device", "torch does not import", False, last), names(lacking))
    has_cuda, name, gone = json.loads(said)
    found = Finding("device", f"cuda ({name})" if has_cuda else "cpu", True)
    return (found, names([*lacking, *gone]))


def names(lacking: Sequence[str]) -> Finding:
    """What the installed libraries lack of the private names that the suites lean on."""
    reasons = {one.name: one.why for one in unstable.UNSTABLE}
    total = len(unstable.UNSTABLE)
    if not lacking:
        return Finding(NAMES, f"all {total} are there", True)
    listed = tuple(f"{name} ({reasons[name]})" for name in lacking)
    advice = "what needs them cannot be graded; install the tested releases"
    return Finding(NAMES, f"{len(lacking)} of {total} are gone", False, advice, listed)


def isolation() -> tuple[Finding, ...]:
    """Which level keeps a submission away from its judge; for a sandbox, the proof of it."""
    from infralens.examiner.isolation.launch import template_lacks

    starts = (_started("candidates", template_lacks()), *_system())
    reason = unavailable()
    if reason is not None:
        level = Finding("isolation", "process", True, f"no sandbox: {reason}")
        return (*starts, level)
    from infralens.examiner.isolation.entered import entering_lacks
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
        _started("  its candidates", entering_lacks()),
    )


def _started(name: str, lacks: str | None) -> Finding:
    """How candidates are started, where a template of them lacks this."""
    value = "a copy of one that is ready" if lacks is None else "one by one, which takes seconds"
    return Finding(name, value, True, lacks or "")


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
    packages = tuple(installed(package) for package in PACKAGES)
    found = (python, *packages)
    if packages[0].value == "not installed":
        return found
    asked = device()
    return (*found, *asked) if asked[0].name == INTERPRETER else (*found, *asked, *isolation())
