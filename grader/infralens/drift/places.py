"""Where a release lies, and what it says there: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infralens.labs import PACKAGE, Lab

DONE = "done: "  # begins the line that tells of a lab; what suites print has lines of its own


class NoReleaseError(ValueError):
    """There is no release at that place, or the kit cannot be run with it; the text says why."""


@dataclass(frozen=True)
class Place:
    """An interpreter, and a folder whose packages go before its own."""

    python: str
    folder: Path | None = None


def place_at(path: Path) -> Place:
    """A folder that `pip install --target` made, or an interpreter. NoReleaseError for others."""
    if path.is_dir():
        if not (path / "diffusers" / "__init__.py").is_file():
            raise NoReleaseError(
                f"{path} holds no diffusers. `pip install --no-deps --target {path} "
                "diffusers==0.41.0` makes such a folder."
            )
        return Place(sys.executable, path.resolve())
    if not os.access(path, os.X_OK):
        raise NoReleaseError(f"{path} is neither a folder nor an interpreter that can be started.")
    return Place(str(path.absolute()))  # a link of a virtual environment stays one


def record_at(
    place: Place, labs: Sequence[Lab], seed: int, out: Path, on_lab: Callable[[str], None]
) -> None:
    """Have what the library says in these labs written to `out`; `on_lab` hears of each one."""
    paths = [str(place.folder)] if place.folder else []
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    environment["PYTHONPATH"] = os.pathsep.join([*paths, str(PACKAGE.parent)])
    names = [lab.id for lab in labs]
    command = [place.python, "-P", "-m", "infralens.drift.recording", str(seed), str(out), *names]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as complaints,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=complaints, encoding="utf-8", env=environment
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(DONE):
                on_lab(line.removeprefix(DONE).strip())
        if process.wait():
            complaints.seek(0)
            last = (complaints.read().strip().splitlines() or ["it gave no reason"])[-1]
            where = place.folder or place.python
            raise NoReleaseError(f"The labs cannot be run with the release at {where}: {last}")
