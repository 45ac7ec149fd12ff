"""Naming a mistake: the check is run again with each misconception on the same inputs.

A misconception is named only when its own answer is the learner's answer. The size of a difference
says nothing: several mistakes make differences of one size. A false name is worse than none, so
what else was seen must fit as well: the answers that were right before it, what was handed to what
was lent, every other failing case of the todo in which that misconception fails too, and, where the
answer is an exception, some cases that the learner's code passed: there it must not fail.
"""

from __future__ import annotations

import functools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from infralens.examiner.candidate.in_process import RehearsedCandidate
from infralens.examiner.compare.same import same_answer
from infralens.examiner.errors import (
    NO_ANSWER,
    LearnerError,
    MismatchError,
    NotUnpackedError,
    ReplayedError,
)
from infralens.examiner.mistakes.misconceptions import Misconception, misconceptions_of
from infralens.examiner.mistakes.replays import Replayed, Replays
from infralens.examiner.run.trial import Trial, running
from infralens.labs import Lab
from infralens.wire import Raised

# Of processor time: where each replay runs a pipeline, all of them take a minute. By the clock on
# the wall a busy machine would find fewer names.
# For one todo, and for all todos of a run.
NAMING_SECONDS = {"full": (20.0, 40.0), "brief": (0.5, 40.0), "none": (-1.0, -1.0)}
Given = dict[str, ModuleType]  # what a lab gives beside a submission, run once in a run of it
_NOTHING = object()  # equal to no answer
MOST_CASES = 2  # failing cases of one check that a name is held against
MOST_EVIDENCE = 6  # the same of one todo, unless a check has none yet
RIGHT_SECONDS = 2.0  # of processor time, for the passed cases of one todo
MOST_RIGHT = 6  # passed cases that a name is held against, those of its own check first
ANY_ORDER = 32  # calls that may have come in another order
HANDED_SHARE = 1e-3  # of the largest value: what was handed over is the same up to that


class Fit(Enum):
    """What a misconception says about a failing case."""

    FITS = 1
    UNAFFECTED = 2  # it is right there: another mistake made that case fail
    CONTRADICTS = 3  # it fails there too, in another way
    SILENT = 4  # it does not get as far as that


@dataclass(frozen=True)
class Evidence:
    """A failing case as it was seen."""

    case: str
    check_name: str
    wrong: Any
    tolerance: float
    stop_at: int
    seen: tuple[Any, ...]
    tolerances: dict[int, float]
    handed: tuple[tuple[Any, ...], ...]
    judge: Callable[[Any], None] | None
    check: Callable[[RehearsedCandidate], object]
    called: frozenset[str]

    def fit(
        self, misconception: Misconception, given: Given, replays: Replays | None = None
    ) -> Fit:
        """Run the case again with this misconception, unless it is known what comes of it."""
        key = (self.case, self.stop_at, misconception.todo, misconception.name)
        replayed = replays.known.get(key) if replays else None
        if replayed is None:
            replayed = self._replayed(misconception, given)
            if replays:
                replays.known[key] = replayed
        if replayed.answer is _NOTHING:
            return Fit.SILENT
        alike = self._came_alike(replayed)
        if alike and same_answer(replayed.answer, self.wrong, self.tolerance):
            return Fit.FITS
        if not alike or self._is_wrong(replayed.answer):
            return Fit.CONTRADICTS
        return Fit.UNAFFECTED

    def is_random(self, misconception: Misconception, given: Given) -> bool:
        """Whether it answers otherwise each time: such an answer speaks neither for nor against."""
        first, again = (self._replayed(misconception, given).answer for _ in range(2))
        return not same_answer(first, again, self.tolerance)

    def _replayed(self, misconception: Misconception, given: Given) -> Replayed:
        trial = Trial(stop_at=self.stop_at)
        try:
            stand_in = RehearsedCandidate(misconception.names(), given=given)
        except Exception:  # an edit that does not fit the solution: `check` tells, no grade does
            return Replayed(_NOTHING, (), ())
        answer = _replay(functools.partial(self.check, stand_in), trial)
        return Replayed(answer, tuple(trial.seen), tuple(trial.handed))

    def _came_alike(self, replayed: Replayed) -> bool:
        """Whether everything before the failure was the same: what was compared, what was lent."""
        earlier = zip(self.seen, replayed.seen, strict=False)
        return all(
            same_answer(mine, other, 2 * self.tolerances.get(place, 0.0)) or _says_nothing(mine)
            for place, (mine, other) in enumerate(earlier)
            if place < self.stop_at
        ) and _handed_alike(self.handed, replayed.handed)

    def _is_wrong(self, answer: Any) -> bool:
        if self.judge is None:
            return False
        try:
            with running(Trial(compared=1)):
                self.judge(answer)
        except MismatchError:
            return True
        return False


