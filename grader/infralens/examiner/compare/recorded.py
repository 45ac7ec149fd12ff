"""Functions lent to the learner, with every call they get; and runs compared call by call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from infralens.examiner.compare.asserts import assert_agrees, assert_equals
from infralens.examiner.compare.curve import curve_of_calls
from infralens.examiner.errors import MismatchError

Calls = Sequence[tuple[Any, ...]]


class Recorded:
    """A function that remembers the arguments of its calls, in order."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.__name__ = function, name
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(f"call {self.__name__} with its arguments by position")
        self.calls.append(args)
        with torch.no_grad():
            return self.function(*args)


def recorded(function: Callable[..., Any], name: str = "denoiser") -> Recorded:
    """`function`, with a list of the calls it gets in `calls`. Lend it to the learner."""
    return Recorded(function, name)


def assert_calls(
    mine: Calls, *, library: Callable[[], Calls], names: Sequence[str], of: str = "the denoiser"
) -> None:
    """The same number of calls as the library's run made, each with the same arguments.

    The first difference is what is reported: which call, which argument, how far off. `names` are
    the arguments that are compared, by position; an empty name passes one over.
    """
    made: list[Calls] = []

    def expected() -> Calls:
        if not made:
            made.append(list(library()))
        return made[0]

    def argument(number: int, place: int) -> Any:
        return comparable(expected()[number][place])

    assert_equals(len(mine), library=lambda: len(expected()), what=f"how often {of} was called")
    turns = range(len(mine))
    for number in turns:
        for place, name in enumerate(names):
            if name:
                try:
                    assert_agrees(
                        comparable(mine[number][place]),
                        library=functools.partial(argument, number, place),
                        what=f"`{name}` in call {number} of {of}",
                    )
                except MismatchError as mismatch:
                    pairs = [(argument(turn, place), _given(mine[turn], place)) for turn in turns]
                    what = f"`{name}` in each call of {of}"
                    mismatch.curve = functools.partial(curve_of_calls, pairs, what)
                    raise


def _given(call: tuple[Any, ...], place: int) -> Any:
    """An argument of one of the learner's calls; None where there is none that can be compared."""
    try:
        return comparable(call[place])
    except (IndexError, OverflowError, RuntimeError, TypeError):
        return None


def told(calls: Calls) -> str:
    """How many calls there were and at which timesteps, in a line; t is the second argument."""
    times = [comparable(call[1]) for call in calls]
    texts = [f"{t:g}" if isinstance(t, float) else f"a {type(t).__name__}" for t in times]
    return f"{len(calls)} calls, at {', '.join(texts) or 'no timestep'}"


def comparable(value: Any) -> Any:
    """A timestep may come as a number or as a tensor of one; both are the same answer."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
