"""Temporary folders: removed whatever was made of them, and however their maker ends.

Whoever is killed cannot tidy up. So each folder holds a file that is locked as long as its maker
lives, which the kernel sees to; what nobody holds any more is removed by the next who comes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PREFIX = "infralens-"
HELD = ".held"
YOUNG_SECONDS = 60.0  # one that is being made is not locked yet


class HeldFolder:
    """A temporary folder of this process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._descriptor = os.open(self.path / HELD, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _locked(self._descriptor)

    def remove(self) -> None:
        """Let it go. A second time does nothing."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1
        remove(self.path)


def sweep(young_seconds: float = YOUNG_SECONDS) -> None:
    """Remove the folders of ours whose makers were killed."""
    if sys.platform == "win32":
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and _left(folder, young_seconds):
                remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder that a submission wrote in, whatever it made of it.

    It may be a link by now, hold folders that nobody may enter, or be deeper than Python recurses.
    """
    if folder.is_symlink() or folder.is_file():
        folder.unlink(missing_ok=True)
    elif folder.is_dir() and sys.platform == "win32":
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.is_dir():
        for command in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], check=False, stderr=subprocess.DEVNULL)
            if not folder.exists():
                return


def _left(folder: Path, young_seconds: float) -> bool:
    descriptor = os.open(folder / HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        old = time.time() - status.st_mtime > young_seconds
        return status.st_uid == os.geteuid() and old and _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whether the file is locked by us now; False where somebody else holds it."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
