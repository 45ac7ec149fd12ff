"""Naming a mistake: the check is run again with each misconception on the same inputs.

A misconception is named only when its own answer is the learner's answer. The size of a difference
says nothing: several mistakes make differences of one size. A false name is worse than none, so
what else was seen must fit as well: the answers that were right before it, what was handed to what
was lent, and every other failing case of the todo in which that misconception fails too.

Numbers that are the same say enough. Of an answer that says little, such as an exception, a word
or that nothing was raised, many mistakes come to the same. A name that rests on such answers alone
must not fail what the learner's code passed, nor leave a failing case that no name accounts for:
another mistake, which has no name, may account for all of them.

A replay may be a run of a pipeline, so none is made that can change nothing: not of what another
case has ruled out, nor of what cannot fit in more cases than a name that may be said.
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

# Of processor time: where each replay runs a pipeline, all of them take a minute. By the clock on
# the wall a busy machine would find fewer names.
# For one todo, and for all todos of a run.
NAMING_SECONDS = {"full": (20.0, 40.0), "brief": (0.5, 40.0), "none": (-1.0, -1.0)}
# Besides, for holding what was found against everything else: a search that took all of its time
# leaves none, and what is not heard contradicts nothing.
SETTLING_SECONDS = {"full": (10.0, 20.0), "brief": (0.25, 10.0), "none": (0.0, 0.0)}
Name = tuple[str, str]  # of a misconception: its todo stands before it
Hearing = tuple[str, str, int]  # the same, and the failing case
Given = dict[str, ModuleType]  # what a lab gives beside a submission, run once in a run of it
_NOTHING = object()  # equal to no answer
MOST_CASES = 2  # failing cases of one check that a name is held against
MOST_EVIDENCE = 6  # the same of one todo, unless a check has none yet
RIGHT_SECONDS = 2.0  # of processor time, for the passed cases of one todo
MOST_RIGHT = 6  # passed cases that a name is held against, those of its own check first
MOST_PASSED = 4  # of one check: where two settings of two kinds meet, the third may be what tells
ANY_ORDER = 32  # calls that may have come in another order
MOST_NUMBERS = 1000  # of an answer that are looked at
MOST_AXES = 64  # that torch computes with; a tensor may have more
SMALL = 10  # whole numbers below that are counts, indices, sizes: anybody comes to them
FEW_NUMBERS = 3  # so many that differ from each other are not the same by chance
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

    number: int  # of those that this run looked at
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

    @property
    def says_much(self) -> bool:
        """Whether another mistake would hardly come to the same answer: it is several numbers."""
        return self.judge is not None and len(_numbers_in(self.wrong)) >= FEW_NUMBERS

    def replayed(
        self, misconception: Misconception, given: Given, replays: Replays | None = None
    ) -> Replayed:
        """Run the case again with this misconception, unless it is known what comes of it."""
        key = self._key(misconception)
        replayed = replays.known.get(key) if replays else None
        if replayed is None:
            replayed = self._replayed(misconception, given)
            if replays:
                replays.known[key] = replayed
        return replayed

    def fit(self, replayed: Replayed) -> Fit:
        """What a misconception says here, by what came of it."""
        if replayed.answer is _NOTHING:
            return Fit.SILENT
        alike = self._came_alike(replayed)
        wrong = self._is_wrong(replayed.answer)
        if alike and same_answer(replayed.answer, self.wrong, self.tolerance):
            # Near the limit an answer that is right there is like the learner's, which is not.
            return Fit.FITS if wrong or self.judge is None else Fit.UNAFFECTED
        return Fit.CONTRADICTS if wrong or not alike else Fit.UNAFFECTED

    def is_random(
        self,
        misconception: Misconception,
        given: Given,
        first: Any,
        replays: Replays | None = None,
    ) -> bool:
        """Whether it answers otherwise than at first: what is drawn speaks neither for nor against.

        It is run once more, unless that is known.
        """
        key = self._key(misconception)
        drawn = replays.drawn.get(key) if replays else None
        if drawn is None:
            again = self._replayed(misconception, given).answer
            drawn = not same_answer(first, again, self.tolerance)
            if replays:
                replays.drawn[key] = drawn
        return drawn

    def _key(self, misconception: Misconception) -> tuple[object, ...]:
        return self.case, self.stop_at, misconception.todo, misconception.name

    def _replayed(self, misconception: Misconception, given: Given) -> Replayed:
        trial = Trial(stop_at=self.stop_at)
        try:
            stand_in = RehearsedCandidate(misconception.names(), given=given)
        except Exception:  # an edit that does not fit the solution: `check` tells, no grade does
            return Replayed(_NOTHING, (), (), 0.0)
        began = time.thread_time()
        answer = _replay(functools.partial(self.check, stand_in), trial)
        took = time.thread_time() - began
        return Replayed(answer, tuple(trial.seen), tuple(trial.handed), took)

    def _came_alike(self, replayed: Replayed) -> bool:
        """Whether everything before the failure was the same: what was compared, what was lent."""
        if len(replayed.seen) < self.stop_at:  # it failed earlier, where the learner was right
            return False
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
    found: dict[Name, str] = field(default_factory=dict)  # in which check
    ruled_out: defaultdict[str, set[Name]] = field(default_factory=lambda: defaultdict(set))
    evidence: defaultdict[str, list[Evidence]] = field(default_factory=lambda: defaultdict(list))
    rights: defaultdict[str, list[Right]] = field(default_factory=lambda: defaultdict(list))
    given: Given = field(default_factory=dict)
    replays: Replays | None = None
    failed: dict[tuple[str, int], bool] = field(default_factory=dict)
    looked_at: int = 0  # failing cases
    fits: dict[Hearing, Fit] = field(default_factory=dict)
    contrary: dict[Hearing, Any] = field(default_factory=dict)  # answers that contradict
    heard: dict[Hearing, Fit] = field(default_factory=dict)  # draws set apart
    costs: dict[int, float] = field(default_factory=dict)  # of one replay of a failing case

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
        of this check, or may not be said because of another check, is not tried. None where a
        mistake in another todo is the whole of it. The search ends with NAMING_SECONDS.
        """
        evidence = self._evidence(case, check_name, trial, failure, check)
        if evidence is None:
            return None
        self._keep(todo_id, evidence)
        if self._comes_from_another_todo(todo_id, evidence):
            return None
        for misconception in self._likely_first(todo_id):
            if _name(misconception) in self.ruled_out[check_name]:
                continue
            if self._late(todo_id):
                return None
            if self._is_contradicted(todo_id, misconception, evidence):
                continue
            fit = self._fit(todo_id, misconception, evidence)
            if fit is Fit.FITS:
                self.found[_name(misconception)] = check_name
                return misconception
            if fit is not Fit.SILENT:
                self.ruled_out[check_name].add(_name(misconception))
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
        evidence = self._evidence(case, check_name, trial, failure, check)
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
        if self.naming != "none" and of_the_check < MOST_PASSED:
            self.rights[todo_id].append(
                Right(check_name, _called(trial), tuple(trial.seen), dict(trial.tolerances), check)
            )

    def settled(self, todo_id: str, check_name: str, named: str) -> Misconception | None:
        """The name for this check now that all cases were seen: of those that may be said, the one
        that fits in most.
        """
        known = {known.name: known for known in self._of(todo_id)}
        evidence = self.evidence[todo_id]
        here = [one for one in evidence if one.check_name == check_name]
        best, most = None, 0
        for misconception in [known[named], *self._likely_first(todo_id)]:
            if not self._fits_in_more(todo_id, misconception, evidence, most):
                continue
            if not any(self._may_fit(todo_id, misconception, one) for one in here):
                continue
            fits = (self._fit_in_time(todo_id, misconception, one) for one in here)
            if not any(fit is Fit.FITS for fit in fits):
                continue
            heard = []
            for one in evidence:
                if not self._fits_in_more(todo_id, misconception, evidence, most):
                    break
                heard.append((one, self._heard(todo_id, misconception, one)))
            found = sum(fit is Fit.FITS for _, fit in heard)
            if found > most and self._may_be_said(todo_id, misconception, check_name, heard):
                best, most = misconception, found
        return best

    def _fits_in_more(
        self,
        todo_id: str,
        misconception: Misconception,
        evidence: Sequence[Evidence],
        most: int,
    ) -> bool:
        """Whether it may fit in more of these cases than in so many, by what is known of it."""
        known = (self.fits.get(_hearing(misconception, one)) for one in evidence)
        return sum(fit in (Fit.FITS, None) for fit in known) > most

    def _comes_from_another_todo(self, todo_id: str, evidence: Evidence) -> bool:
        """Whether a mistake that is named in another todo answers as the learner's code does here.

        It is the whole of this failure then: nothing speaks for a mistake in this todo beside it.
        """
        ruled_out = self.ruled_out[evidence.check_name]
        for misconception in misconceptions_of(self.lab):
            todo, name = key = _name(misconception)
            if key not in self.found or todo == todo_id or key in ruled_out or self._late(todo_id):
                continue
            fit = self._fit(todo_id, misconception, evidence)
            if fit is Fit.FITS:
                said = self.settled(todo, self.found[key], name)
                if said is not None and said.name == name:
                    return True
            elif fit is not Fit.SILENT:
                ruled_out.add(key)
        return False

    def _is_contradicted(
        self, todo_id: str, misconception: Misconception, evidence: Evidence
    ) -> bool:
        """Whether it may not be said of this case because of another, which calls no more.

        That an answer is no draw is found out by one more replay of the other case: where that is
        not dearer than to hear this one.
        """
        others = [
            one
            for one in self.evidence[todo_id]
            if one.called <= evidence.called
            and self.fits.get(_hearing(misconception, one)) is Fit.CONTRADICTS
        ]
        if any(self.heard.get(_hearing(misconception, one)) is Fit.CONTRADICTS for one in others):
            return True
        if _hearing(misconception, evidence) in self.fits:
            return False
        others = [one for one in others if _hearing(misconception, one) not in self.heard]
        other = min(others, key=lambda one: self.costs[one.number], default=None)
        if other is None or self.costs[other.number] > self.costs.get(evidence.number, 0.0):
            return False
        return self._heard(todo_id, misconception, other) is Fit.CONTRADICTS

    def _may_fit(self, todo_id: str, misconception: Misconception, evidence: Evidence) -> bool:
        """Whether it fits this case, or may, and then may be said of it."""
        if self.fits.get(_hearing(misconception, evidence), Fit.FITS) is not Fit.FITS:
            return False
        return not self._is_contradicted(todo_id, misconception, evidence)

    def _fit_in_time(
        self, todo_id: str, misconception: Misconception, evidence: Evidence
    ) -> Fit | None:
        """How it fits a case; None where no time is left to find out."""
        if _hearing(misconception, evidence) not in self.fits and self._late(
            todo_id, settling=True
        ):
            return None
        return self._fit(todo_id, misconception, evidence)

    def _heard(self, todo_id: str, misconception: Misconception, evidence: Evidence) -> Fit | None:
        """How it fits a case, where that is known, and where the answer is no draw."""
        key = _hearing(misconception, evidence)
        if key not in self.heard:
            fit = self._fit_in_time(todo_id, misconception, evidence)
            if fit is None:
                return None
            if fit is Fit.CONTRADICTS and not self._late(todo_id, settling=True):
                began = time.thread_time()
                first = self.contrary.pop(key)
                if evidence.is_random(misconception, self.given, first, self.replays):
                    fit = Fit.SILENT
                self.seconds[todo_id] += time.thread_time() - began
            self.heard[key] = fit
        return self.heard[key]

    def _may_be_said(
        self,
        todo_id: str,
        misconception: Misconception,
        check_name: str,
        heard: Sequence[tuple[Evidence, Fit | None]],
    ) -> bool:
        """Whether nothing that was seen speaks against a name that fits here.

        Numbers that are the same are not said to be otherwise by what calls another function: the
        learner may have a mistake in each, and the edited solution makes one of the other. Where an
        answer says little, a case that was not heard for lack of time may speak against the name.
        """
        fitting = [one for one, fit in heard if fit is Fit.FITS]
        sure = any(one.says_much for one in fitting)
        called = frozenset[str]().union(*(one.called for one in fitting))
        against = [one for one, fit in heard if fit is Fit.CONTRADICTS]
        if any(not sure or one.called <= called for one in against):
            return False
        if sure:
            return True
        left = [one for one, fit in heard if fit is Fit.UNAFFECTED and one.called & called]
        return (
            all(fit is not None for _, fit in heard)
            and all(self._has_a_name(todo_id, one) for one in left)
            and not self._fails_what_is_right(todo_id, misconception, check_name, called)
        )

    def _has_a_name(self, todo_id: str, evidence: Evidence) -> bool:
        """Whether a misconception that was found in another case fits this one."""
        return any(
            self._heard(todo_id, misconception, evidence) is Fit.FITS
            for misconception in self._of(todo_id)
            if _name(misconception) in self.found
        )

    def _fails_what_is_right(
        self, todo_id: str, misconception: Misconception, check_name: str, called: frozenset[str]
    ) -> bool:
        """Whether it fails a case that the learner passed.

        What calls another function than those `called` may pass while that one is wrong in the
        edited solution alone, where it is made of the first.
        """
        own = {name.partition(".")[0] for name in self.lab.todo_of_name}
        heard = [one for one in self.rights[todo_id] if one.called & own <= called]
        if any(self.failed.get((misconception.name, id(one))) for one in heard):
            return True  # as another check has found out
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

    def _evidence(
        self,
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
        self.looked_at += 1
        return Evidence(
            self.looked_at,
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

    def _keep(self, todo_id: str, evidence: Evidence) -> None:
        kept = self.evidence[todo_id]
        of_the_check = sum(one.check_name == evidence.check_name for one in kept)
        room = len(kept) < MOST_EVIDENCE and of_the_check < MOST_CASES
        if room or not of_the_check:  # every check that failed is heard once
            kept.append(evidence)

    def _fit(self, todo_id: str, misconception: Misconception, evidence: Evidence) -> Fit:
        key = _hearing(misconception, evidence)
        if key not in self.fits:
            began = time.thread_time()
            replayed = evidence.replayed(misconception, self.given, self.replays)
            fit = self.fits[key] = evidence.fit(replayed)
            if fit is Fit.CONTRADICTS:
                self.contrary[key] = replayed.answer
            self.seconds[todo_id] += time.thread_time() - began
            cost = self.costs.get(evidence.number, replayed.seconds)  # the first one takes longer
            self.costs[evidence.number] = min(replayed.seconds, cost)
        return self.fits[key]

    def _late(self, todo_id: str, *, settling: bool = False) -> bool:
        most, most_of_all = NAMING_SECONDS[self.naming]
        if settling:
            more, more_of_all = SETTLING_SECONDS[self.naming]
            most, most_of_all = most + more, most_of_all + more_of_all
        return self.seconds[todo_id] > most or sum(self.seconds.values()) > most_of_all

    def _likely_first(self, todo_id: str) -> list[Misconception]:
        found = {name for _, name in self.found}
        return sorted(self._of(todo_id), key=lambda known: known.name not in found)

    def _of(self, todo_id: str) -> list[Misconception]:
        return [known for known in misconceptions_of(self.lab) if known.todo == todo_id]


def _name(misconception: Misconception) -> Name:
    return misconception.todo, misconception.name


def _hearing(misconception: Misconception, evidence: Evidence) -> Hearing:
    return misconception.todo, misconception.name, evidence.number


def _called(trial: Trial) -> frozenset[str]:
    """The functions and classes that were called, by themselves or in a method."""
    return frozenset(call.name.partition(".")[0] for call in trial.calls)


def _says_nothing(answer: Any) -> bool:
    """Whether an answer is numbers of which none is finite: it is like any other of that kind.

    Nor does one of more axes than torch computes with: it is nobody's mistake.
    """
    if isinstance(answer, Tensor):
        if answer.ndim > MOST_AXES:
            return True
        return bool(answer.numel()) and not bool(answer.isfinite().any())
    if isinstance(answer, float):
        return not math.isfinite(answer)
    if isinstance(answer, list | tuple) and answer:
        return all(map(_says_nothing, answer))
    if isinstance(answer, dict) and answer:
        return all(map(_says_nothing, answer.values()))
    return False


def _numbers_in(answer: Any) -> set[float]:
    """The numbers of an answer that differ: finite ones, and no small counts, which are anybody's.

    Of what is long the first MOST_NUMBERS.
    """
    if isinstance(answer, Tensor):
        plain = not (answer.is_complex() or answer.is_meta or answer.dtype is torch.bool)
        numbers = answer.flatten()[:MOST_NUMBERS].tolist() if plain else []
    elif isinstance(answer, float | int):
        numbers = [] if isinstance(answer, bool) else [float(answer)]
    elif isinstance(answer, list | tuple | dict):
        parts = list(answer.values() if isinstance(answer, dict) else answer)
        return set[float]().union(*map(_numbers_in, parts[:MOST_NUMBERS]))
    else:
        numbers = []
    return {x for x in numbers if math.isfinite(x) and (abs(x) >= SMALL or x % 1)}


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
