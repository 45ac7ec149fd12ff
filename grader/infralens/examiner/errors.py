"""All that can go wrong, and whose fault it is. Importing this takes no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from infralens.report import Curve, Margin, Region, place_in_words

if TYPE_CHECKING:
    from infralens.wire import Raised  # which imports torch

NO_ANSWER = object()  # where there is no value that a misconception could share


class SubmissionError(Exception):
    """The submission raised, or gave no answer: never a fault of ours, wherever it comes up.

    `loading`: it happened while the submission was loaded, before any call.
    """

    loading = False


class UngradableError(SubmissionError):
    """The file is there but holds no answers that could run; `line` is where it goes wrong.

    In a notebook that is a line of the cell with the number `cell`.
    """

    def __init__(
        self, message: str, line: int | None = None, code: str = "", cell: int | None = None
    ) -> None:
        super().__init__(message)
        self.line, self.code, self.cell = line, code, cell


class LearnerError(SubmissionError):
    """The learner's code raised. `advice` says what lies behind it, where that is known.

    `places` are those of its frames: the line, and the cell where the submission is a notebook.
    """

    def __init__(
        self, raised: Raised, advice: str = "", places: Sequence[tuple[int, int | None]] = ()
    ) -> None:
        super().__init__(f"{raised.type_name}: {raised.text}")
        self.raised, self.advice = raised, advice
        self.places = tuple(places) or tuple((frame[0], None) for frame in raised.frames)

    @property
    def not_started(self) -> bool:
        return self.raised.type_name == "NotImplementedError" and self.raised.text.startswith(
            "TODO"
        )

    @property
    def sentence(self) -> str:
        """What was raised and on which line of the learner's file."""
        raised = self.raised
        line = f" on {place_in_words(*self.places[-1])}" if self.places else ""
        if raised.type_name == "RemoteError":  # told again there by what was lent to it
            return f"your code called something{line} that raised {raised.text}"
        text = f": {raised.text}" if raised.text else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"your code raised {raised.type_name}{line}{text}{advice}"


class NoAnswerError(SubmissionError):
    """The learner's code gave no answer: it was too slow, crashed, or sent what nobody can read."""

    def __init__(self, message: str, status: Literal["error", "timeout"] = "error") -> None:
        super().__init__(message)
        self.status = status


class MismatchError(AssertionError):
    """An answer is wrong. Everything that explains it is here."""

    def __init__(
        self,
        message: str,
        *,
        answer: Any,
        expected: str | None = None,
        yours: str | None = None,
        where: str | None = None,
        margin: Margin | None = None,
        region: Callable[[], Region | None] = lambda: None,
        curve: Callable[[], Curve | None] = lambda: None,
    ) -> None:
        super().__init__(message)
        self.message, self.answer = message, answer
        # Worked out where they are shown: many answers are judged for a name.
        self.region, self.curve = region, curve
        self.expected, self.yours, self.where, self.margin = expected, yours, where, margin
        self.judge: Callable[[Any], None] | None = None  # the same judgement of another answer


class NotUnpackedError(MismatchError):
    """An answer that is not the tuple it must be: found before anything in it is compared."""


class GraderFaultError(Exception):
    """Something of ours is wrong, not the submission: the run ends with a grader error."""


class UnreadableError(Exception):
    """There is no file to grade; the text says why. A mistake in usage, not in the answers."""


class UnavailableError(Exception):
    """The device or the isolation that was asked for is not there; the text says so."""


class RefusedError(OSError):
    """A template that is well forks no candidate; the text says why."""


class UnfitResultError(Exception):
    """What the examiner sent is no result of what it was asked; the text says why."""


class MeterError(Exception):
    """The process did something that nobody can measure; the text says what."""


class AlarmError(BaseException):
    """Time is up. Not an Exception, which the code that is stopped might take for its own."""


class ReplayedError(Exception):
    """A replay has reached the answer that was asked for."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
