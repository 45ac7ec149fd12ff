"""Naming a mistake: the check is run again with each misconception on the same inputs.

A misconception is named only when its own answer is the learner's answer. The size of a difference
says nothing: several mistakes make differences of one size.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
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

_NOTHING = object()  # equal to no answer


def name_the_misconception(
    suite: Path,
    todo_id: str,
    trial: Trial,
    failure: MismatchError | LearnerError,
    check: Callable[[RehearsedCandidate], object],
    *,
    until: float = math.inf,
) -> Misconception | None:
    """The first misconception of this todo that gives the learner's answer, if one does.

    None is tried after `until`, seconds of time.monotonic.
    """
    wrong = failure.answer if isinstance(failure, MismatchError) else failure.raised
    if wrong is NO_ANSWER:
        return None
    tolerance = 0.0
    if isinstance(failure, MismatchError) and failure.margin is not None:
        tolerance = failure.margin.tolerance
    at_a_comparison = isinstance(failure, MismatchError) and type(failure) is not NotUnpackedError
    stop_at = trial.compared - 1 if at_a_comparison else trial.compared
    for misconception in misconceptions_of(suite):
        if misconception.todo != todo_id:
            continue
        if time.monotonic() > until:
            return None
        names = {**misconception.beside, misconception.replaces: misconception.answer}
        stand_in = RehearsedCandidate(names)
        answer = _replay(functools.partial(check, stand_in), stop_at)
        if answer is not _NOTHING and same_answer(answer, wrong, tolerance):
            return misconception
    return None


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
