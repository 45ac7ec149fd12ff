"""What files hold inside: archives, compressed streams, git's objects and packs.

Everything is told by its first bytes, whatever it is called, and unpacked in memory within a
bound: what is handed out is small, and what is handed in may be a trap.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from infralens.revisions import RevisionError, objects_in

MIB = 2**20
MOST_PART = 64 * MIB  # of one part, unpacked
MOST_BYTES = 1024 * MIB  # of all of them
MOST_PARTS = 200_000
MOST_SECONDS = 600.0
MOST_DEPTH = 8
LZMA_MEMORY = 256 * MIB
UNKNOWN = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "RAR",
    b"\x04\x22\x4d\x18": "LZ4",
}
BUNDLE = re.compile(rb"# v[23] git bundle\n")
LOOSE = re.compile(rb"(blob|tree|commit|tag) \d+\0")
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tarfile.TarError, OSError, EOFError),
    *(ValueError, RuntimeError, NotImplementedError, KeyError, IndexError, RevisionError),
    *(MemoryError, OverflowError, struct.error),
)


class SpentError(Exception):
    """There is more in it than is looked through; the text says how much is."""


class ClosedError(Exception):
    """A part cannot be looked into; the text says why."""


@dataclass
class Budget:
    """What may still be unpacked, in bytes, parts and time."""

    left: int = MOST_BYTES
    parts: int = MOST_PARTS
    end: float = field(default_factory=lambda: time.monotonic() + MOST_SECONDS)

    def take(self, size: int) -> None:
        """Count a part. SpentError when that was too much."""
        self.left -= size
        self.parts -= 1
        if self.left < 0:
            raise SpentError(f"it holds more than {MOST_BYTES // MIB} MiB")
        if self.parts < 0:
            raise SpentError(f"it holds more than {MOST_PARTS:,} parts")
        if time.monotonic() > self.end:
            raise SpentError(f"it takes longer than {MOST_SECONDS:.0f} s to look through")


def parts_of(data: bytes) -> Iterator[tuple[str, bytes | ClosedError]]:
    """The parts of what is an archive or compressed, by name; nothing for what is neither.

    ClosedError as a part is one that cannot be read. What breaks off has a part called "the rest".
    """
    for mark, name in UNKNOWN.items():
        if data.startswith(mark):
            yield "", ClosedError(f"it is compressed with {name}, which is not unpacked")
            return
    if data.startswith(b"%PDF"):
        yield "", ClosedError("it is a PDF, whose pages are not looked through")
        return
    try:
        yield from _parts(data)
    except BROKEN as error:
        yield "the rest", ClosedError(f"it cannot be unpacked: {str(error)[:100]}")


def _parts(data: bytes) -> Iterator[tuple[str, bytes | ClosedError]]:
    if data.startswith(b"\x1f\x8b"):
        yield from _streams(data, lambda: zlib.decompressobj(31))
    elif data.startswith(b"BZh"):
        yield from _streams(data, bz2.BZ2Decompressor)
    elif data.startswith((b"\xfd7zXZ\0", b"\x5d\0\0")):
        yield from _streams(data, lambda: lzma.LZMADecompressor(memlimit=LZMA_MEMORY))
    elif data[:1] == b"\x78" and int.from_bytes(data[:2], "big") % 31 == 0:
        yield from _loose_object(data)
    elif data.startswith(b"PACK"):
        yield from _objects(data)
    elif BUNDLE.match(data):
        yield from _objects(data[data.index(b"\n\nPACK") + 2 :])
    elif data[257:262] == b"ustar":
        yield from _tar(data)
    elif b"PK\x05\x06" in data[-66_000:]:
        yield from _zip(data)


def _zip(data: bytes) -> Iterator[tuple[str, bytes | ClosedError]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            if entry.flag_bits & 1:
                yield entry.filename, ClosedError("it is encrypted")
                continue
            try:
                with archive.open(entry) as file:
                    yield entry.filename, _bounded(file.read(MOST_PART + 1))
            except BROKEN as error:
                yield entry.filename, ClosedError(f"it cannot be unpacked: {str(error)[:100]}")


def _tar(data: bytes) -> Iterator[tuple[str, bytes | ClosedError]]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if member.isreg():
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, _bounded(file.read(MOST_PART + 1))


def _streams(data: bytes, make: object) -> Iterator[tuple[str, bytes | ClosedError]]:
    """One stream after another, as gzip and the like allow."""
    assert callable(make)
    while data:
        stream = make()
        out = stream.decompress(data, MOST_PART + 1)
        yield "unpacked", _bounded(out)
        if not stream.eof and len(out) <= MOST_PART:
            raise EOFError("it breaks off")
        if len(out) > MOST_PART or not stream.unused_data.strip(b"\0"):
            return
        data = stream.unused_data


def _loose_object(data: bytes) -> Iterator[tuple[str, bytes | ClosedError]]:
    stream = zlib.decompressobj()
    try:
        out = stream.decompress(data, MOST_PART + 1)
    except zlib.error:
        return  # its first two bytes are chance: a text may begin with x
    kind = LOOSE.match(out)
    yield (f"git {kind[1].decode()}" if kind else "unpacked"), _bounded(out)


def _objects(data: bytes) -> Iterator[tuple[str, bytes | ClosedError]]:
    for found in objects_in(data, most_bytes=MOST_PART):
        name = f"git {found.kind} {found.number[:10]}"
        yield name, ClosedError("it is too large") if found.content is None else found.content


def _bounded(data: bytes) -> bytes | ClosedError:
    if len(data) <= MOST_PART:
        return data
    return ClosedError(f"it is larger than {MOST_PART // MIB} MiB")
