"""The pytest plugin: runs a lab's checks against a candidate."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from infralens.examiner.candidate.submission import Submission
from infralens.examiner.compare.describe import call_text
from infralens.examiner.compare.inputs import Draw
from infralens.examiner.errors import (
    NO_ANSWER,
    AlarmError,
    GraderFaultError,
    LearnerError,
    MismatchError,
    NoAnswerError,
    SubmissionError,
    UngradableError,
)
from infralens.examiner.isolation.alarm import done_by
from infralens.examiner.memory.allowance import CHECK_BYTES, CHECK_SENTENCE, Allowance
from infralens.examiner.mistakes.naming import Names
from infralens.examiner.run.cases import CANARY, Case, case_id, case_of, runs_alone
from infralens.examiner.run.outcomes import CaseOutcome, Results, frames_of, sentence_of
from infralens.examiner.run.suites import ImportedSuites
from infralens.examiner.run.trial import Hear, Trial, plainly, running
from infralens.importing import nothing_is_garbage
from infralens.labs import Lab
from infralens.report import (
    CheckStatus,
    Detail,
)
from infralens.wrong import BadWrongAnswerError, likely_reading, wrong_answers

PLAIN_PYTEST = (
    *("-c", str(Path(__file__).with_name("pytest.ini"))),
    *("--import-mode=importlib", "--assert=plain", "--capture=no", "--noconftest"),
    *(
        f"-pno:{name}"
        for name in (
            "cacheprovider",
            "terminal",
            "terminalprogress",
            "doctest",
            "junitxml",
            "logging",
            "pastebin",
            "stepwise",
            "setuponly",
            "setupplan",
            "debugging",
            "faulthandler",
            "unraisableexception",
            "threadexception",
            "warnings",
            "tmpdir",
            "monkeypatch",
            "recwarn",
            "subtests",
        )
    ),
)

MAX_MESSAGE = 2000  # a report holds a sentence, not what a submission can make of one
OVERTIME = "computing with what your code answered took longer than this lab has time"
STOPPED = "not run: an earlier check of this todo failed, and no more was asked for"
FAILURES = (MismatchError, LearnerError, NoAnswerError, UngradableError)
Emit = Callable[[dict[str, Any]], None]


def todo(todo_id: str, *, guards: str = "", again: bool = True) -> pytest.MarkDecorator:
    """Mark a check as belonging to a todo. A check without this mark is a fault of the suite.

    A check is there because it alone catches some misconception; one that is there for another
    reason names the property that it `guards`. Its last case is run `again` with other values, so
    that what was remembered by its shapes is wrong; not where that is dear and another check of the
    todo asks for it.
    """
    return pytest.mark.todo(todo_id, guards=guards, again=again)


class Submitted(Protocol):
    """What a run asks of the link to a submission."""

    @property
    def submission(self) -> Submission: ...

    @property
    def failure(self) -> Exception | None: ...

    def begin_check(self) -> None: ...

    def latest(self) -> float: ...

    def output(self) -> str: ...


class ExaminerPlugin:
    """The hooks and fixtures of one run."""

    def __init__(
        self,
        lab: Lab,
        link: Submitted,
        candidate: Any,
        *,
        seed: int,
        device: str,
        todos: frozenset[str],
        emit: Emit,
        naming: str = "full",
        stop: str = "never",
        first: str | None = None,
        hear: Hear = plainly,
    ) -> None:
        self.lab, self.link, self._candidate = lab, link, candidate
        self.seed, self._device, self.todos, self.emit = seed, device, todos, emit
        self.canary_failed = False
        self.fault: str | None = None
        self.given_up: set[str] = set()
        self.names = Names(lab, naming)
        chosen = {todo.id: dict[str, str]() for todo in lab.todos if todo.id in todos}
        self.results = Results(lab, link.submission, self.names, chosen)
        self.stop, self.first, self.hear = stop, first, hear
        self.stopped: set[str] = set()

    @pytest.fixture
    def candidate(self) -> Any:
        return self._candidate

    @pytest.fixture
    def draw(self, request: pytest.FixtureRequest) -> Draw:
        return Draw(self.seed, case_id(request.node), self._device)

    @pytest.fixture
    def device(self) -> str:
        return self._device

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "todo(id): the todo that this check belongs to")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note_fault(f"the suite of {self.lab.id} cannot be loaded: {report.longrepr}")

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        cases = {case_of(item): item for item in items}
        items[:] = [cases[case] for case in self.planned(cases)]

    def planned(self, cases: Iterable[Case]) -> list[Case]:
        """Those that this run has to make, in order. What is wrong with them is a fault."""
        kept: list[Case] = []
        for case in cases:
            if case.is_canary:
                kept.append(case)
            elif case.todo not in {known.id for known in self.lab.todos}:
                self._note_fault(f"the check {case.name} of {self.lab.id} names no todo of the lab")
            elif case.todo in self.todos:
                self.results.plan(case.todo, case.check, case.title, case.guards)
                kept.append(case)
        kept.sort(key=lambda case: (not case.is_canary, case.name != self.first))
        for todo_id, checks in self.results.checks.items():
            if not checks:
                self._note_fault(f"todo {todo_id} of {self.lab.id} has no check")
        self.emit(
            {
                "event": "planned",
                "checks": sum(len(names) for names in self.results.checks.values()),
            }
        )
        return kept

    def _note_fault(self, sentence: str) -> None:
        """The first fault is the cause; what follows from it is not worth a word."""
        self.fault = self.fault or sentence

    def _faulty(self, case: Case, message: str) -> CaseOutcome:
        """The suite or the library failed here. The run is void, but every check still reports."""
        self._note_fault(f"{case.name}: {message}")
        return CaseOutcome(case.id, "not_run", f"the grader failed here: {message}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        case = case_of(pyfuncitem)
        names = pyfuncitem._fixtureinfo.argnames
        self.run(case, {name: pyfuncitem.funcargs[name] for name in names})
        return True

    def run_alone(self, cases: Iterable[Case]) -> None:
        """Run what was collected before, without a session of pytest around it."""
        for case in self.planned(cases):
            given = {"candidate": self._candidate, "device": self._device}
            if "draw" in case.given:
                given["draw"] = Draw(self.seed, case.id, self._device)
            try:
                self.run(case, {**{name: given[name] for name in case.given}, **case.params})
            except KeyboardInterrupt:
                self._note_fault(f"{case.name} was interrupted")
                return
            except BaseException:  # as pytest has it: nothing is reported of this case
                traceback.print_exc()

    def run(self, case: Case, arguments: dict[str, Any]) -> None:
        """Run one case and note what came of it."""
        if case.is_canary:
            try:
                with running(Trial()):
                    case.function(**arguments)
            except MismatchError:
                self.canary_failed = True
            return
        name, todo_id = case.check, case.todo
        if todo_id in self.given_up:
            message = "not run: your code gave no answer to an earlier check of this todo"
            outcome = CaseOutcome(case.id, "not_run", message)
        elif todo_id in self.stopped:
            outcome = CaseOutcome(case.id, "not_run", STOPPED)
        else:
            outcome = self._examine(case, arguments)
        last = self.results.is_next_the_last(name)
        if last and outcome.status == "passed" and "draw" in arguments and case.again:
            outcome = self._examined_again(case, arguments, outcome)
        if outcome.status != "passed" and self.stop == "first failure":
            self.stopped.add(todo_id)
        self.results.add(name, outcome)
        if last:
            self.emit({"event": "check", "name": name, "todo": todo_id, "status": outcome.status})

    def _examined_again(
        self, case: Case, arguments: dict[str, Any], first: CaseOutcome
    ) -> CaseOutcome:
        """The same shapes once more with other values: what was remembered does not fit them."""
        drawn = Draw(self.seed, case.id, self._device, round_=1)
        second = self._examine(case, {**arguments, "draw": drawn}, round_=1)
        if second.status == "passed":
            return replace(second, margins=(*first.margins, *second.margins))
        return replace(second, message=f"{second.message}, though the first time it was right")

    def _examine(self, case: Case, arguments: dict[str, Any], round_: int = 0) -> CaseOutcome:
        trial = Trial(case.id, round_, hear=self.hear)
        self.link.begin_check()
        try:
            with running(trial), Allowance(CHECK_BYTES, CHECK_SENTENCE).kept():
                done_by(self.link.latest, lambda: case.function(**arguments))
        except FAILURES as failure:
            return self._failed(case, arguments, trial, failure, round_)
        except AlarmError:
            if not trial.answers:
                return self._faulty(case, "it takes longer than the lab has seconds")
            late = NoAnswerError(OVERTIME, "timeout")
            return self._failed(case, arguments, trial, late, round_)
        except GraderFaultError as fault:
            return self._faulty(case, str(fault))
        except pytest.skip.Exception as skipped:
            return self._faulty(case, f"it was skipped: {skipped.msg}")
        except Exception as error:
            if not trial.answers:
                traceback.print_exc()
                return self._faulty(case, f"raised {type(error).__name__}: {error}")
            # The check could not go on with what it was given, such as None where a tensor belongs.
            message = f"an answer could not be used: {type(error).__name__}: {error}"
            mismatch = MismatchError(message, answer=NO_ANSWER)
            return self._failed(case, arguments, trial, mismatch, round_)
        if trial.compared == 0:
            return self._faulty(case, "it compared nothing")
        if not round_:
            self.names.note_right(
                case.todo,
                case.check,
                trial,
                lambda stand_in: case.function(**self._afresh(case, arguments, stand_in, round_)),
            )
        margins, references = tuple(trial.margins), frozenset(trial.references)
        return CaseOutcome(case.id, "passed", "", margins=margins, references=references)

    def _failed(
        self,
        case: Case,
        arguments: dict[str, Any],
        trial: Trial,
        failure: Exception,
        round_: int,
    ) -> CaseOutcome:
        try:
            wrong_answers(self.lab)
        except BadWrongAnswerError as error:
            return self._faulty(case, str(error))
        todo_id = case.todo
        not_started = isinstance(failure, LearnerError) and failure.not_started
        named = None
        # One name for a check is enough, and looking for it may take long.
        check_name = case.check
        unnamed = all(seen.misconception is None for seen in self.results.of(check_name))
        if isinstance(failure, MismatchError | LearnerError) and not not_started:
            look = self.names.find if unnamed else self.names.note
            named = look(
                todo_id,
                check_name,
                trial,
                failure,
                lambda stand_in: case.function(**self._afresh(case, arguments, stand_in, round_)),
                f"{case.id}, round {round_}",
            )
        status: CheckStatus = "failed"
        if isinstance(failure, NoAnswerError):
            status = failure.status
            self.given_up.add(todo_id)
        elif isinstance(failure, LearnerError | UngradableError):
            status = "error"
        mismatch = failure if isinstance(failure, MismatchError) else None
        # What does not load has no call to show, and none to debug.
        loading = isinstance(failure, SubmissionError) and failure.loading
        calls = [] if loading or failure is self.link.failure else trial.calls
        detail = Detail(
            call=call_text(calls[-1]) if calls else None,
            case=case.name,
            call_index=len(calls) - 1 if calls else None,
            round=round_,
            expected=mismatch.expected if mismatch else None,
            yours=mismatch.yours if mismatch else None,
            where=mismatch.where if mismatch else None,
            region=mismatch.region() if mismatch else None,
            curve=mismatch.curve() if mismatch else None,
            explanation=named.explanation if named else None,
            reads=named.reads if named else likely_reading(self.lab, todo_id),
            frames=frames_of(failure),
            output=self.link.output() or None,
        )
        return CaseOutcome(
            case.id,
            status,
            sentence_of(failure)[:MAX_MESSAGE],
            not_started=not_started,
            misconception=named.name if named else None,
            margins=tuple(trial.margins),
            references=frozenset(trial.references),
            detail=detail,
        )

    def _afresh(
        self, case: Case, arguments: dict[str, Any], candidate: Any, round_: int
    ) -> dict[str, Any]:
        """The arguments of a check for another run on the same inputs."""
        again = {**arguments, "candidate": candidate}
        if "draw" in arguments:
            again["draw"] = Draw(self.seed, case.id, self._device, round_)
        return again


def run_checks(plugin: ExaminerPlugin, suites: ImportedSuites) -> None:
    """Run the suite and the canary. Faults of the suite end up in `plugin.fault`."""
    suites.refresh(plugin.lab.suite)
    cases = suites.cases_of(plugin.lab.suite)
    if cases is None:
        _run_by_pytest(plugin, suites)
    else:
        gc.collect()  # what the last run left
        plugin.run_alone(cases)
    silent = plugin.results.silent()
    if plugin.fault is None and silent:
        plugin.fault = f"{silent[0]} did not report"
    if plugin.fault is None and not plugin.canary_failed:
        plugin.fault = "the check that nobody can pass was passed; the run is void"


class _Keeping:
    """A pytest plugin that keeps what was collected, where all of it runs alone the next time."""

    def __init__(self, suites: ImportedSuites, suite: Path) -> None:
        self.suites, self.suite = suites, suite
        self.whole = True

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """A suite imports what it asks of diffusers."""
        with nothing_is_garbage():
            return (yield)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.whole = self.whole and report.passed

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Before the run takes its own of them."""
        if self.whole and all(map(runs_alone, items)):
            self.suites.keep(self.suite, map(case_of, items))


def _run_by_pytest(plugin: ExaminerPlugin, suites: ImportedSuites) -> None:
    """Collect the suite, and run what needs more of pytest than being collected."""
    arguments = [
        *PLAIN_PYTEST,
        f"--rootdir={plugin.lab.suite}",
        str(CANARY),
        *map(str, sorted(plugin.lab.suite.glob("test_*.py"))),
    ]
    code = pytest.main(arguments, plugins=[plugin, suites, _Keeping(suites, plugin.lab.suite)])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        plugin._note_fault(f"pytest ended with {code!r}")
