"""One line of an answer, planted in each kind of place, is found; what learners get is clean."""

from __future__ import annotations

import bz2
import functools
import gzip
import hashlib
import html
import importlib.util
import io
import json
import lzma
import marshal
import os
import shutil
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from infralens.cli import main
from infralens.course import audit, unpacking
from infralens.course.audit import Auditor, Finding
from infralens.course.bytecode import HEADER
from infralens.course.distinctive import LEAST, suite_files
from infralens.labs import find_lab, find_labs

LAB = find_lab("lab-03", find_labs())
AUDITOR = Auditor([LAB])
LINE = 'self.init_noise_sigma = math.hypot(largest, 1.0) if spacing == "leading" else largest'
NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def found(data: bytes, name: str = "handed-out") -> list[Finding]:
    return list(AUDITOR.audit_files({name: data}))


def zipped(data: bytes, name: str = "deep/inner.txt") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


def tarred(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("inner.txt")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def notebook(source: str = "", output: dict[str, object] | None = None) -> bytes:
    outputs = [] if output is None else [{"output_type": "display_data", "data": output}]
    cell = {"cell_type": "code", "source": source.splitlines(True), "outputs": outputs}
    return json.dumps({"nbformat": 4, "cells": [cell]}).encode()


def compiled(source: str) -> bytes:
    code = compile(source, "x", "exec")
    return importlib.util.MAGIC_NUMBER + bytes(HEADER - 4) + marshal.dumps(code)


def coloured(line: str) -> str:
    words = "".join(f'<span class="n">{html.escape(word)}</span> ' for word in line.split())
    return f"<pre>{words}</pre>"


def pack(data: bytes) -> bytes:
    """A git pack of one blob, as `git gc` writes it."""
    size, head = len(data), []
    byte, size = 0x30 | size & 15, size >> 4
    while size:
        head.append(byte | 0x80)
        byte, size = size & 127, size >> 7
    body = b"PACK" + struct.pack(">II", 2, 1) + bytes([*head, byte]) + zlib.compress(data)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def commented(line: str) -> bytes:
    return f"        # {line}  # never hand this out\n".encode()


PLACES: dict[str, Callable[[str], bytes]] = {
    "a text": lambda line: f"as you see:\n    {line}\n".encode(),
    "a comment": commented,
    "a long line": lambda line: f"x = 1; y = 2; {line}; z = 3".encode(),
    "other white space": lambda line: line.replace(" ", "\t\n\xa0 ").encode(),
    "UTF-16": lambda line: f"σ − {line}".encode("utf-16"),
    "UTF-16 without a mark": lambda line: line.encode("utf-16-be"),
    "UTF-32": lambda line: line.encode("utf-32"),
    "Latin-1": lambda line: f"für {line}".encode("latin-1"),
    "a binary file": lambda line: os.urandom(500) + line.encode() + os.urandom(500),
    "the source of a notebook": lambda line: notebook(f"# mine\n{line}\n"),
    "the text output of a notebook": lambda line: notebook(output={"text/plain": [line]}),
    "the HTML output of a notebook": lambda line: notebook(output={"text/html": coloured(line)}),
    "the coloured traceback of a notebook": lambda line: notebook(
        output={"traceback": ["".join(f"\x1b[38;5;28m{c}\x1b[0m" for c in line)]}
    ),
    "a notebook in a string": lambda line: json.dumps(notebook(line).decode()).encode(),
    "a page": lambda line: f"<html><body>{coloured(line)}</body></html>".encode(),
    "a page with a number that is no letter": lambda line: (
        f"&#{'9' * 5000};{coloured(line)}".encode()
    ),
    "a zip": lambda line: zipped(line.encode()),
    "a name in a zip": lambda line: zipped(b"", name=f"{line}.txt"),
    "a wheel of bytecode": lambda line: zipped(compiled(f"def f(sample):\n    {line}\n"), "m.pyc"),
    "a tar.gz": lambda line: gzip.compress(tarred(line.encode())),
    "the second stream of a gz": lambda line: gzip.compress(b"x") + gzip.compress(line.encode()),
    "a bz2": lambda line: bz2.compress(line.encode()),
    "an xz": lambda line: lzma.compress(line.encode()),
    "a zip in a tar in a zip": lambda line: zipped(tarred(zipped(line.encode()))),
    "a function of bytecode": lambda line: compiled(
        f"class Mine:\n    def f(self, sample, sigma):\n        print(sample)\n        {line}\n"
    ),
    "a constant of bytecode": lambda line: compiled(f"TEXT = ('a', {line!r})"),
    "a loose object of git": lambda line: zlib.compress(b"blob %d\0" % len(line) + line.encode()),
    "a pack of git": lambda line: pack(line.encode()),
    "a bundle of git": lambda line: (
        b"# v2 git bundle\n" + b"0" * 40 + b" HEAD\n\n" + pack(line.encode())
    ),
}


@NEEDS_GIT
@pytest.mark.parametrize("place", PLACES)
def test_one_line_is_found_wherever_it_is_planted(place: str) -> None:
    leaks = found(PLACES[place](LINE))
    assert {leak.owner for leak in leaks} == {"3.3"}
    assert found(PLACES[place]("return sample")) == []  # the place itself is none


def test_a_line_is_found_wherever_in_a_text_it_begins() -> None:
    for before in range(2 * LEAST):
        assert [leak.owner for leak in found(b"x" * before + LINE.encode())] == ["3.3"], before


def test_a_line_of_a_suite_is_found_as_text_and_as_bytecode() -> None:
    (path,) = (path for path in suite_files(LAB) if path.name.startswith("test_"))
    text = path.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "EulerDiscreteScheduler.from_config" in line)
    owners = [leak.owner for data in (line.encode(), compiled(text)) for leak in found(data)]
    assert set(owners) == {"the suite of lab-03"}
    assert len(owners) == 2


