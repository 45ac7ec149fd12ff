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
    text = " ".join(given.strip().lower().rstrip(".").replace("_", " ").split())
    if choices:
        letter = chr(ord("a") + list(choices).index(str(right)))
        return text in (letter, str(right).lower().replace("_", " "))
    if isinstance(right, bool):
        return text in (("yes", "y", "true") if right else ("no", "n", "false"))
    if isinstance(right, tuple):
        numbers = text.strip("()[]").replace("x", ",").replace("×", ",").replace(" ", ",")
        return [part for part in numbers.split(",") if part] == [str(item) for item in right]
    if isinstance(right, int | float):
        try:
            value = float(text.replace(",", ""))
        except ValueError:
            return False
        if isinstance(right, int):
            return value == right
        return math.isclose(value, right, rel_tol=CLOSE, abs_tol=1e-9)
    return text == right.lower().replace("_", " ")


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
