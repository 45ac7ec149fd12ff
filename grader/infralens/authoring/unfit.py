"""What leaves nothing to prove about a lab: files that are no text, code of its own that breaks."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infralens.labs import Lab
from infralens.quiz import questions_of


def unfit_texts(lab: Lab) -> Iterator[str]:
    """Every file that cannot be read, else what does not run: the solution, the checkpoints."""
    unread = list(_unread(lab))
    yield from unread
    if unread or lab.solution is None or not lab.solution.is_file():
        return
    module = types.ModuleType("solution")
    module.__file__ = str(lab.solution)
    problem = raised_by(lab.solution.read_text(encoding="utf-8"), lab.solution.name, vars(module))
    if problem:
        yield f"the solution raises {problem}"
    try:
        questions_of(lab)
    except (Exception, SystemExit) as error:
        yield f"quiz.py raises {in_words(error)}"


def raised_by(code: str, name: str, namespace: dict[str, Any]) -> str | None:
    """What this code of an author's raises, in words; None where it runs to its end."""
    try:
        exec(compile(code, name, "exec"), namespace)
    except (Exception, SystemExit) as error:
        return in_words(error)
    return None


def in_words(error: BaseException) -> str:
    """An exception as one sentence names it: type and text."""
    return f"{type(error).__name__}: {error}"


def texts_of(lab: Lab) -> Iterator[Path]:
    """The lab's files of text, as far as they are there."""
    reading = lab.place.exercises / lab.reading.partition("#")[0]
    for path in (*sorted(lab.suite.glob("*.*")), lab.solution, lab.stub, lab.page, reading):
        if path is not None and path.is_file():
            yield path


def _unread(lab: Lab) -> Iterator[str]:
    for path in texts_of(lab):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            line = path.read_bytes().count(b"\n", 0, error.start) + 1
            yield f"{path.name} line {line} is not UTF-8 text"
        else:
            if "\0" in text:
                line = text.count("\n", 0, text.index("\0")) + 1
                yield f"{path.name} line {line} holds a null byte"
