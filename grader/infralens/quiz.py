"""The reading checkpoints of a lab: questions whose right answers are worked out when asked.

A suite's `quiz.py` declares them. The answer is what the function returns, read off the live
diffusers library wherever that can be, so it stays true when the library changes.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from infralens.labs import Lab

Answer = bool | int | float | str | tuple[int, ...]
Asked = TypeVar("Asked", bound=Callable[[], Any])
MARK = "__question__"
YES, NO = ("yes", "y", "true"), ("no", "n", "false")
CLOSE = 0.01  # a float is right within one percent: what is asked for is understanding


@dataclass(frozen=True)
class Question:
    """One checkpoint. `answer` computes the right answer; with `choices` it is one of them."""

    text: str
    choices: tuple[str, ...]
    answer: Callable[[], Answer]

    @property
    def explanation(self) -> str:
        """What is said once the learner has answered."""
        return inspect.cleandoc(self.answer.__doc__ or "").replace("\n", " ")


def question(text: str, *, choices: Sequence[str] = ()) -> Callable[[Asked], Asked]:
    """Declare a function as a checkpoint: its docstring explains, its result is the answer."""

    def declare(answer: Asked) -> Asked:
        setattr(answer, MARK, Question(text, tuple(choices), answer))
        return answer

    return declare


def questions_of(lab: Lab) -> tuple[Question, ...]:
    """The checkpoints of a lab, in order. Importing them imports torch and diffusers."""
    path = lab.suite / "quiz.py"
    name = f"infralens_quiz_{lab.suite.parent.name}_{lab.suite.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        return ()
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    marks = (vars(value).get(MARK) for value in vars(module).values() if inspect.isfunction(value))
    return tuple(mark for mark in marks if isinstance(mark, Question))


def is_right(given: str, right: Answer, choices: Sequence[str] = ()) -> bool:
    """Whether what the learner typed says the right answer."""
    if choices:
        return _chosen(given, choices) == str(right)
    said = _said(given, right)
    if isinstance(right, float) and isinstance(said, float):
        return math.isclose(said, right, rel_tol=CLOSE, abs_tol=1e-9)
    return said is not None and said == (_plain(right) if isinstance(right, str) else right)


def is_an_answer(given: str, right: Answer, choices: Sequence[str] = ()) -> bool:
    """Whether it has the form of an answer. Nothing at all has: it passes the question over."""
    if not given.strip():
        return True
    return (_chosen(given, choices) if choices else _said(given, right)) is not None


def _plain(text: str) -> str:
    return " ".join(text.strip().lower().rstrip(".").replace("_", " ").split())


def _chosen(given: str, choices: Sequence[str]) -> str | None:
    """The choice named by its letter, its text, or a part of the text that no other has."""
    text = _plain(given)
    for letter, choice in zip("abcdefgh", choices, strict=False):
        if text in (letter, _plain(choice)):
            return choice
    among = [choice for choice in choices if text and text in _plain(choice)]
    return among[0] if len(among) == 1 and len(text) > 1 else None


def _said(given: str, right: Answer) -> Answer | None:
    """What was typed, as a value of the right answer's kind; None when it is none."""
    text = _plain(given)
    if isinstance(right, bool):
        return {**dict.fromkeys(YES, True), **dict.fromkeys(NO, False)}.get(text)
    if isinstance(right, tuple):
        parts = [part for part in re.split(r"[\s,x×]+", text.strip("()[]")) if part]
        whole = all(re.fullmatch(r"-?\d+", part) for part in parts)
        return tuple(map(int, parts)) if parts and whole else None
    if isinstance(right, int | float):
        if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", text):
            text = text.replace(",", "")
        try:
            return float(text)
        except ValueError:
            return None
    return text or None


def expects(right: Answer, choices: Sequence[str] = ()) -> str:
    """What kind of answer is asked for, in a few words."""
    if choices:
        return "a letter"
    if isinstance(right, bool):
        return "yes or no"
    if isinstance(right, tuple):
        return "numbers, like 2, 4, 8"
    if isinstance(right, int):
        return "a whole number"
    return "a number" if isinstance(right, float) else "a word"


def shown(right: Answer) -> str:
    """The right answer as text."""
    if isinstance(right, bool):
        return "yes" if right else "no"
    if isinstance(right, float):
        return f"{right:.6g}"
    return str(right)


def explained(question: Question, right: Answer) -> str:
    """The right answer and its explanation, which may begin with the answer itself."""
    text, answer = question.explanation, shown(right)
    begins = re.match(rf"{re.escape(answer)}(?!\w|\.\d)", text, flags=re.IGNORECASE)
    return text if begins else f"{answer}. {text}"
