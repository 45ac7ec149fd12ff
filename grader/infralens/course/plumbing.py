"""git as it writes a repository of ours: nobody's configuration, no hooks, no questions."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infralens.revisions import ENVIRONMENT

WRITER = "InfraLens <infralens@example.invalid>"
GIT_SECONDS = 120.0
SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.autocrlf=false", "gc.auto=0"),
    *("commit.gpgSign=false", "protocol.allow=never"),
)


class GitError(Exception):
    """git is not there, or would not; the text says what it said."""


@dataclass(frozen=True)
class Change:
    """A commit to be: files written, files removed. `parent` is a commit or None.

    Where `whole`, it holds these files and no others.
    """

    message: str
    written: Mapping[str, bytes]
    removed: Collection[str] = ()
    parent: str | None = None
    whole: bool = False


def blob_id(content: bytes) -> str:
    """The number that git gives a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Repository:
    """A repository with a working tree at `folder`."""

    folder: Path

    @classmethod
    def begun(cls, folder: Path) -> Repository:
        """A new one, empty, on branch main."""
        folder.mkdir(parents=True, exist_ok=True)
        _said(["init", "-q", "--template=", "--object-format=sha1", "-b", "main", str(folder)], {})
        return cls(folder)

    def run(self, words: Sequence[str], given: bytes = b"") -> bytes:
        """What git prints. GitError when it fails."""
        folder = self.folder.absolute()  # git runs in it, and would look from there
        where = {"GIT_DIR": str(folder / ".git"), "GIT_WORK_TREE": str(folder)}
        return _said(words, where, given=given, cwd=folder)

    def commit_at(self, ref: str) -> str | None:
        """The number of the commit that the full name of a ref stands for."""
        try:
            said = self.run(["rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"])
        except GitError:
            return None
        return said.decode("ascii").strip()

    def files_at(self, commit: str) -> dict[str, str]:
        """The number of each plain file of a commit, by its path."""
        found = {}
        for line in self.run(["ls-tree", "-r", "-z", commit]).split(b"\0"):
            about, _, name = line.partition(b"\t")
            if about.startswith(b"100"):
                found[os.fsdecode(name)] = about.split()[2].decode("ascii")
        return found

    def file_at(self, commit: str, name: str) -> bytes | None:
        """The bytes of a file at a commit, where it has one of this name."""
        number = self.files_at(commit).get(name)
        return None if number is None else self.run(["cat-file", "blob", number])

    def branch(self) -> str:
        """The full name of the branch that is checked out."""
        try:
            return self.run(["symbolic-ref", "-q", "HEAD"]).decode("utf-8", "replace").strip()
        except GitError:
            return ""

    def is_clean(self) -> bool:
        """Whether every file that git knows is as it was committed."""
        return not self.run(["status", "--porcelain", "--untracked-files=no"])

    def write(self, ref: str, change: Change) -> str:
        """Make the commit and let `ref` stand for it. Gives its number."""
        self.run(["fast-import", "--quiet", "--force"], _stream(ref, change))
        number = self.commit_at(ref)
        assert number is not None
        return number


def _stream(ref: str, change: Change) -> bytes:
    """The commit in the words of git fast-import."""
    message = change.message.encode()
    out = [f"commit {ref}\ncommitter {WRITER} {int(time.time())} +0000\n".encode()]
    out.append(b"data %d\n%s\n" % (len(message), message))
    if change.parent is not None:
        out.append(f"from {change.parent}\n".encode())
    if change.whole:
        out.append(b"deleteall\n")
    out += [b"D %s\n" % _path(name) for name in sorted(change.removed)]
    for name, content in sorted(change.written.items()):
        out.append(b"M 100644 inline %s\ndata %d\n%s\n" % (_path(name), len(content), content))
    return b"".join(out)


def _path(name: str) -> bytes:
    if not name.isprintable() or name.startswith('"'):
        raise GitError(f"{name!r} is no name for a file that is released.")
    return name.encode()


def _said(
    words: Sequence[str],
    where: Mapping[str, str],
    *,
    given: bytes = b"",
    cwd: Path | None = None,
) -> bytes:
    git = shutil.which("git")
    if git is None:
        raise GitError("git is not installed; it is what makes a repository.")
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    try:
        done = subprocess.run(
            [git, "--no-pager", *settings, *words],
            input=given,
            capture_output=True,
            cwd=cwd,
            env={**kept, **ENVIRONMENT, **where},
            timeout=GIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} took longer than {GIT_SECONDS:.0f} s.") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it failed"]
        raise GitError(f"git {words[0]}: {said[-1]}")
    return done.stdout