@dataclass(frozen=True)
class Right:
    """A case that the learner's code passed, and which names of it were called there."""

    check_name: str
    called: frozenset[str]
    seen: tuple[Any, ...]
    tolerances: dict[int, float]
    check: Callable[[RehearsedCandidate], object]

    def is_failed_by(self, misconception: Misconception, given: Given) -> bool:
        """Whether it answers otherwise there, and is wrong in that."""
        try:
            stand_in = RehearsedCandidate(misconception.names(), given=given)
        except Exception:
            return False
        trial = Trial(stop_at=len(self.seen))
        if _replay(functools.partial(self.check, stand_in), trial) is _NOTHING and all(
            same_answer(mine, other, 2 * self.tolerances.get(place, 0.0))
            for place, (mine, other) in enumerate(zip(self.seen, trial.seen, strict=False))
        ):
            return False
        try:
            with running(Trial()):
                self.check(stand_in)
        except MismatchError as mismatch:
            return mismatch.answer is not NO_ANSWER
        except LearnerError:
            return True
        except Exception:  # it does not get as far as an answer
            return False
        return False


@dataclass
class Names:
    """The search for names in one run: what it took so far, and what it has found out."""

    lab: Lab
    naming: str = "full"
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    hearing: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    found: set[str] = field(default_factory=set)
    ruled_out: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    evidence: defaultdict[str, list[Evidence]] = field(default_factory=lambda: defaultdict(list))
    rights: defaultdict[str, list[Right]] = field(default_factory=lambda: defaultdict(list))
    given: Given = field(default_factory=dict)
    replays: Replays | None = None
    failed: dict[tuple[str, int], bool] = field(default_factory=dict)
    fits: dict[tuple[str, int], Fit] = field(default_factory=dict)

    def find(
        self,
        todo_id: str,
        check_name: str,
        trial: Trial,
        failure: MismatchError | LearnerError,
        check: Callable[[RehearsedCandidate], object],
        case: str = "",
    ) -> Misconception | None:
        """The first misconception of this todo that gives the learner's answer, if one does.

        What was named in another check is tried first; what gave another answer in an earlier case
        of this check is not tried again. The search ends with NAMING_SECONDS.
        """
        evidence = _evidence(case, check_name, trial, failure, check)
        if evidence is None:
            return None
        self._keep(todo_id, evidence)
        for misconception in self._likely_first(todo_id):
            if misconception.name in self.ruled_out[check_name]:
                continue
            if self._late(todo_id):
                return None
            fit = self._fit(todo_id, misconception, evidence)
            if fit is Fit.FITS:
                self.found.add(misconception.name)
                return misconception
            if fit is not Fit.SILENT:
                self.ruled_out[check_name].add(misconception.name)
        return None

    def note(
        self,
        todo_id: str,
        check_name: str,
        trial: Trial,
        failure: MismatchError | LearnerError,
        check: Callable[[RehearsedCandidate], object],
        case: str = "",
    ) -> None:
        """A failing case of a check that has its name: the name must fit it too."""
        evidence = _evidence(case, check_name, trial, failure, check)
        if evidence is not None:
            self._keep(todo_id, evidence)

    def note_right(
        self,
        todo_id: str,
        check_name: str,
        trial: Trial,
        check: Callable[[RehearsedCandidate], object],
    ) -> None:
        """A passed case: what fails there is not the learner's mistake."""
        of_the_check = sum(one.check_name == check_name for one in self.rights[todo_id])
        if self.naming != "none" and of_the_check < MOST_CASES:
            self.rights[todo_id].append(
                Right(check_name, _called(trial), tuple(trial.seen), dict(trial.tolerances), check)
            )

    def settled(self, todo_id: str, check_name: str, named: str) -> Misconception | None:
        """The name for this check now that all cases were seen: of those that contradict none, the
        one that fits in most.
        """
        known = {known.name: known for known in self._of(todo_id)}
        evidence = self.evidence[todo_id]
        here = [one for one in evidence if one.check_name == check_name]
        best, most = None, 0
        for misconception in [known[named], *self._likely_first(todo_id)]:
            if misconception.name != named and self._late(todo_id):
                break
            if not any(self._fit(todo_id, misconception, one) is Fit.FITS for one in here):
                continue
            fits: list[Fit] = []
            for one in evidence:
                if self._late(todo_id):
                    break
                fit = self._fit(todo_id, misconception, one)
                if fit is Fit.CONTRADICTS and one.is_random(misconception, self.given):
                    fit = Fit.SILENT
                fits.append(fit)
            if Fit.CONTRADICTS in fits or (found := fits.count(Fit.FITS)) <= most:
                continue
            fitting = [one for one, fit in zip(evidence, fits, strict=False) if fit is Fit.FITS]
            if not self._fails_what_is_right(todo_id, misconception, check_name, fitting):
                best, most = misconception, found
        return best

    def _fails_what_is_right(
        self,
        todo_id: str,
        misconception: Misconception,
        check_name: str,
        fitting: Sequence[Evidence],
    ) -> bool:
        """Whether it fails a case that the learner passed, where the name rests on what was raised.

        What is raised is known by its type, so many mistakes fit; numbers that are the same say
        enough. What calls another function may pass while that one is wrong in the edited solution
        alone, where it is made of the first.
        """
        if not all(isinstance(one.wrong, Raised) for one in fitting):
            return False
        own = {name.partition(".")[0] for name in self.lab.todo_of_name}
        names = frozenset[str]().union(*(one.called for one in fitting))
        heard = [one for one in self.rights[todo_id] if one.called & own <= names]
        heard.sort(key=lambda one: one.check_name != check_name)
        for one in heard[:MOST_RIGHT]:
            key = misconception.name, id(one)
            if key not in self.failed:
                if self.hearing[todo_id] > min(RIGHT_SECONDS, NAMING_SECONDS[self.naming][0]):
                    break
                began = time.thread_time()
                self.failed[key] = one.is_failed_by(misconception, self.given)
                self.hearing[todo_id] += time.thread_time() - began
            if self.failed[key]:
                return True
        return False

    def _keep(self, todo_id: str, evidence: Evidence) -> None:
        kept = self.evidence[todo_id]
        of_the_check = sum(one.check_name == evidence.check_name for one in kept)
        room = len(kept) < MOST_EVIDENCE and of_the_check < MOST_CASES
        if room or not of_the_check:  # every check that failed is heard once
            kept.append(evidence)

    def _fit(self, todo_id: str, misconception: Misconception, evidence: Evidence) -> Fit:
        key = misconception.name, id(evidence)
        if key not in self.fits:
            began = time.thread_time()
            self.fits[key] = evidence.fit(misconception, self.given, self.replays)
            self.seconds[todo_id] += time.thread_time() - began
        return self.fits[key]

    def _late(self, todo_id: str) -> bool:
        most, most_of_all = NAMING_SECONDS[self.naming]
        return self.seconds[todo_id] > most or sum(self.seconds.values()) > most_of_all

    def _likely_first(self, todo_id: str) -> list[Misconception]:
        return sorted(self._of(todo_id), key=lambda known: known.name not in self.found)

    def _of(self, todo_id: str) -> list[Misconception]:
        return [known for known in misconceptions_of(self.lab) if known.todo == todo_id]


