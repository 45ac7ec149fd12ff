"""`infralens audit`: whether an answer, or a line of a suite, is anywhere in what is handed out.

Looked through are files of every kind: plain text in any encoding of Unicode, notebooks with their
outputs, archives and compressed files within each other, every object of a git repository (packed,
dangling, unreachable), and bytecode. What cannot be looked into is told like a leak. Not seen are
pictures of a text, base64, and what is encrypted by other means than a zip's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from infralens.course import bytecode
from infralens.course.distinctive import (
    Distinctive,
    Line,
    distinctive_lines,
    owner_of,
    solution_of,
    stub_text,
    suite_files,
    suite_owner,
)
from infralens.course.unpacking import (
    MIB,
    MOST_DEPTH,
    MOST_PART,
    Budget,
    ClosedError,
    SpentError,
    parts_of,
)
from infralens.labs import Lab
from infralens.regular import read_regular
from infralens.revisions import objects_reached
from infralens.stubs import regions


@dataclass(frozen=True)
class Finding:
    """Something that must not be handed out, or that nobody could look into.

    `where` may come from a hostile archive; `lines` are of one answer or suite.
    """

    where: str
    owner: str | None
    lines: tuple[str, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        if self.owner is None:
            return f"{self.where}: not looked through: {self.problem}"
        is_suite = self.owner.startswith("the suite")
        whose = self.owner if is_suite else f"an answer to {self.owner}"
        more = len(self.lines) - 1
        also = f" (and {more} more line{'s' if more > 1 else ''})" if more else ""
        first = self.lines[0].partition("\n")[0]
        return f"{self.where}: {whose}: {first}{also}"


@dataclass(frozen=True)
class Auditor:
    """Knows what gives away the answers and suites of some labs."""

    labs: Sequence[Lab]
    known: Distinctive = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", distinctive_lines(self.labs))

    def audit(self, path: Path) -> Iterator[Finding]:
        """Everything at `path`, a file or a folder. Links are not followed."""
        budget = Budget()
        try:
            for where, data in _files_at(path):
                yield from self._audited(where, data, budget)
        except SpentError as error:
            yield Finding(str(path), None, problem=str(error))

    def audit_reached(self, start: Path, ref: str) -> Iterator[Finding]:
        """Every object that a revision reaches. RevisionError where there is no such thing."""
        budget = Budget()
        try:
            for found, name in objects_reached(start, ref, most_bytes=MOST_PART):
                where = f"{ref}: {name or found.kind} ({found.kind} {found.number[:10]})"
                content = found.content
                too_large = ClosedError(f"it is larger than {MOST_PART // MIB} MiB")
                yield from self._audited(where, too_large if content is None else content, budget)
        except SpentError as error:
            yield Finding(ref, None, problem=str(error))

    def audit_files(self, files: Mapping[str, bytes]) -> Iterator[Finding]:
        """Files that are not written yet, by name."""
        budget = Budget()
        for name, content in files.items():
            yield from self._audited(name, content, budget)

    def _audited(
        self, where: str, data: bytes | ClosedError, budget: Budget, depth: int = 0
    ) -> Iterator[Finding]:
        if isinstance(data, ClosedError):
            yield Finding(where, None, problem=str(data))
            return
        budget.take(len(data))
        yield from _findings(where, self.known.found_in(data))
        if bytecode.is_bytecode(data):
            yield from self._compiled(where, data)
        for name, part in parts_of(data):
            inner = f"{where}: {name}" if name else where
            if depth == MOST_DEPTH:
                part = ClosedError(f"it lies in more than {MOST_DEPTH} archives")
            yield from _findings(inner, self.known.found_in(name.encode("utf-8", "ignore")))
            yield from self._audited(inner, part, budget, depth + 1)

    def _compiled(self, where: str, data: bytes) -> Iterator[Finding]:
        try:
            compiled = bytecode.read(data)
        except bytecode.UnreadableBytecodeError as error:
            yield Finding(where, None, problem=str(error))
            return
        found = {
            line
            for words in bytecode.holds(compiled.functions, self._by_start)
            for line in self._by_words[words]
        }
        found |= self.known.found_in("\n".join(compiled.texts).encode("utf-8", "ignore"))
        yield from _findings(where, found)

    @cached_property
    def _by_words(self) -> dict[bytecode.Words, list[Line]]:
        """The lines of answers and suites by what they are compiled to, less what stubs hold."""
        found: dict[bytecode.Words, list[Line]] = {}
        public: list[bytecode.Words] = []
        for lab in self.labs:
            text = solution_of(lab)
            if text is not None:
                public += bytecode.functions_of(stub_text(lab, text))
                for region in regions(text):
                    inside = range(region.first + 1, region.last)
                    owner = owner_of(lab, region.owner)
                    for words, line in bytecode.words_of_lines(text, inside):
                        found.setdefault(words, []).append(Line(line, owner))
            for path in suite_files(lab):
                source = path.read_text(encoding="utf-8")
                for words, line in bytecode.words_of_lines(source, None):
                    found.setdefault(words, []).append(Line(line, suite_owner(lab)))
        for words in set(bytecode.holds(public, _by_start(found))):
            del found[words]
        return found

    @cached_property
    def _by_start(self) -> dict[bytecode.Words, list[bytecode.Words]]:
        return _by_start(self._by_words)


def _by_start(rows: Mapping[bytecode.Words, object]) -> dict[bytecode.Words, list[bytecode.Words]]:
    starts: dict[bytecode.Words, list[bytecode.Words]] = {}
    for words in rows:
        starts.setdefault(words[: bytecode.LEAST_WORDS], []).append(words)
    return starts


def _findings(where: str, lines: set[Line]) -> Iterator[Finding]:
    """One for each answer or suite that is met there."""
    for owner in sorted({line.owner for line in lines}):
        texts = sorted((line.text for line in lines if line.owner == owner), key=_first_said)
        yield Finding(where, owner, tuple(texts))


def _first_said(text: str) -> tuple[bool, int, str]:
    """The longest single line says most."""
    return "\n" in text, -len(text), text


def _files_at(path: Path) -> Iterator[tuple[str, bytes | ClosedError]]:
    """Each file, by its path below `path`; names are looked through as well."""
    if not path.is_dir() or path.is_symlink():
        yield path.name, _content(path)
        return
    unread: list[OSError] = []
    root = path.resolve()
    for folder, folders, names in os.walk(path, onerror=unread.append):
        folders.sort()
        for name in sorted([*names, *(inner for inner in folders if _is_link(folder, inner))]):
            file = Path(folder, name)
            where = file.relative_to(path).as_posix()
            if not file.is_symlink():
                yield where, _content(file)
            elif not file.resolve().is_relative_to(root):
                yield where, ClosedError("it is a link to what lies elsewhere")
    for error in unread:
        yield str(error.filename), ClosedError(f"{error.strerror}")


def _is_link(folder: str, name: str) -> bool:
    return Path(folder, name).is_symlink()


def _content(path: Path) -> bytes | ClosedError:
    try:
        return read_regular(path, MOST_PART, follow=False)
    except OSError as error:
        return ClosedError(f"{error.strerror}")
