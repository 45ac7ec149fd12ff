"""A lab's wrong answers: edits of its solution, read from `wrong.yaml` beside the suite.

An entry that `says` something is a misconception: where a learner's answer equals its answer, the
learner is told so, and the page that it `reads`. Every entry must fail its todo.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from infralens.documents import UnfitDocumentError, judge_of, read_yaml
from infralens.labs import PACKAGE, Lab

FILE = "wrong.yaml"
SCHEMA = PACKAGE / "wrong.schema.json"
MOST_BYTES = 1 << 20


class BadWrongAnswerError(ValueError):
    """A `wrong.yaml` that does not say what it must; the text says where and what."""


class EditError(ValueError):
    """An edit that does not fit the solution; the text says where, and what to quote instead."""


@dataclass(frozen=True)
class Edit:
    """Replace what stands at one place of a text.

    A further line of either is indented by as much as the line in which `replace` begins. A whole
    line that is replaced by nothing goes.
    """

    replace: str
    by: str


@dataclass(frozen=True)
class WrongAnswer:
    """A wrong answer to a todo. With `says` it can be named, and `reads` tells where to read.

    One that `crosses` changes more than what is its own, such as a class of the library: it runs in
    a process of its own, never in the examiner, and so it cannot be named.
    """

    todo: str
    name: str
    edits: tuple[Edit, ...]
    says: str | None = None
    reads: str | None = None
    crosses: bool = False

    @property
    def entry(self) -> str:
        """Which of its lab's entries it is."""
        return f"{self.todo} {self.name}"

    def edited(self, solution: str) -> str:
        """The solution with this mistake. EditError where an edit does not fit it."""
        text = solution
        for edit in self.edits:
            try:
                text = edited(text, edit)
            except EditError as error:
                raise EditError(f"{FILE}, {self.entry}: {error}") from None
        return text


def wrong_answers(lab: Lab) -> tuple[WrongAnswer, ...]:
    """The wrong answers to a lab, in the order of its file; none where it has no such file."""
    path = lab.suite / FILE
    return _read(path, path.stat().st_mtime_ns, lab.reading) if path.is_file() else ()


def likely_reading(lab: Lab, todo: str) -> str:
    """The section that most mistakes of the todo read; the lab's page where none is declared."""
    known = [wrong.reads for wrong in wrong_answers(lab) if wrong.todo == todo]
    reads = [page for page in known if page and "#" in page]
    return Counter(reads).most_common(1)[0][0] if reads else lab.reading


@lru_cache
def _read(path: Path, changed: int, reading: str) -> tuple[WrongAnswer, ...]:
    """Read once for each state of the file: grading asks for them at every mismatch."""
    try:
        entries = read_yaml(path, _judge, most_bytes=MOST_BYTES)
        known = tuple(_entry(entry, reading) for entry in entries)
        _judge_together(known)
    except (UnfitDocumentError, BadWrongAnswerError) as error:
        raise BadWrongAnswerError(f"{path} cannot be used: {error}.") from None
    return known


def _judge(data: Any) -> None:
    """ValueError, with the entry's name, where the document is not what wrong.schema.json says."""
    try:
        judge_of(SCHEMA)(data)
    except ValueError as error:
        place = re.match(r"data\[(\d+)\]\.? ?", str(error))
        if place is None:
            raise
        number, entry = int(place[1]), data[int(place[1])]
        told = f", {entry.get('todo')} {entry.get('name')}" if isinstance(entry, dict) else ""
        raise ValueError(f"entry {number + 1}{told}: {str(error)[place.end() :]}") from None


def _entry(entry: dict[str, Any], reading: str) -> WrongAnswer:
    where = f"{entry['todo']} {entry['name']}"
    if ("edits" in entry) == ("replace" in entry):
        raise BadWrongAnswerError(f"{where} needs either `replace` and `by`, or `edits`")
    edits = tuple(Edit(one["replace"], one["by"]) for one in entry.get("edits", [entry]))
    if any(edit.replace == edit.by for edit in edits):
        raise BadWrongAnswerError(f"{where} replaces something by itself")
    crosses = entry.get("crosses", False)
    if crosses and "says" in entry:
        raise BadWrongAnswerError(f"{where} crosses, so it cannot be named: leave out `says`")
    reads = entry.get("reads")
    if reads is not None and reads.startswith("#"):
        reads = reading.partition("#")[0] + reads
    says = entry.get("says")
    told = " ".join(says.split()) if says else None
    return WrongAnswer(entry["todo"], entry["name"], edits, told, reads, crosses)


def _judge_together(known: Sequence[WrongAnswer]) -> None:
    entries: set[str] = set()
    for wrong in known:
        if wrong.entry in entries:
            raise BadWrongAnswerError(f"{wrong.entry} stands there twice")
        entries.add(wrong.entry)


def edited(text: str, edit: Edit) -> str:
    """The text after one edit. EditError unless what is replaced stands there exactly once."""
    places = list(_places(text, edit.replace))
    if not places:
        raise EditError(_not_there(text, edit.replace))
    if len(places) > 1:
        lines = " and ".join(str(text.count("\n", 0, begin) + 1) for begin, _, _ in places)
        raise EditError(
            f"{edit.replace!r} stands on lines {lines}; quote more of the one that is meant"
        )
    begin, end, indent = places[0]
    line_begin = text.rfind("\n", 0, begin) + 1
    if not edit.by and not text[line_begin:begin].strip() and text[end : end + 1] == "\n":
        return text[:line_begin] + text[end + 1 :]
    return text[:begin] + _indented(edit.by, indent) + text[end:]


def _places(text: str, wanted: str) -> Iterator[tuple[int, int, str]]:
    """Where a quotation begins and ends, and the indentation of the line in which it begins."""
    first = wanted.partition("\n")[0]
    for match in re.finditer(f"(?={re.escape(first)})", text):
        begin = match.start()
        indent = " " * _depth(text[text.rfind("\n", 0, begin) + 1 :])
        whole = _indented(wanted, indent)
        if text.startswith(whole, begin):
            yield begin, begin + len(whole), indent


def _indented(quoted: str, indent: str) -> str:
    first, *rest = quoted.split("\n")
    return "\n".join([first, *(indent + line if line else line for line in rest)])


def _not_there(text: str, wanted: str) -> str:
    """What to quote instead: the lines of the text that are most like the wanted ones."""
    lines, height = text.splitlines(), wanted.count("\n") + 1
    bare = [line.strip() for line in lines]
    looked_for = "\n".join(line.strip() for line in wanted.splitlines())
    windows = ["\n".join(bare[at : at + height]) for at in range(len(bare) - height + 1)]
    said = f"{wanted!r} stands nowhere in the solution"
    near = difflib.get_close_matches(looked_for, windows, n=1, cutoff=0.3)
    if not near:
        return f"{said}, nor anything like it"
    at = windows.index(near[0])
    return f"{said}; line {at + 1} is nearest: quote {quoted(lines, at, at + height)!r}"


def quoted(lines: Sequence[str], begin: int, end: int) -> str:
    """These lines as an edit quotes them, indented relative to the first.

    Where that one is indented deeper than another of them, from an earlier line on.
    """
    while begin and not _leads(lines[begin], lines[begin:end]):
        begin -= 1
    depth = _depth(lines[begin])
    return "\n".join([lines[begin].strip(), *(line[depth:] for line in lines[begin + 1 : end])])


def _leads(first: str, lines: Sequence[str]) -> bool:
    return bool(first.strip()) and all(_depth(line) >= _depth(first) for line in lines if line)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
