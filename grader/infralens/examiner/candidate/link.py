"""The link to a submission: one request at a time over the channel, each with a time limit.

What comes back is a value, or a handle on an object that stays there. What the learner's code
raises arrives as LearnerError; silence, crashes and bad bytes arrive as NoAnswerError, and the next
check gets a new process.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from infralens import wire
from infralens.examiner.candidate.notebook import Cell
from infralens.examiner.candidate.proxies import Candidate, Handle, RemoteObject
from infralens.examiner.candidate.submission import Submission, require_gradable
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
from infralens.examiner.isolation import seccomp
from infralens.examiner.isolation.alarm import done_by
from infralens.examiner.isolation.process import (
    START_SECONDS,
    CandidateProcess,
    exit_sentence,
    new_call,
)
from infralens.examiner.memory.allowance import Allowance, lifted
from infralens.examiner.run.trial import current_trial, handed_over, received
from infralens.labs import Lab

# What a lent function may be handed: some times what the check gave, and a little whatever that is.
MOST_HANDED_TIMES = 4
MOST_HANDED_BYTES = 2**18
# The same for an answer: the examiner computes with it, in operations that nothing stops.
MOST_ANSWERED_TIMES = 8
MOST_ANSWERED_BYTES = 2**20
NOT_DEFINED = re.compile(r"name '(\w{1,100})' is not defined")
MOST_ENDINGS = 3  # processes that a notebook's cells may end, or keep from answering
OVERTIME_SECONDS = 20.0  # of the examiner at work on answers, after the lab's own time


class Link:
    """One submission in one candidate process after another."""

    def __init__(
        self,
        lab: Lab,
        submission: Submission,
        start: Callable[[], CandidateProcess],
        *,
        limit_address_space: bool,
        max_processes: int | None = None,
    ) -> None:
        self.lab, self.submission, self.start = lab, submission, start
        self.limit_address_space, self.max_processes = (
            limit_address_space,
            max_processes,
        )
        self.process: CandidateProcess | None = None
        self.generation = 0
        self.failure: Exception | None = None
        self.failed: dict[int, SubmissionError] = {}  # of a notebook: its cells that failed
        self.fatal: set[int] = set()  # those of them that are not tried again
        self.starts: list[float] = []  # the seconds that each process took until it was ready
        self.deadline: float | None = None
        self.numbers = itertools.count(1)
        self.lent: dict[int, Any] = {}
        self.busy = False
        self.last_words = ""
        self.no_grad = True
        self.given_bytes = self.handed_bytes = 0
        self.served_bytes = 0  # the most that one use of something lent gave
        self.begun = time.monotonic()  # the check in progress
        self.measured: dict[int, Link] = {}  # of the same submission, by memory budget

    @property
    def sandboxed(self) -> bool:
        """Whether walls stand around the candidate, which refuse calls and bound its folders."""
        return self.max_processes is not None

    def close(self) -> None:
        for link in self.measured.values():
            link.close()
        if self.process is not None:
            self.process.kill()
            self.process = None

    def request(self, message: dict[str, Any]) -> Any:
        """One question to the learner's code and its answer."""
        self._require_loaded()
        answer = self._exchange(message, self.lab.limits.call_seconds)
        most = MOST_ANSWERED_TIMES * (self.given_bytes + self.served_bytes) + MOST_ANSWERED_BYTES
        if self.handed_bytes > most:
            size = f"{self.handed_bytes / 1e6:,.1f} MB"
            sentence = f"returned {size}, far more than any right answer to what the check gave"
            raise MismatchError(sentence, answer=NO_ANSWER)
        received(answer)
        return answer

    def latest(self) -> float:
        """When the examiner stops computing with what was answered in this check."""
        overtime = min(OVERTIME_SECONDS, self.lab.limits.lab_seconds)
        return max(self.deadline or time.monotonic(), self.begun) + overtime

    def output(self) -> str:
        """What the submission has printed since the current check began."""
        return self.process.output.text() if self.process else self.last_words

    def begin_check(self) -> None:
        self.lent.clear()
        self.given_bytes = self.served_bytes = 0
        self.begun = time.monotonic()
        self.last_words = ""
        if self.process is not None:
            self.process.output.start()

    def _require_loaded(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.deadline is not None and time.monotonic() > self.deadline:
            limit = self.lab.limits.lab_seconds
            raise NoAnswerError(f"your code has used its {limit:g} seconds for this lab", "timeout")
        if self.process is not None:
            return
        try:
            require_gradable(self.submission)
            self._load()
            while self.process is None:  # a cell has ended it: once more without that cell
                self._load()
        except (UngradableError, LearnerError, NoAnswerError) as error:
            error.loading = True
            self.failure = error
            raise

    def _load(self) -> None:
        process = self._begin()
        memory = self.lab.limits.memory_mb
        self._watch(process)
        self._submit(memory_mb=memory if self.limit_address_space else None)

    def _watch(self, process: CandidateProcess) -> None:
        """From here it may grow by what the lab allows, and whatever it holds is to be seen.

        In a sandbox there is no memory but what is resident, or lies in its own bounded folders.
        """
        self._exchange({"kind": "show"}, START_SECONDS)
        process.watch.limit(self.lab.limits.memory_mb, in_view=not self.sandboxed)

    def _begin(self) -> CandidateProcess:
        """A process that is ready; the lab's time starts with the first one."""
        started = time.monotonic()
        try:
            process = self._ready() or self._ready(last=True)
        finally:
            self.starts.append(round(time.monotonic() - started, 3))
        assert process is not None
        if self.deadline is None:
            self.deadline = time.monotonic() + self.lab.limits.lab_seconds
        return process

    def _ready(self, *, last: bool = False) -> CandidateProcess | None:
        """A candidate that says so. What goes wrong before is ours: nothing is loaded yet."""
        try:
            with lifted():
                self.process, self.generation = self.start(), self.generation + 1
            self._receive("ready", None, time.monotonic() + START_SECONDS)
        except (NoAnswerError, OSError) as error:
            if not last:  # an earlier process of the submission may have ended it
                return None
            said = (self.last_words.strip().splitlines() or [str(error)])[-1]
            reason = f"no candidate starts here: {said[:300]}"
            raise GraderFaultError(f"{reason}; `infralens doctor` tells more") from None
        return self.process

    def _submit(self, *, memory_mb: int | None = None, extent_bytes: int | None = None) -> None:
        """Have the submission loaded, its address space limited to so much more or in all."""
        self._exchange(
            {
                "kind": "load",
                "source": self.submission.text,
                "filename": self.submission.name,  # where it lies is nothing to build on
                "masked": list(self.lab.masked),
                "memory_mb": memory_mb,
                "extent_bytes": extent_bytes,
                "cpu_seconds": int(2 * self.lab.limits.lab_seconds) + 1,
                "max_processes": self.max_processes,
                "refused": None if self.sandboxed else seccomp.program(),
                "cells": bool(self.submission.cells),
            },
            self.lab.limits.call_seconds,
        )
        for cell in self.submission.cells:
            if self.process is not None and cell.number not in self.fatal:
                self._run(cell)

    def _run(self, cell: Cell) -> None:
        """Run one cell of a notebook. That it fails stops none of the others."""
        try:
            if cell.problem is not None:
                raise cell.problem
            message = {"kind": "cell", "source": cell.source, "first": cell.first}
            self._exchange(message, self.lab.limits.call_seconds)
        except (UngradableError, LearnerError) as error:
            self.failed[cell.number] = error
        except NoAnswerError as error:
            told = NoAnswerError(f"{error} (in cell {cell.number})", error.status)
            self.failed[cell.number] = told
            self.fatal.add(cell.number)
            if len(self.fatal) >= MOST_ENDINGS:
                raise told from None
        else:
            self.failed.pop(cell.number, None)
            return
        self.failed[cell.number].loading = True

    def failure_of(self, name: str) -> SubmissionError | None:
        """Why a name is not there: the last cell that was to define it, and failed."""
        top = name.split(".")[0]
        todo = self.lab.todo_of_name.get(top)
        for cell in reversed(self.submission.cells):
            of_it = top in cell.names or (todo is not None and cell.todo == todo.id)
            if cell.number in self.failed and of_it:
                return self.failed[cell.number]
        return None

    def _exchange(self, message: dict[str, Any], seconds: float) -> Any:
        if self.busy:
            raise GraderFaultError("the suite called the candidate from inside a callback")
        process = self.process
        assert process is not None
        self._require_silence(process)
        allowed: Allowance | None = None  # measured only where something lent is used
        call = new_call()
        self._send(process, {**message, "call": call, "no_grad": self.no_grad})
        until = time.monotonic() + seconds
        if self.deadline is not None:
            until = min(until, self.deadline)
        while True:
            reply = self._receive(None, call, until)
            if reply["kind"] == "answer":
                return self._value(reply)
            if process.unread:
                self._lose()
                raise NoAnswerError("your code asked again before it had taken the last answer")
            allowed = allowed or Allowance()
            frame = self._served(reply, until, allowed)
            self.served_bytes = max(self.served_bytes, len(frame))
            process.send(frame)

    def _send(self, process: CandidateProcess, message: dict[str, Any]) -> None:
        try:
            frame = wire.pack(message, self._lend)
        except wire.CannotCrossError as error:
            self._lose()
            if current_trial().suspects.within_reach_of(message):
                sentence = f"an answer of your code is {error}, which cannot be handed on to it"
                raise MismatchError(sentence, answer=NO_ANSWER) from None
            raise GraderFaultError(f"the suite sent {error}, which cannot cross") from error
        self.given_bytes += len(frame)
        process.send(frame)

    def _served(self, question: dict[str, Any], until: float, allowed: Allowance) -> bytes:
        """What came of a callback. A verdict or a fault in it ends the check, told to nobody."""
        self.busy = True
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled()), allowed.kept():
                value = done_by(until, lambda: self._used(question))
            return wire.pack({"value": value}, self._lend)
        except (GraderFaultError, MismatchError, NoAnswerError):
            self._lose()
            raise
        except AlarmError:
            raise self._late(
                "what this lab lent your code was still at work on what it was given"
            ) from None
        except wire.TooLargeError as error:  # by what it was handed, as everything that follows
            return _raised("ValueError", f"what this function gives is {error}")
        except wire.CannotCrossError as error:
            if current_trial().suspects.within_reach_of(list(self.lent.values())):
                return _raised("ValueError", f"what this function gives is {error}")
            self._lose()
            raise GraderFaultError(f"the suite sent {error}, which cannot cross") from error
        except Exception as error:
            return _raised(type(error).__name__, str(error)[:2000])
        finally:
            self.busy = False

    def _require_silence(self, process: CandidateProcess) -> None:
        """Between calls nothing may come: it would be an answer to no question."""
        with contextlib.suppress(queue.Empty):
            early = process.early()
            if isinstance(early, Exception):
                raise self._closed(process)
            self._lose()
            raise NoAnswerError("your code wrote to the grader's channel out of turn")

    def _closed(self, process: CandidateProcess) -> NoAnswerError:
        code, verdict = process.ending(), process.watch.verdict
        self._lose()
        return NoAnswerError(f"your code {verdict or exit_sentence(code)}")

    def _value(self, reply: dict[str, Any]) -> Any:
        if isinstance(reply.get("raised"), wire.Raised):
            raised = reply["raised"]
            advice = self.submission.lacks_its_neighbour(raised.type_names, raised.text)
            advice = advice or self._of_a_failed_cell(raised)
            raise LearnerError(raised, advice, [self.submission.place(f[0]) for f in raised.frames])
        if isinstance(reply.get("unsendable"), str):
            sentence = f"returned {reply['unsendable'][:300]}, which cannot be graded"
            raise MismatchError(sentence, answer=NO_ANSWER)
        if "value" not in reply:
            self._lose()
            raise NoAnswerError("your code sent an answer that nobody can read")
        return reply["value"]

    def _of_a_failed_cell(self, raised: wire.Raised) -> str:
        """Which cell of a notebook was to define what is not there; "" where none was."""
        unknown = NOT_DEFINED.match(raised.text) if raised.type_name == "NameError" else None
        for cell in reversed(self.submission.cells):
            if unknown and unknown[1] in cell.names and cell.number in self.failed:
                return f"cell {cell.number}, which was to define it, failed"
        return ""

    def _receive(self, kind: str | None, call: str | None, until: float) -> dict[str, Any]:
        process = self.process
        assert process is not None
        try:
            frame = process.receive(until - time.monotonic())
            if isinstance(frame, Exception):
                raise frame
            header, body = frame
            self.handed_bytes = len(header) + len(body)
            reply = wire.unpack(header, body, resolve=self._resolve)
            kinds = (kind,) if kind else ("answer", "callback", "use")
            if reply.get("kind") not in kinds or reply.get("call") != call:
                raise wire.ChannelError("an answer to something that was not asked")
            return reply
        except queue.Empty:
            raise self._late("is there a loop that never ends?") from None
        except wire.ChannelClosedError:
            raise self._closed(process) from None
        except (wire.ChannelError, OSError, ValueError) as error:
            self._lose()
            text = str(error) if isinstance(error, wire.ChannelError) else "bytes nobody can read"
            raise NoAnswerError(f"your code sent {text} over the grader's channel") from None

    def _late(self, why: str) -> NoAnswerError:
        """Give the process up, and say why no answer came in time."""
        assert self.process is not None
        verdict, limits = self.process.watch.verdict, self.lab.limits
        self._lose()
        if verdict:
            return NoAnswerError(f"your code {verdict}")
        spent = self.deadline is not None and time.monotonic() >= self.deadline
        limit = (
            f"before the {limits.lab_seconds:g} seconds of this lab were over"
            if spent
            else f"within {limits.call_seconds:g} seconds: {why}"
        )
        return NoAnswerError(f"no answer {limit}", "timeout")

    def _lose(self) -> None:
        """Give this process up; the next request starts another."""
        if self.process is not None:
            self.last_words = self.process.output.text()
            self.process.kill()
            self.process = None
        self.lent.clear()

    def _lend(self, value: Any) -> wire.Records | None:
        if isinstance(value, Handle):
            if value._link is not self or value._generation != self.generation:
                raise NoAnswerError("an object of yours was lost when your code crashed")
            return value._record
        if isinstance(value, RemoteObject):
            number = self._register(value)
            return wire.Remote(number, value.type_name, value.attributes, value.methods)
        if callable(value):
            return wire.Callback(self._register(value), getattr(value, "__name__", "function"))
        return None

    def _register(self, value: Any) -> int:
        for number, known in self.lent.items():
            if known is value:
                return number
        number = next(self.numbers)
        self.lent[number] = value
        return number

    def _resolve(self, record: wire.Records) -> Any:
        return Handle(self, record) if isinstance(record, wire.Handle) else record

    def _used(self, question: dict[str, Any]) -> Any:
        """Run a callback or a use of a remote object."""
        target = self.lent[question["n"]]
        args, kwargs = question.get("args", ()), question.get("kwargs", {})
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise TypeError("arguments must be a tuple and a dict")
        if _holds_handle([args, kwargs]):
            raise TypeError("an object of yours is no argument for this function")
        most = MOST_HANDED_TIMES * self.given_bytes + MOST_HANDED_BYTES
        if self.handed_bytes > most:
            handed = f"{self.handed_bytes / 1e6:,.1f} MB"
            raise ValueError(f"{handed} were handed to this function, far more than the check gave")
        if (device := _elsewhere([args, kwargs])) is not None:
            raise ValueError(f"nothing is on the device {device} here")
        received(args, kwargs)
        handed_over(args, kwargs)
        if question["kind"] == "callback":
            return target(*args, **kwargs)
        if args or kwargs:  # it may be another object after this
            received(target.target)
        return _use(target, question, args, kwargs)


