"""What a verdict rests on besides the submission, as one short name."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from infralens import __version__
from infralens.labs import PACKAGE, Lab

JUDGES = ("torch", "diffusers", "transformers", "peft", "accelerate", "numpy")
SHOWS = ("authoring", "cli", "course", "exercises", "show", "solutions", "suites")
"""Parts of the package that change no verdict, or that are taken in a lab at a time."""


def kit_of(lab: Lab) -> str:
    """The kit that judges this lab: its version, and a digest of every file that has a say.

    Two machines whose names for a lab are the same give the same verdicts.
    """
    solution = lab.solution
    files = _files(lab.suite, *([solution.parent] if solution is not None else []))
    return f"{__version__}+{hashlib.sha256(f'{_judge()} {files}'.encode()).hexdigest()[:12]}"


@lru_cache(maxsize=1)
def _judge() -> str:
    """All that judges every lab. It cannot change while this process runs."""
    inner = [path for path in PACKAGE.iterdir() if path.name not in SHOWS]
    shared = (PACKAGE / "suites").glob("*.py")
    versions = " ".join(f"{name} {_version(name)}" for name in JUDGES)
    return f"{versions} {_files(*inner, *shared)}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _files(*roots: Path) -> str:
    total = hashlib.sha256()
    for root in sorted(roots, key=lambda path: path.name):
        inside = sorted(root.rglob("*")) if root.is_dir() else [root]
        for path in inside:
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(root.parent).as_posix()
                total.update(f"{name}\0".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
