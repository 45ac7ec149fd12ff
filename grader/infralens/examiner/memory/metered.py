"""How much memory a submission takes: a process of its own, and its growth seen from outside.

What is counted is what the operating system says, never what the process says of itself. The
process is fresh and warm, and the count begins before the submission is loaded. On Linux the
process first limits its own address space, so that an answer which needs too much ends in a
MemoryError; where that limit can be lifted again, as by root, the growth tells. Tensors are to stay
on the CPU: what a GPU holds is not seen here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from infralens.examiner.candidate.in_process import RehearsedCandidate
from infralens.examiner.candidate.link import Link
from infralens.examiner.candidate.proxies import Candidate
from infralens.examiner.errors import LearnerError, MeterError, MismatchError, NoAnswerError
from infralens.examiner.isolation.process import START_SECONDS
from infralens.examiner.memory.allowance import NO_MEMORY
from infralens.examiner.memory.meter import Meter, innermost
from infralens.examiner.memory.tensors import Storages
from infralens.examiner.run.trial import current_trial

INTERPRETER_BYTES = 8 * 2**20  # code, small objects, frames of the channel: 1 to 3 MiB were seen
OVER, WITHIN = "more memory than the budget", "no more memory than the budget"
ASKED = re.compile(r"tried to allocate (\d+) bytes")


@contextlib.contextmanager
def metered(candidate: Any, *, budget: int) -> Iterator[Any]:
    """The submission in a process whose memory may grow by `budget` bytes; more is a mismatch.

    Arguments that arrive and answers that leave count. Use one budget for one todo: its checks
    share a process, and the two rounds of a check do.
    """
    if isinstance(candidate, RehearsedCandidate):
        with Storages() as storages:
            yield candidate
        _judge(storages.peak, budget)
        return
    link = _measured_link(candidate._link, budget)
    link.begin_check()
    if link.meter is not None:
        link.meter.resume()
    try:
        yield Candidate(link)
    except LearnerError as error:
        asked = _refused(error)
        if asked is None:
            raise
        link.close()
        _judge(budget + max(asked, 1), budget, refused=asked)
        raise
    finally:
        if link.meter is not None:
            link.meter.pause()
    if link.meter is not None and link.process is not None:
        _judge(_growth(link), budget)


class MeasuredLink(Link):
    """A link to a process whose growth is measured from before its submission is loaded."""

    def __init__(self, of: Link, budget: int) -> None:
        super().__init__(
            of.lab,
            of.submission,
            of.start,
            limit_address_space=False,  # its own limit would stand in the way of ours
            max_processes=of.max_processes,
        )
        self.deadline, self.budget = of.deadline, budget
        self.meter: Meter | None = None

    def close(self) -> None:
        if self.meter is not None:
            self.meter.stop()
        super().close()

    def _load(self) -> None:
        if self.meter is not None:  # a cell of a notebook has ended the process it measured
            self.meter.stop()
        process = self._begin()
        masked, imports = list(self.lab.masked), list(self.submission.imports)
        message = {"kind": "warm_up", "masked": masked, "imports": imports}
        self._exchange(message, START_SECONDS)
        self.meter = Meter(innermost(process.pid))
        process.watch.allow_no_more_processes()
        self._watch(process)
        extent = self.meter.extent
        most = None if extent is None else extent + self.budget + INTERPRETER_BYTES
        self._submit(extent_bytes=most)


def _measured_link(link: Link, budget: int) -> MeasuredLink:
    measured = link.measured.get(budget)
    if not isinstance(measured, MeasuredLink) or measured.process is None:
        measured = link.measured[budget] = MeasuredLink(link, budget)
    return measured


def _growth(link: MeasuredLink) -> int:
    """Bytes beyond the baseline. A process that hides them has given no answer."""
    assert link.meter is not None
    try:
        return link.meter.growth() - INTERPRETER_BYTES
    except MeterError as error:
        link.close()
        raise NoAnswerError(f"your code {error}") from None


def _judge(grown: int, budget: int, refused: int | None = None) -> None:
    over = grown > budget
    if not current_trial().compare(OVER if over else WITHIN, "memory") or not over:
        return
    yours = f"an allocation of {_mb(refused)} was refused" if refused else _mb(grown)
    raise MismatchError(
        f"this call may take {_mb(budget)} of memory, and yours took more",
        answer=OVER,
        expected=f"at most {_mb(budget)}",
        yours=yours,
    )


def _refused(error: LearnerError) -> int | None:
    """The bytes that were asked for in vain, 0 where that is not said; None for other errors."""
    raised = error.raised
    if "MemoryError" not in raised.type_names and not NO_MEMORY.search(raised.text):
        return None
    asked = ASKED.search(raised.text)
    return int(asked.group(1)) if asked else 0


def _mb(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