def _holds_handle(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_handle, value))
    if isinstance(value, dict):
        return any(map(_holds_handle, value.values()))
    return isinstance(value, Handle)


def _elsewhere(value: Any) -> str | None:
    """A device that holds no numbers, or is another than there is, named in arguments."""
    if isinstance(value, list | tuple):
        return next((found for item in value if (found := _elsewhere(item))), None)
    if isinstance(value, dict):
        return _elsewhere(list(value.values()))
    if isinstance(value, str) and value.split(":")[0] in ("meta", "cuda", "mps", "xpu", "hpu"):
        value = torch.device(value.split(":")[0])
    here = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    return str(value) if isinstance(value, torch.device) and value.type not in here else None


def _raised(type_name: str, text: str) -> bytes:
    return wire.pack({"raised": wire.Raised((type_name,), text)})


def _use(
    target: RemoteObject,
    question: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    name = question["name"]
    if name in target.methods and "args" in question:
        target.uses.append((name, args, kwargs))
        return getattr(target.target, name)(*args, **kwargs)
    if name in target.attributes and "args" not in question:
        target.uses.append((name, (), {}))
        return getattr(target.target, name)
    raise AttributeError(f"{target.type_name} has no {name}")


@contextlib.contextmanager
def linked(link: Link) -> Iterator[Candidate]:
    """The candidate of a link; its process ends with the block."""
    try:
        yield Candidate(link)
    finally:
        link.close()
