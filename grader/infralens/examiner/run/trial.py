"""The record of one run of one check: which calls were made, which answers were compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from infralens.examiner.errors import GraderFaultError, ReplayedError
from infralens.examiner.run.suspects import Suspects
from infralens.report import Margin

Hear = Callable[[Any], Any]


@dataclass(frozen=True)
class Call:
    """One call of the learner's code, as it was made."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parameters: tuple[str, ...] = ()


def plainly(answer: Any) -> Any:
    """The library's answer as it is."""
    return answer


@dataclass
class Trial:
    """Calls and comparisons of one run. With `stop_at`, comparisons are skipped up to that one."""

    case: str = ""  # its id
    round_: int = 0
    stop_at: int | None = None
    hear: Hear = plainly  # what the library says: a proof of the suite hears it slightly wrong
    calls: list[Call] = field(default_factory=list)
    margins: list[Margin] = field(default_factory=list)
    references: set[str] = field(default_factory=set)
    compared: int = 0
    suspects: Suspects = field(default_factory=Suspects)
    answers: int = 0
    seen: list[Any] = field(default_factory=list)  # what was compared, in order
    tolerances: dict[int, float] = field(default_factory=dict)  # of those that are numbers
    handed: list[tuple[Any, ...]] = field(default_factory=list)  # tensors given to what was lent

    def received(self, *values: Any) -> None:
        """Values have come from the submission: suspects until an assertion passes them."""
        self.answers += 1
        self.suspects.received(*values)

    def compare(self, answer: Any, reference: str) -> bool:
        """Count a comparison; False when it is to be skipped because this is a replay."""
        self.references.add(reference)
        index, self.compared = self.compared, self.compared + 1
        self.seen.append(answer)
        if self.stop_at is None:
            return True
        if index == self.stop_at:
            raise ReplayedError(answer)
        return False


_current: ContextVar[Trial | None] = ContextVar("trial", default=None)


def current_trial() -> Trial:
    """The trial in progress. Comparisons and candidates are used only inside one."""
    trial = _current.get()
    if trial is None:
        raise GraderFaultError("a comparison was made outside a check")
    return trial


def received(*values: Any) -> None:
    """Note what came from the submission, where a check is in progress."""
    trial = _current.get()
    if trial is not None:
        trial.received(*values)


def handed_over(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Note the tensors that the submission has given to something lent to it."""
    trial = _current.get()
    tensors = tuple(
        value
        for value in (*args, *kwargs.values())
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1
    )
    if trial is not None and tensors:
        trial.handed.append(tensors)


@contextmanager
def running(trial: Trial) -> Iterator[Trial]:
    """Make `trial` the one that calls and comparisons are recorded in."""
    token = _current.set(trial)
    try:
        yield trial
    finally:
        _current.reset(token)
