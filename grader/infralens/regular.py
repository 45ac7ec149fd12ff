"""Regular files, read and written: nothing waits at a pipe, or follows a link out."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path


class NotRegularError(OSError):
    """It is no regular file, or too large; `strerror` says which."""


def read_regular(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """The bytes of a regular file of at most so many; a link only where one may be followed."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow:
        _refuse_link(path)
        flags |= getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "it is no regular file", str(path))
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise NotRegularError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", str(path))
    return data


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all. A text is written as UTF-8, its line ends as they are.

    What stands there is replaced if it is a regular file; a link is not followed.
    """
    _refuse_link(path)
    if os.path.lexists(path) and not path.is_file() and not path.is_dir():
        raise NotRegularError(errno.EINVAL, "what stands there is no regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_bytes(content))
            file.flush()
            os.fsync(file.fileno())
        if os.name == "posix":
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def write_below(root: Path, path: Path, content: str | bytes) -> None:
    """`write_whole` in a folder that others may have prepared: below `root` no link is followed."""
    refuse_links(root, path)
    write_whole(path, content)


def write_new(root: Path, path: Path, content: bytes) -> bool:
    """Write a file below `root` where none is, not even a link. Says whether it was written."""
    if os.path.lexists(path):
        return False
    refuse_links(root, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:  # a full disk: half a file would be taken for a whole one
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return True


def write_out(path: Path, content: str | bytes) -> None:
    """Write where the user said. A link is followed; a device or a pipe is written to, and stays.

    Folders are not made, and a pipe that nobody reads is an error at once.
    """
    target = real(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {target.parent}", str(path))
    if not path.exists() or target.is_file():
        write_whole(target, content)
        return
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(_bytes(content))


def real(path: Path) -> Path:
    """The path behind every link. In a ring of links it is a link still."""
    return Path(os.path.realpath(path))


def refuse_links(root: Path, path: Path) -> None:
    """OSError when something on the way from `root` (which may be one) to `path` is a link."""
    here = root
    for part in path.relative_to(root).parts:
        here = here / part
        _refuse_link(here)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise NotRegularError(errno.ELOOP, f"{path.name} is a symbolic link", str(path))


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content
