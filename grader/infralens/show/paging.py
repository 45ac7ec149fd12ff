"""The pager that a person reads in: whether it shows styles, and how it is asked to."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STYLED = ("less", "most", "bat", "cat", "moar")
DEFAULT = "FRX"  # leave when all fits, styles through, the screen stays: as git asks it


@contextmanager
def letting_styles_through() -> Iterator[bool]:
    """Whether the pager shows styles as styles and not as ESC[1m; `less` is asked to."""
    program = os.environ.get("MANPAGER") or os.environ.get("PAGER") or _found()
    words = _words(program)
    name = Path(words[0]).name if words else ""
    if name != "less":
        yield name in STYLED
        return
    before = os.environ.get("LESS")
    if before is None:
        os.environ["LESS"] = DEFAULT
    elif "R" not in before.upper():
        os.environ["LESS"] = f"{before} -R"
    try:
        yield True
    finally:
        if before is None:
            del os.environ["LESS"]
        else:
            os.environ["LESS"] = before


def _found() -> str:
    """The one that is taken where none is named (as pydoc does)."""
    return "less" if shutil.which("less") else "more"


def _words(program: str) -> list[str]:
    try:
        return shlex.split(program)
    except ValueError:
        return program.split()
