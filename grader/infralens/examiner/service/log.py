"""Where that goes which an examiner prints: nowhere, unless INFRALENS_LOG names a file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

VARIABLE = "INFRALENS_LOG"
HERE = "-"  # our own stderr
OnPrint = Callable[[str], None]


def as_wished(text: str) -> None:
    """Append the text to the file that INFRALENS_LOG names; `-` is our own stderr."""
    wished = os.environ.get(VARIABLE, "")
    if wished == HERE:
        sys.stderr.write(text)
        sys.stderr.flush()
    elif wished:
        with contextlib.suppress(OSError), opened(Path(wished)) as file:
            file.write(text)


def opened(path: Path) -> TextIO:
    """The file to append to. A pipe that nobody reads, or no longer, is an OSError at once."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
    return os.fdopen(os.open(path, flags, 0o666), "a", encoding="utf-8")


def shown(printed: bytes) -> str:
    """The text with everything that could steer a terminal as an escape, ended by a line break."""
    text = printed.decode("utf-8", "replace")
    plain = (c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    return "".join(plain).rstrip("\n") + "\n"