def test_every_todo_of_every_lab_has_a_line_that_gives_it_away() -> None:
    labs = find_labs()
    known = audit.distinctive_lines(labs).lines.values()
    owners = {line.owner for lines in known for _, line in lines}
    assert {audit.owner_of(lab, name) for lab in labs for name in lab.todo_of_name} <= owners
    assert {audit.suite_owner(lab) for lab in labs} <= owners


def test_what_learners_get_is_clean() -> None:
    assert LAB.solution is not None
    stub = audit.stub_text(LAB, LAB.solution.read_text(encoding="utf-8"))
    assert found(stub.encode()) == []
    assert found(compiled(stub)) == []
    assert list(AUDITOR.audit(LAB.place.exercises / "handbook")) == []


def test_a_finding_is_one_line_that_says_where_and_whose() -> None:
    (leak,) = found(zipped(f"{LINE}\n".encode()), "labs.zip")
    assert str(leak) == f"labs.zip: deep/inner.txt: an answer to 3.3: {LINE}"
    (unread,) = found(compiled("x").replace(importlib.util.MAGIC_NUMBER, b"\1\x0e\r\n"), "x.pyc")
    assert str(unread) == "x.pyc: not looked through: it was compiled by another Python"


def encrypted() -> bytes:
    data = bytearray(zipped(b"x"))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def nested(depth: int) -> bytes:
    data = LINE.encode()
    for _ in range(depth):
        data = gzip.compress(data)
    return data


