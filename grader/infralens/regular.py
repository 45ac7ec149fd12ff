"""Reading what is a regular file and nothing else: no pipe that waits, no device without an end."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class NotRegularError(Exception):
    """It is no regular file, or too large; the text ends the sentence "… is …"."""


def read_regular(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """The bytes of a regular file. A link is followed only where it may be, and never waited on."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError("not a regular file")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise NotRegularError(f"larger than {most_bytes:,} bytes")
    return data
