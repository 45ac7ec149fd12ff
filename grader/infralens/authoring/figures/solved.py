"""A lab's solution as the figures draw with it: its functions here, or a candidate of them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from matplotlib.figure import Figure

from infralens.examiner.candidate.in_process import RehearsedCandidate
from infralens.examiner.run.trial import Trial, running
from infralens.labs import find_lab, find_labs
from infralens.wrong import wrong_answers

SEED = 3
WIDTH = 7.2  # inches: a column of text


def text_of(name: str, mistake: str = "") -> str:
    """A lab's solution, or its wrong answer `mistake`: both are ours."""
    lab = find_lab(name, find_labs())
    if lab.solution is None:
        raise FileNotFoundError(f"{name} has no solution here; draw in a checkout.")
    text = lab.solution.read_text(encoding="utf-8")
    if not mistake:
        return text
    return next(wrong for wrong in wrong_answers(lab) if wrong.name == mistake).edited(text)


def solved(name: str, mistake: str = "") -> Any:
    """The functions of that text."""
    module = ModuleType("solution")
    exec(compile(text_of(name, mistake), name, "exec"), vars(module))
    return SimpleNamespace(**vars(module))


def shown(name: str, draw: Callable[[Any, int], Figure]) -> Figure:
    """What `infralens show` draws of a lab with its solution."""
    with running(Trial()):
        return draw(RehearsedCandidate(vars(solved(name))), SEED)
