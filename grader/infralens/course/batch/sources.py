"""The files of a class, in a folder or in a zip: listed and read with suspicion, never unpacked."""

from __future__ import annotations

import errno
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from infralens.course.outputs import MOST_BYTES as MOST_OF_A_NOTEBOOK
from infralens.course.outputs import TOO_LARGE
from infralens.examiner.errors import UnreadableError
from infralens.regular import read_regular

MOST_FILES = 200_000
MOST_DEPTH = 12
MOST_BYTES = {".py": 1 << 20, ".ipynb": MOST_OF_A_NOTEBOOK}  # an examiner reads less
ENCRYPTED = 0x1
DAMAGED = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError),
    *(NotImplementedError, RuntimeError, OSError, ValueError),
)


class UnfitSourceError(Exception):
    """Submissions cannot be read from what was named; the text says why."""


class Entry(Protocol):
    """A file of somebody's. `path` is shown, and is the same for the same file the next time."""

    @property
    def path(self) -> str: ...

    def read(self) -> bytes:
        """All of it. UnreadableError where it is a link, too large, or damaged."""


@dataclass(frozen=True)
class Source:
    """The files below one root, whose name is `name`; `left` are places that were not looked at."""

    name: str
    entries: tuple[Entry, ...]
    left: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True)
class FileEntry:
    """A file in a folder."""

    path: str
    file: Path

    def read(self) -> bytes:
        most = _most(self.path)
        try:
            return read_regular(self.file, most, follow=False)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise _too_large(self.path) from None
            raise UnreadableError(f"{self.path} cannot be read: {error.strerror}.") from None


@dataclass(frozen=True)
class ZipEntry:
    """A file in a zip, read where it lies: its name never becomes a path of this system."""

    path: str
    archive: zipfile.ZipFile = field(repr=False)
    info: zipfile.ZipInfo = field(repr=False)

    def read(self) -> bytes:
        most = _most(self.path)
        if stat.S_ISLNK(self.info.external_attr >> 16):
            raise UnreadableError(f"{self.path} is a symbolic link in the zip.")
        if self.info.flag_bits & ENCRYPTED:
            raise UnreadableError(f"{self.path} is encrypted.")
        try:
            with self.archive.open(self.info) as file:  # whatever size it says it has
                data = file.read(most + 1)
        except DAMAGED as error:
            raise UnreadableError(f"{self.path} is damaged in the zip: {error}.") from None
        if len(data) > most:
            raise _too_large(self.path)
        return data


def _most(path: str) -> int:
    return MOST_BYTES.get(PurePosixPath(path).suffix.lower(), 1 << 20)


def _too_large(path: str) -> UnreadableError:
    is_notebook = PurePosixPath(path).suffix.lower() == ".ipynb"
    reason = TOO_LARGE if is_notebook else f"larger than {_most(path) >> 20} MiB"
    return UnreadableError(f"{path} is {reason}.")


@contextmanager
def source_at(path: Path) -> Iterator[Source]:
    """The files of a folder, a zip, or one file. UnfitSourceError where it is none of them."""
    if path.is_dir():
        yield _folder(path)
    elif path.suffix.lower() == ".zip":
        try:
            archive = zipfile.ZipFile(path)
        except (*DAMAGED, MemoryError) as error:
            raise UnfitSourceError(f"{path} cannot be read as a zip: {error}.") from None
        with archive:
            yield _zip(path.stem, archive)
    elif path.is_file():
        yield Source(path.parent.resolve().name, (FileEntry(path.name, path),))
    else:
        raise UnfitSourceError(f"There is no folder, zip or file {path}.")


def shown_name(name: str) -> str:
    """A file's name as text: bytes that are none are written out, so that names stay apart."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _folder(root: Path) -> Source:
    entries: list[Entry] = []
    left: list[tuple[str, str]] = []

    def unread(error: OSError) -> None:
        left.append((shown_name(str(error.filename)), f"cannot be read: {error.strerror}"))

    for here, folders, files in os.walk(root, onerror=unread):
        inside = Path(here).relative_to(root)
        for name in list(folders):
            told = shown_name((inside / name).as_posix())
            if (Path(here) / name).is_symlink():
                left.append((told, "a symbolic link is not followed"))
                folders.remove(name)
            elif len(inside.parts) >= MOST_DEPTH:
                left.append((told, "too deep"))
                folders.remove(name)
        folders.sort()
        for name in sorted(files):
            entries.append(FileEntry(shown_name((inside / name).as_posix()), Path(here) / name))
        _bound(len(entries))
    return Source(shown_name(root.resolve().name), tuple(entries), tuple(left))


def _zip(name: str, archive: zipfile.ZipFile) -> Source:
    entries: list[Entry] = []
    left: list[tuple[str, str]] = []
    infos = archive.infolist()
    _bound(len(infos))
    for info in infos:
        if info.is_dir():
            continue
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            left.append((info.filename, "its path leads out of the zip"))
        else:
            entries.append(ZipEntry(path.as_posix(), archive, info))
    return Source(shown_name(name), tuple(entries), tuple(left))


def _bound(files: int) -> None:
    if files > MOST_FILES:
        raise UnfitSourceError(f"There are more than {MOST_FILES:,} files: no class is so large.")