def _evidence(
    case: str,
    check_name: str,
    trial: Trial,
    failure: MismatchError | LearnerError,
    check: Callable[[RehearsedCandidate], object],
) -> Evidence | None:
    """What was seen of a failing case; None where no misconception could share its answer."""
    wrong = failure.answer if isinstance(failure, MismatchError) else failure.raised
    if wrong is NO_ANSWER or _says_nothing(wrong):
        return None
    mismatch = failure if isinstance(failure, MismatchError) else None
    margin = mismatch.margin if mismatch else None
    return Evidence(
        case,
        check_name,
        wrong,
        margin.tolerance if margin else 0.0,
        _where_it_failed(trial, failure),
        tuple(trial.seen),
        dict(trial.tolerances),
        tuple(trial.handed),
        mismatch.judge if mismatch else None,
        check,
        _called(trial),
    )


def _called(trial: Trial) -> frozenset[str]:
    """The functions and classes that were called, by themselves or in a method."""
    return frozenset(call.name.partition(".")[0] for call in trial.calls)


def _says_nothing(answer: Any) -> bool:
    """Whether an answer is numbers of which none is finite: it is like any other of that kind."""
    if isinstance(answer, Tensor):
        return bool(answer.numel()) and not bool(answer.isfinite().any())
    if isinstance(answer, float):
        return not math.isfinite(answer)
    if isinstance(answer, list | tuple) and answer:
        return all(map(_says_nothing, answer))
    if isinstance(answer, dict) and answer:
        return all(map(_says_nothing, answer.values()))
    return False


def _handed_alike(mine: Sequence[tuple[Any, ...]], other: Sequence[tuple[Any, ...]]) -> bool:
    """As many calls of what was lent, with the same tensors; a few may come in another order."""
    if len(mine) != len(other):
        return False
    if all(_near(a, b) for a, b in zip(mine, other, strict=True)):
        return True
    left = list(other) if len(mine) <= ANY_ORDER else []
    for call in mine:
        place = next((i for i, one in enumerate(left) if _near(call, one)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def _near(mine: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(mine) == len(other) and all(
        a.shape == b.shape
        and a.dtype == b.dtype
        and torch.allclose(
            a.double(), b.double(), rtol=0.0, atol=HANDED_SHARE * _largest(a), equal_nan=True
        )
        for a, b in zip(mine, other, strict=True)
    )


def _largest(tensor: Tensor) -> float:
    return float(tensor.double().nan_to_num(0.0, 0.0, 0.0).abs().max())


def _where_it_failed(trial: Trial, failure: MismatchError | LearnerError) -> int:
    """The number of the comparison that failed, or of the next where none had begun."""
    at_a_comparison = isinstance(failure, MismatchError) and type(failure) is not NotUnpackedError
    return trial.compared - 1 if at_a_comparison else trial.compared


def _replay(check: Callable[[], object], trial: Trial) -> Any:
    """The answer at that comparison, or what was raised on the way to it."""
    try:
        with running(trial):
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
