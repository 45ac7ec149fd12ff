"""From an edited copy of the solution to an entry of `wrong.yaml`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infralens.labs import Lab
from infralens.regular import write_whole
from infralens.wrong import FILE, Edit, EditError, WrongAnswer, edited, quoted, wrong_answers

WIDTH = 100
MOST_MORE = 40  # unchanged lines that are quoted with a change, until it is told apart


class NoEntryError(ValueError):
    """There is no entry to make; the text says why."""


def new_entry(lab: Lab, todo: str, name: str, edited_copy: str) -> WrongAnswer:
    """The entry that this edited copy of the solution makes."""
    if not re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name):
        raise NoEntryError(f"{name!r} is no entry's name; it must look like sigma-not-root.")
    if any(of.entry == f"{todo} {name}" for of in wrong_answers(lab)):
        raise NoEntryError(f"{todo} has a {name} already.")
    if lab.solution is None or not lab.solution.is_file():
        raise NoEntryError(f"{lab.short} has no solution here.")
    solution = lab.solution.read_text(encoding="utf-8")
    return WrongAnswer(todo, name, tuple(edits_between(solution, edited_copy)))


def entry_text(wrong: WrongAnswer) -> str:
    """An entry as it stands in the file."""
    edits = [{"replace": edit.replace, "by": edit.by} for edit in wrong.edits]
    said: dict[str, Any] = {"todo": wrong.todo, "name": wrong.name}
    said |= {"says": wrong.says, "reads": wrong.reads} if wrong.says else {}
    said |= edits[0] if len(edits) == 1 else {"edits": edits}
    text = yaml.dump([said], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH - 4)
    return str(text).replace(f"todo: '{wrong.todo}'", f'todo: "{wrong.todo}"', 1)


def append(lab: Lab, wrong: WrongAnswer) -> Path:
    """Write an entry at the end of the lab's file."""
    path = lab.suite / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    write_whole(path, text + ("\n" if text else "") + entry_text(wrong))
    return path


def edits_between(solution: str, copy: str) -> Iterator[Edit]:
    """The smallest edits, of whole lines, that make the copy of the solution."""
    old, new = solution.splitlines(keepends=True), copy.splitlines(keepends=True)
    if old == new:
        raise NoEntryError("The edited file is the solution itself: nothing was changed.")
    hunks = _hunks(old, new)
    text = solution
    while hunks:
        hunk = hunks.pop(0)
        wanted = "".join(new[: hunk.new_end] + old[hunk.old_end :])
        found = _edit(text, wanted, hunk, old, new)
        if found is None:
            if not hunks:
                raise NoEntryError("The difference cannot be told as edits; make it a smaller one.")
            following = hunks.pop(0)  # what stands between the two is quoted as well
            hunks.insert(
                0, Hunk(hunk.old, following.old_end, hunk.new, following.new_end, following.after)
            )
            continue
        text = edited(text, found)
        yield found


@dataclass(frozen=True)
class Hunk:
    """Lines of the solution and those of the copy that stand in their place.

    `after` is how many lines that follow are the same in both.
    """

    old: int
    old_end: int
    new: int
    new_end: int
    after: int


def _hunks(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    following = [*codes[1:], ("equal", 0, 0, 0, 0)]
    return [
        Hunk(i, i_end, j, j_end, after[2] - after[1])
        for (tag, i, i_end, j, j_end), after in zip(codes, following, strict=True)
        if tag != "equal"
    ]


def _edit(
    text: str, wanted: str, hunk: Hunk, old: Sequence[str], new: Sequence[str]
) -> Edit | None:
    """The edit of fewest lines that makes this text of that one."""
    before = min(hunk.old, hunk.new)
    for more in range(min(before + hunk.after, MOST_MORE) + 1):
        for below in range(min(more, hunk.after) + 1):
            above = more - below
            if above > before:
                continue
            ours = [line.rstrip("\n") for line in old[hunk.old - above : hunk.old_end + below]]
            theirs = [line.rstrip("\n") for line in new[hunk.new - above : hunk.new_end + below]]
            if not ours or not ours[0].strip():
                continue
            by = quoted(theirs, 0, len(theirs)) if theirs else ""
            edit = Edit(quoted(ours, 0, len(ours)), by)
            try:
                if edited(text, edit) == wanted:
                    return edit
            except EditError:
                continue
    return None


class _Dumper(yaml.SafeDumper):
    """Several lines as they are."""


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _string)