@NEEDS_GIT
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (encrypted(), "encrypted"),
        (nested(unpacking.MOST_DEPTH + 1), "more than 8 archives"),
        (gzip.compress(os.urandom(9000))[:4000], "breaks off"),
        (gzip.compress(os.urandom(9000))[:-8] + bytes(8), "cannot be unpacked"),
        (zipped(LINE.encode()).replace(b"PK\x01\x02", b"PK\x09\x09"), "cannot be unpacked"),
        (b"PACK" + bytes(100), "cannot be unpacked"),
        (b"\x28\xb5\x2f\xfd" + bytes(50), "zstd"),
        (b"%PDF-1.7\n" + zlib.compress(LINE.encode()), "a PDF"),
        (importlib.util.MAGIC_NUMBER + bytes(HEADER) + b"\xff" * 50, "no bytecode"),
    ],
    ids=lambda value: value if isinstance(value, str) else "data",
)
def test_what_cannot_be_looked_into_is_told(data: bytes, said: str) -> None:
    problems = [finding.problem for finding in found(data)]
    assert any(said in problem for problem in problems)


@NEEDS_GIT
@pytest.mark.parametrize("pressed", [zipped, gzip.compress, lzma.compress, pack, zlib.compress])
def test_a_part_that_is_too_large_is_not_unpacked_and_told(
    pressed: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST_PART", 1000)
    (finding,) = found(pressed(bytes(1001)))
    assert "large" in finding.problem
    assert found(pressed(bytes(1000))) == []


@pytest.mark.parametrize("bound", [{"left": 500}, {"parts": 2}, {"end": 0.0}])
def test_a_whole_that_is_too_large_ends_the_audit_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: dict[str, float]
) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(bytes(200))
    monkeypatch.setattr(audit, "Budget", functools.partial(unpacking.Budget, **bound))
    (finding,) = AUDITOR.audit(tmp_path)
    assert finding.problem.startswith(("it holds more than", "it takes longer than"))


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_links_and_pipes_in_a_folder_are_told_and_not_opened(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret.py", tmp_path / "handed-out"
    secret.write_text(LINE, encoding="utf-8")
    folder.mkdir()
    (folder / "inside").write_text("x", encoding="utf-8")
    (folder / "link").symlink_to(secret)
    (folder / "to-inside").symlink_to(folder / "inside")
    (folder / "folder").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    said = {finding.where: finding.problem for finding in AUDITOR.audit(folder)}
    assert {*said} == {"link", "folder", "pipe"}
    assert "lies elsewhere" in said["link"]


@NEEDS_GIT
def test_every_object_of_a_repository_is_looked_through(tmp_path: Path) -> None:
    """Reachable or not, packed or not; --ref only what it reaches."""
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "PATH": os.environ["PATH"]}

    def git(*words: str, given: str = "") -> str:
        named = ["-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path), *words]
        done = subprocess.run(
            ["git", *named],
            input=given,
            text=True,
            capture_output=True,
            env=own,
            check=True,
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    (tmp_path / "stub.py").write_text("raise NotImplementedError\n" * 50, encoding="utf-8")
    git("add", "-A")
    git("commit", "-qm", "stub")
    assert list(AUDITOR.audit(tmp_path)) == []
    dangling = git("hash-object", "-w", "--stdin", given=LINE)
    (leak,) = AUDITOR.audit(tmp_path)
    assert leak.where == f".git/objects/{dangling[:2]}/{dangling[2:]}: git blob"
    git("branch", "told", git("commit-tree", "main^{tree}", "-p", "main", "-m", LINE))
    git("tag", "kept", dangling)
    git("gc", "-q")
    owners = [leak.where.rpartition(": ")[2][:10] for leak in AUDITOR.audit(tmp_path)]
    assert sorted(owners) == ["git blob " + dangling[:1], "git commit"]
    assert list(AUDITOR.audit_reached(tmp_path, "main")) == []
    (leak,) = AUDITOR.audit_reached(tmp_path, "told")
    assert leak.where.startswith("told: commit")


def test_the_command_prints_a_line_a_leak_and_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "told \x1b.md").write_text(LINE, encoding="utf-8")
    done = CliRunner().invoke(main, ["audit", str(tmp_path)])
    assert (done.exit_code, done.output) == (1, f"told \\x1b.md: an answer to 3.3: {LINE}\n")
