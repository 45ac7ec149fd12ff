"""Wrong answers of ours, graded without a process of their own.

An edit of our own solution is trusted code, so its module stands in for the candidate. What is
found wrong so is wrong. What is not may still be wrong over the wire, where answers have to cross:
a grade in two processes has the last word there.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable
from typing import Any

from infralens.examiner.candidate.in_process import RehearsedCandidate, Runner
from infralens.examiner.candidate.submission import Submission
from infralens.examiner.errors import AlarmError, LearnerError, NoAnswerError
from infralens.examiner.isolation.alarm import done_by
from infralens.examiner.mistakes.misconceptions import run_as_module
from infralens.examiner.mistakes.replays import Replays
from infralens.examiner.run.plugin import ExaminerPlugin, run_checks
from infralens.examiner.run.suites import ImportedSuites
from infralens.labs import Lab
from infralens.wire import Raised


class InProcess:
    """What a run asks of the link to a submission, where there is no other process."""

    failure: Exception | None = None

    def __init__(self, submission: Submission) -> None:
        self.submission = submission

    def begin_check(self) -> None:
        """Nothing is lent across, and nobody listens to what is printed."""

    def latest(self) -> float:
        """No end: each call has its own, and the rest is ours."""
        return math.inf

    def output(self) -> str:
        return ""


def rehearsed(
    lab: Lab, text: str, suites: ImportedSuites, replays: Replays, *, seed: int, **options: Any
) -> ExaminerPlugin:
    """Run the checks on this text, which is one of ours, in this process."""
    submission = Submission(text, f"<{lab.file}>")
    # A module of its own, not the one that names mistakes: they share no state.
    names = vars(run_as_module(text, submission.filename, "infralens_rehearsed"))
    candidate = RehearsedCandidate(names, _running(submission.filename, lab.limits.call_seconds))
    plugin = ExaminerPlugin(lab, InProcess(submission), candidate, seed=seed, **options)
    replays.begin(lab, seed)
    plugin.names.replays = replays
    run_checks(plugin, suites)
    return plugin


def _running(filename: str, seconds: float) -> Runner:
    """Makes a call as the candidate's process would: with a time limit, and what it raises told."""

    def run(
        index: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        try:
            return done_by(time.monotonic() + seconds, lambda: function(*args, **kwargs))
        except AlarmError:
            raise NoAnswerError(f"no answer within {seconds:g} seconds", "timeout") from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            names = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
            crossed = traceback.extract_tb(error.__traceback__)
            frames = tuple(
                (frame.lineno or 0, frame.name, "")
                for frame in crossed
                if frame.filename == filename
            )
            raise LearnerError(Raised(names, str(error), frames)) from error

    return run
