"""`infralens release gradescope`: the zip that Gradescope makes an autograder of.

It holds the kit itself, with the suite and the solution of one lab; nothing of it is for learners.
"""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from infralens.course.record import Tells
from infralens.course.repository import pins
from infralens.labs import PACKAGE, Lab, own_place

Visibility = Literal["visible", "after_due_date", "after_published", "hidden"]
VISIBILITIES: tuple[Visibility, ...] = get_args(Visibility)
TEMPLATES = PACKAGE / "course" / "templates" / "gradescope"
SCRIPTS = ("setup.sh", "run_autograder")
CONFIGURATION = "infralens.json"
LEFT_OUT = ("exercises", "solutions", "suites")  # these hold all labs; one is put there instead
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same release is the same bytes


@dataclass(frozen=True)
class Configuration:
    """What the autograder is told: its lab, how much it tells, when learners see it."""

    lab: str
    tells: Tells
    visibility: Visibility


def autograder(lab: Lab, configuration: Configuration) -> bytes:
    """The zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(_files(lab, configuration)):
            entry = zipfile.ZipInfo(name, EPOCH)
            mode = 0o755 if name in SCRIPTS else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _files(lab: Lab, configuration: Configuration) -> Iterator[tuple[str, bytes]]:
    for name in SCRIPTS:
        yield name, (TEMPLATES / name).read_bytes()
    yield CONFIGURATION, json.dumps(asdict(configuration), indent=1).encode()
    yield "requirements.txt", "".join(f"{pin}\n" for pin in pins()).encode()
    own = lab.place == own_place()
    for part in PACKAGE.iterdir():
        if part.name not in LEFT_OUT:
            yield from _all_of(part, f"kit/infralens/{part.name}")
    for path in (PACKAGE / "suites").rglob("*.py"):
        inside = path.relative_to(PACKAGE)
        if len(inside.parts) < 4:  # what suites share; a lab's own lies deeper
            yield f"kit/infralens/{inside.as_posix()}", path.read_bytes()
    home = "kit/infralens" if own else "labs"
    yield from _all_of(lab.suite, f"{home}/suites/{lab.track}/{lab.suite.name}")
    yield from _all_of(lab.stub.parent, f"{home}/exercises/{lab.track}/{lab.folder}")
    yield from _all_of(own_place().exercises / "handbook", "kit/infralens/exercises/handbook")
    if lab.solution is not None and lab.solution.is_file():
        yield from _all_of(lab.solution.parent, f"{home}/solutions/{lab.track}/{lab.folder}")


def _all_of(path: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if file.is_file() and "__pycache__" not in inside.parts and file.suffix != ".pyc":
            yield f"{name}/{inside.as_posix()}".removesuffix("/."), file.read_bytes()
