"""What misconceptions came to, kept from one wrong answer of ours to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from infralens.labs import Lab

MOST_REPLAYS = 1000  # that are kept


@dataclass(frozen=True)
class Replayed:
    """What a misconception came to in a failing case, and what was seen on the way."""

    answer: Any
    seen: tuple[Any, ...]
    handed: tuple[tuple[Any, ...], ...]
    seconds: float  # of processor time


@dataclass
class Replays:
    """What misconceptions came to on the same inputs, from one wrong answer of ours to the next.

    Many are judged with one seed, so a misconception answers each of them alike.
    """

    inputs: tuple[object, ...] = ()
    known: dict[tuple[object, ...], Replayed] = field(default_factory=dict)
    drawn: dict[tuple[object, ...], bool] = field(default_factory=dict)  # another one each time

    def begin(self, lab: Lab, seed: int) -> None:
        """Forget what was found with another seed, or before a file of the lab was changed."""
        files = [*sorted(lab.suite.glob("*.*")), *([lab.solution] if lab.solution else [])]
        inputs = (seed, *((path, path.stat().st_mtime_ns) for path in files if path.is_file()))
        if inputs != self.inputs or len(self.known) > MOST_REPLAYS:
            self.inputs, self.known, self.drawn = inputs, {}, {}
