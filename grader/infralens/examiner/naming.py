"""Naming a mistake: the check is run again with each misconception on the same inputs.

A misconception is named only when its own answer is the learner's answer. The size of a difference
says nothing: several mistakes make differences of one size.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infralens.examiner.comparison import (
    NO_ANSWER,
    LearnerError,
    MismatchError,
    NotUnpackedError,
    same_answer,
)
from infralens.examiner.misconceptions import Misconception, misconceptions_of
from infralens.examiner.rehearsal import RehearsedCandidate
from infralens.examiner.trial import ReplayedError, Trial, running

# Of processor time: where each replay runs a pipeline, all of them take a minute. By the clock on
# the wall a busy machine would find fewer names.
# For one todo, and for all todos of a run.
NAMING_SECONDS = {"full": (20.0, 40.0), "brief": (0.5, 40.0), "none": (-1.0, -1.0)}
_NOTHING = object()  # equal to no answer


@dataclass
class Names:
    """The search for names in one run: what it took so far, and what it has found out."""

    suite: Path
    naming: str = "full"
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    found: set[str] = field(default_factory=set)
    ruled_out: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def find(
        self,
        todo_id: str,
        check_name: str,
        trial: Trial,
        failure: MismatchError | LearnerError,
        check: Callable[[RehearsedCandidate], object],
    ) -> Misconception | None:
        """The first misconception of this todo that gives the learner's answer, if one does.

        What was named in another check is tried first; what gave another answer in an earlier case
        of this check is not tried again. The search ends with NAMING_SECONDS.
        """
        wrong = failure.answer if isinstance(failure, MismatchError) else failure.raised
        if wrong is NO_ANSWER:
            return None
        tolerance = 0.0
        if isinstance(failure, MismatchError) and failure.margin is not None:
            tolerance = failure.margin.tolerance
        stop_at = _where_it_failed(trial, failure)
        for misconception in self._likely_first(todo_id):
            if misconception.name in self.ruled_out[check_name]:
                continue
            if self._late(todo_id):
                return None
            began = time.thread_time()
            names = {**misconception.beside, misconception.replaces: misconception.answer}
            answer = _replay(functools.partial(check, RehearsedCandidate(names)), stop_at)
            self.seconds[todo_id] += time.thread_time() - began
            if answer is _NOTHING:
                continue
            if same_answer(answer, wrong, tolerance):
                self.found.add(misconception.name)
                return misconception
            self.ruled_out[check_name].add(misconception.name)
        return None

    def _late(self, todo_id: str) -> bool:
        most, most_of_all = NAMING_SECONDS[self.naming]
        return self.seconds[todo_id] > most or sum(self.seconds.values()) > most_of_all

    def _likely_first(self, todo_id: str) -> list[Misconception]:
        known = [known for known in misconceptions_of(self.suite) if known.todo == todo_id]
        return sorted(known, key=lambda misconception: misconception.name not in self.found)


def _where_it_failed(trial: Trial, failure: MismatchError | LearnerError) -> int:
    """The number of the comparison that failed, or of the next where none had begun."""
    at_a_comparison = isinstance(failure, MismatchError) and type(failure) is not NotUnpackedError
    return trial.compared - 1 if at_a_comparison else trial.compared


def _replay(check: Callable[[], object], stop_at: int) -> Any:
    """The answer at that comparison, or what was raised on the way to it."""
    try:
        with running(Trial(stop_at=stop_at)):
            check()
    except ReplayedError as replayed:
        return replayed.answer
    except NotUnpackedError as error:
        return error.answer
    except LearnerError as error:
        return error.raised
    except Exception:  # this misconception does not get as far as that
        return _NOTHING
    return _NOTHING
