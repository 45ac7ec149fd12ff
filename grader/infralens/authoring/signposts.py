"""Heads and footers of pages, made from the curriculum: what a step needs, before it, after it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from infralens.curriculum import Curriculum, Step, read_curriculum, stars
from infralens.interview import practice
from infralens.labs import Lab, Place
from infralens.pages import title
from infralens.regular import write_whole

HEAD, FOOT = "head", "foot"


def write_signposts(labs: Iterable[Lab]) -> Iterator[Path]:
    """Write head and footer of each page anew where they are stale; gives the files written."""
    for page, text in _stale(labs):
        write_whole(page, text)
        yield page


def stale_signposts(labs: Iterable[Lab]) -> Iterator[Path]:
    """The pages whose head or footer is not what the curriculum makes."""
    for page, _ in _stale(labs):
        yield page


def _stale(labs: Iterable[Lab]) -> Iterator[tuple[Path, str]]:
    by_place: dict[Place, dict[str, Lab]] = {}
    for lab in labs:
        by_place.setdefault(lab.place, {})[lab.id] = lab
    for place, listed in by_place.items():
        signs = _Signs(place, listed)
        for step in signs.path.steps:
            page = signs.page(step)
            if page is None or not page.is_file():
                continue
            text = page.read_text(encoding="utf-8")
            posted = signs.posted(step, text)
            if posted != text:
                yield page, posted


class _Signs:
    """The signs of one folder of labs."""

    def __init__(self, place: Place, labs: dict[str, Lab]) -> None:
        self.place, self.labs = place, labs
        self.path: Curriculum = read_curriculum(place)
        self.asked_about = {one.about for one in practice(labs.values())}

    def page(self, step: Step) -> Path | None:
        if not step.is_lab:
            return self.place.exercises / "handbook" / f"{step.name}.md"
        lab = self.labs.get(step.name)
        return lab.page if lab else None

    def posted(self, step: Step, text: str) -> str:
        """The page with its signs as they are to be."""
        first, _, rest = text.partition("\n")
        head, foot = self._head(step), self._foot(step)
        text = _marked(text, HEAD, head) or f"{first}\n\n{_block(HEAD, head)}\n{rest}"
        return _marked(text, FOOT, foot) or f"{text.rstrip()}\n\n{_block(FOOT, foot)}\n"

    def _head(self, step: Step) -> str:
        told = [f"*{stars(step.difficulty)} · about {step.minutes} minutes*"]
        lab = self.labs.get(step.name)
        if lab is not None:
            told[0] = f"{told[0]} · [your file]({lab.file})"
        if needed := self.path.needed(step.name):
            told.append("Needs " + ", ".join(self._link(step, need) for need in needed) + ".")
        if step.todos:
            each = ", ".join(f"{todo} {stars(hard)}" for todo, hard in step.todos.items())
            told.append(f"Todos: {each}.")
        return "\n\n".join(told)

    def _foot(self, step: Step) -> str:
        told = ["## Before and next", ""]
        for word, other in (
            ("Before", self.path.before(step.name)),
            ("Next", self.path.after(step.name)),
        ):
            if other is not None:
                told.append(f"* {word}: {self._link(step, other)}")
        if step.is_lab:
            told += [*self._builds_on_this(step), *self._commands(step)]
        elif served := self.path.served(step.name):
            told.append("* Labs: " + ", ".join(self._link(step, lab) for lab in served))
        return "\n".join(told)

    def _commands(self, step: Step) -> Iterator[str]:
        lab = self.labs.get(step.name)
        named = [todo for todo in lab.todos if todo.source] if lab else []
        if lab is None or not named:
            return
        todo = named[-1].id if lab.short == lab.name else f"{lab.track}/{named[-1].id}"
        yield f"* Once it is passed: `infralens source {todo}`, the library's lines beside yours"
        then = ["quiz", *(["interview"] if lab.id in self.asked_about else [])]
        yield "* Then: " + ", ".join(f"`infralens {command} {lab.short}`" for command in then)

    def _builds_on_this(self, step: Step) -> Iterator[str]:
        later = [lab for lab in self.path.steps if lab.is_lab and step.name in lab.needs]
        if later:
            yield "* What builds on it: " + ", ".join(self._link(step, lab) for lab in later)

    def _link(self, here: Step, there: Step) -> str:
        page, target = self.page(here), self.page(there)
        if page is None or target is None or not target.is_file():
            return there.name  # a lab that is not among these
        words = title(target.read_text(encoding="utf-8")).partition(":")[0]
        way = Path(os.path.relpath(target, page.parent)).as_posix()
        return f"[{words}]({way})"


def _block(which: str, text: str) -> str:
    return f"<!-- {which}: made by check --write -->\n\n{text}\n\n<!-- /{which} -->"


def _marked(text: str, which: str, new: str) -> str | None:
    """The text with what stands between the markers replaced; None where there are none."""
    pattern = rf"<!-- {which}: made by check --write -->\n.*?<!-- /{which} -->"
    found = re.search(pattern, text, re.DOTALL)
    return text[: found.start()] + _block(which, new) + text[found.end() :] if found else None
