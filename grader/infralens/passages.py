"""What a reader asks for of a lab's page: the whole of it, a section, or what serves one todo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infralens.labs import Lab, UnknownLabError, find_lab, find_todo
from infralens.pages import about, no_section, section
from infralens.wrong import BadWrongAnswerError, likely_reading


@dataclass(frozen=True)
class Passage:
    """The page of a lab, or a part of it, and what is to be read of the handbook with it."""

    lab: Lab
    text: str
    reading: str
    whole: bool


def passage_of(what: str, labs: Sequence[Lab]) -> Passage:
    """What `1.3`, `lab-01#checkpoints` or `lab-01` names. UnknownLabError where there is none."""
    name, _, part = what.partition("#")
    try:
        lab, todo = find_todo(name, labs)
    except UnknownLabError:
        lab, todo = find_lab(name, labs), None
    if not lab.page.is_file():
        raise UnknownLabError(f"{lab.short} has no page yet.")
    page = lab.page.read_text(encoding="utf-8", errors="replace")
    if todo is not None and (text := about(page, todo.id)):
        return Passage(lab, text, _reading(lab, todo.id), whole=False)
    if text := section(page, part):
        return Passage(lab, text, "" if part else lab.reading, whole=not part)
    raise UnknownLabError(no_section(f"The page of {lab.short}", part, page))


def _reading(lab: Lab, todo: str) -> str:
    """The section that serves a todo. An author's wrong.yaml may be unfit just now."""
    try:
        return likely_reading(lab, todo)
    except BadWrongAnswerError:
        return lab.reading
