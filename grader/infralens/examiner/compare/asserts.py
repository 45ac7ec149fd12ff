"""The comparisons. An answer is right when it is as near to the truth as the library itself is.

The truth is the formula in float64. The live library must agree with it, or the run stops with a
grader error, so no formula of ours can drift from diffusers unseen. The tolerance follows from the
library's own error on the same inputs; it is never a number typed in.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infralens.examiner.compare.describe import around, brief_pair, dtype_name, kind, number
from infralens.examiner.run.trial import (
    GraderFaultError,
    ReplayedError,
    SubmissionError,
    current_trial,
)
from infralens.report import Margin
from infralens.wire import Raised

TOLERANCE_FACTOR = 16  # times the library's own error
# Of the tensor's largest value: room for another order of operations where the library happens to
# be exact. Right answers with other algebra were seen 36 off.
TOLERANCE_ULPS = 64
HALF_TOLERANCE_ULPS = 8  # in half precision, where few operations are rounded
AGREEMENT_ULPS = 64  # how far the library may be from the truth before something of ours is wrong
HALF_AGREEMENT_ULPS = 8  # the same in half precision, where few operations are rounded
RUN_SHARE = 1e-5  # of the largest value, over a whole run; the nearest mistake is at 2e-2
MAX_RAISED = 500  # characters of an exception's text
NO_ANSWER = object()  # where there is no value that a misconception could share


class LearnerError(SubmissionError):
    """The learner's code raised. `advice` says what lies behind it, where that is known."""

    def __init__(self, raised: Raised, advice: str = "") -> None:
        super().__init__(f"{raised.type_name}: {raised.text}")
        self.raised, self.advice = raised, advice

    @property
    def not_started(self) -> bool:
        return self.raised.type_name == "NotImplementedError" and self.raised.text.startswith(
            "TODO"
        )

    @property
    def sentence(self) -> str:
        """What was raised and on which line of the learner's file."""
        raised = self.raised
        line = f" on line {raised.frames[-1][0]}" if raised.frames else ""
        if raised.type_name == "RemoteError":  # told again there by what was lent to it
            return f"your code called something{line} that raised {raised.text}"
        text = f": {raised.text}" if raised.text else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"your code raised {raised.type_name}{line}{text}{advice}"


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
    ) -> None:
        super().__init__(message)
        self.message, self.answer = message, answer
        self.expected, self.yours, self.where, self.margin = expected, yours, where, margin
        self.judge: Callable[[Any], None] | None = None  # the same judgement of another answer


class NotUnpackedError(MismatchError):
    """An answer that is not the tuple it must be: found before anything in it is compared."""


def live(library: Callable[[], Any]) -> Any:
    """Ask the library. One place, so that sabotage tests can perturb every answer it gives."""
    return _ours(library)


def _ours(reference: Callable[[], Any]) -> Any:
    """Work a reference out. What goes wrong in it is our fault, or that of what it reaches."""
    try:
        with torch.no_grad():
            return reference()
    except (GraderFaultError, SubmissionError, MismatchError, ReplayedError):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:MAX_RAISED]
        raise GraderFaultError(f"a reference raised {text}") from error


@contextlib.contextmanager
def judged(answer: Any, *references: Callable[[], Any]) -> Iterator[None]:
    """What breaks in here with a suspect in reach of the references is a wrong answer.

    The answer is a suspect no longer when nothing was found to be wrong with it.
    """
    try:
        yield
    except GraderFaultError as fault:
        if current_trial().suspects.within_reach_of(*references):
            message = f"an answer could not be used: {fault}"
            raise MismatchError(message, answer=NO_ANSWER) from fault
        raise
    current_trial().suspects.passed(answer)


def assert_matches(
    answer: Any,
    *,
    library: Callable[[], Any],
    truth: Callable[[], Any],
    what: str = "the result",
    agreement_ulps: float | None = None,
) -> None:
    """The answer is as near to `truth` (float64) as `library` (the live diffusers result) is.

    Both are called only now, after the answer is here. Shape and dtype must be the library's.
    """
    if not current_trial().compare(answer, "library"):
        return
    with judged(answer, library, truth):
        expected = live(library)
        exact = _ours(lambda: _float64(truth()))
        reach = _reach(expected, exact)
        library_error = _distance(_float64(expected), exact)
        ulps = agreement_ulps or _agreement_ulps(_dtype(expected))
        if not library_error <= ulps * reach:
            raise GraderFaultError(
                f"diffusers and the formula disagree by {library_error:.3g} on {what}; "
                f"at most {ulps * reach:.3g} is explained by rounding"
            )
        _judged(answer, _judge, expected, exact, library_error, reach, what)


def assert_matches_formula(
    answer: Any, *, computed: Callable[[], Any], truth: Callable[[], Any], what: str = "the result"
) -> None:
    """The answer is as near to `truth` (float64) as the same formula in the graded dtype is.

    For what diffusers does not compute, or is known to compute wrongly.
    """
    if not current_trial().compare(answer, "formula"):
        return
    with judged(answer, computed, truth):
        expected = _ours(computed)
        exact = _ours(lambda: _float64(truth()))
        own_error, reach = _distance(_float64(expected), exact), _reach(expected, exact)
        _judged(answer, _judge, expected, exact, own_error, reach, what)


def assert_agrees(
    answer: Any, *, library: Callable[[], Any], what: str, share: float = RUN_SHARE
) -> None:
    """The answer of a whole run agrees with the library's to a share of its largest value.

    For runs of several steps through a network, where no formula in float64 stands beside and every
    order of operations grows its own rounding.
    """
    if not current_trial().compare(answer, "library"):
        return
    with judged(answer, library):
        expected = live(library)
        exact = _float64(expected)
        scale = float(exact.abs().max()) if exact.numel() else 0.0
        own_error = share * scale / TOLERANCE_FACTOR
        _judged(answer, _judge, expected, exact, own_error, 0.0, what)


def assert_property(
    answer: Any, *, equals: Callable[[], Tensor | float], what: str, ulps: float = 64
) -> None:
    """A property that needs no reference: the answer equals another value to within rounding."""
    if not current_trial().compare(answer, "property"):
        return
    with judged(answer, equals):
        expected = _ours(equals)
        exact = _float64(expected)
        reach = _reach(expected, exact)
        own_error = ulps * reach / TOLERANCE_FACTOR
        _judged(answer, _judge, expected, exact, own_error, reach, what)


def assert_equals(
    answer: Any,
    *,
    library: Callable[[], Any] | None = None,
    value: Any = None,
    what: str = "the result",
) -> None:
    """The answer is exactly the library's (or the given) value: whole numbers, texts, lists."""
    if not current_trial().compare(answer, "library" if library else "property"):
        return
    with judged(answer, *([library] if library else [])):
        expected = live(library) if library else value
        _judged(answer, _judge_equal, expected, what)


def as_pixels(answer: Any) -> Any:
    """An image that may be an array or a tensor, as a tensor on the CPU; anything else as it is.

    Nothing can break here: of arrays the wire carries only those of bytes.
    """
    if isinstance(answer, np.ndarray):
        return torch.from_numpy(answer)
    return answer.cpu() if isinstance(answer, Tensor) else answer


def assert_tensor(
    answer: Any,
    *,
    like: Tensor | None = None,
    shape: tuple[int, ...] | None = None,
    dtype: torch.dtype | None = None,
    finite: bool = True,
    what: str = "the result",
) -> None:
    """The answer is a tensor of this shape and dtype (those of `like`), and its numbers are finite.

    For an answer that a check computes with: its numbers are still to be judged.
    """
    if not current_trial().compare(answer, "property"):
        return
    if like is not None:
        shape, dtype = tuple(like.shape), like.dtype
    if not isinstance(answer, Tensor):
        raise MismatchError(f"{what}: {kind(answer)}, expected a tensor", answer=answer)
    mine, wanted = tuple(answer.shape), answer.shape if shape is None else tuple(shape)
    if mine != wanted:
        sentence = f"{what}: shape {mine}, expected {wanted}"
        raise MismatchError(sentence, answer=answer, yours=kind(answer))
    if dtype is not None and answer.dtype != dtype:
        sentence = f"{what}: dtype {dtype_name(answer.dtype)}, expected {dtype_name(dtype)}"
        raise MismatchError(sentence, answer=answer, yours=kind(answer))
    if finite and not bool(answer.isfinite().all()):
        raise MismatchError(f"{what}: not finite", answer=answer)
    current_trial().suspects.passed(answer)


def assert_number(answer: Any, *, what: str = "the result") -> None:
    """The answer is one finite int or float, not a bool; what it is is still to be judged."""
    if not current_trial().compare(answer, "property"):
        return
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise MismatchError(f"{what}: {kind(answer)}, expected one number", answer=answer)
    if not math.isfinite(answer):
        raise MismatchError(f"{what}: {answer}, which is not finite", answer=answer)
    current_trial().suspects.passed(answer)


def assert_raises(call: Callable[[], Any], *names: str, what: str) -> None:
    """The call raises one of these exceptions (any, when none is named)."""
    try:
        answer: Any = call()
    except LearnerError as error:
        if error.not_started:
            raise
        answer = error.raised
    if not current_trial().compare(answer, "property"):
        return
    if isinstance(answer, Raised) and not answer.at_call:
        if not names or set(names) & set(answer.type_names):
            return
        raise MismatchError(
            f"{what} should raise {' or '.join(names)}; it raised {kind(answer)}", answer=answer
        )
    wanted = " or ".join(names) or "an exception"
    raise MismatchError(
        f"{what} should raise {wanted}; it returned {kind(answer)}",
        answer=answer,
        expected=wanted,
        yours=kind(answer),
    )


def unpack(answer: Any, *names: str) -> tuple[Any, ...]:
    """The parts of an answer that must be a tuple (a list will do) of as many values as names."""
    if isinstance(answer, tuple | list) and len(answer) == len(names):
        return tuple(answer)
    raise NotUnpackedError(
        f"returned {kind(answer)}, expected a tuple ({', '.join(names)})", answer=answer
    )


def same_answer(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two answers are the same up to rounding: kind, shape, dtype and numbers."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not one.is_floating_point():
            return torch.equal(one.cpu(), other.cpu())
        a, b = _float64(one), _float64(other)
        both = a.isfinite() & b.isfinite()
        if a.numel() and not bool(both.any()):
            return False  # any two answers without a number are alike: that says nothing
        if not torch.allclose(a[~both], b[~both], equal_nan=True):
            return False
        reach = _reach(one, a.where(both, torch.zeros(())))
        gap = (a - b)[both].abs()
        near = max(tolerance, _agreement_ulps(one.dtype) * reach)
        return gap.numel() == 0 or bool(gap.max() <= near)
    if isinstance(one, Raised) and isinstance(other, Raised):
        theirs = bool(one.frames or other.frames)  # raised by a line of the learner's own
        (kind_, text), (other_kind, other_text) = _first_raised(one), _first_raised(other)
        return kind_ == other_kind and (theirs or text == other_text)
    if isinstance(one, float) and isinstance(other, float):
        if not (math.isfinite(one) and math.isfinite(other)):
            return False
        reach = torch.finfo(torch.float32).eps * abs(one)
        return one == other or abs(one - other) <= max(tolerance, AGREEMENT_ULPS * reach)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(
            same_answer(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same_answer(one[key], other[key], tolerance) for key in one
        )
    return _same_plain(one, other)


def _first_raised(raised: Raised) -> tuple[str, str]:
    """Type and text; what a lent object raised over there is told as it was raised here."""
    if raised.type_name == "RemoteError":
        kind_, _, text = raised.text.partition(": ")
        return kind_, text
    return raised.type_name, raised.text


def _same_plain(one: Any, other: Any) -> bool:
    """Equality of plain values, in which True is not 1 and 1.0 is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(
            _same_plain(a, b) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_plain(one[k], other[k]) for k in one)
    plain = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)
    return type(one) is type(other) and isinstance(one, plain) and bool(one == other)


def _float64(value: Any) -> Tensor:
    return torch.as_tensor(value).detach().cpu().to(torch.float64)


def _distance(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference; infinite where either is not finite or the shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    if one.numel() == 0:
        return 0.0
    return float((one - other).abs().nan_to_num(float("inf")).max())


def _tolerance_ulps(dtype: torch.dtype) -> float:
    half = dtype in (torch.float16, torch.bfloat16)
    return HALF_TOLERANCE_ULPS if half else TOLERANCE_ULPS


def _agreement_ulps(dtype: torch.dtype) -> float:
    half = dtype in (torch.float16, torch.bfloat16)
    return HALF_AGREEMENT_ULPS if half else AGREEMENT_ULPS


def _dtype(value: Any) -> torch.dtype:
    """The graded dtype: a tensor's own, float32 for Python floats."""
    return value.dtype if isinstance(value, Tensor) else torch.float32


def _reach(expected: Any, exact: Tensor) -> float:
    """One ulp of the largest value in the graded dtype."""
    dtype = _dtype(expected)
    if not dtype.is_floating_point:
        raise GraderFaultError("whole numbers are compared with assert_equals")
    return torch.finfo(dtype).eps * (float(exact.abs().max()) if exact.numel() else 0.0)


@dataclass(frozen=True)
class _Number:
    """Where a Python float is expected, any single number is a right answer."""

    value: float

    @classmethod
    def of(cls, answer: Any) -> _Number | None:
        if isinstance(answer, float | int) and not isinstance(answer, bool):
            return cls(float(answer))
        if isinstance(answer, Tensor) and answer.numel() == 1 and answer.is_floating_point():
            return cls(float(answer))
        return None


def _expect_kind(answer: Any, expected: Any, what: str) -> None:
    """The answer is a tensor of the expected shape, dtype and device, or of the plain type."""
    if isinstance(expected, Tensor):
        if not isinstance(answer, Tensor):
            raise MismatchError(f"{what}: {kind(answer)}, expected {kind(expected)}", answer=answer)
        for name, mine, wanted in (
            ("shape", tuple(answer.shape), tuple(expected.shape)),
            ("dtype", dtype_name(answer.dtype), dtype_name(expected.dtype)),
            ("device", answer.device.type, expected.device.type),
        ):
            if mine != wanted:
                raise MismatchError(
                    f"{what}: {name} {mine}, expected {wanted}",
                    answer=answer,
                    expected=kind(expected),
                    yours=kind(answer),
                )
    elif isinstance(expected, float):
        if _Number.of(answer) is None:
            raise MismatchError(f"{what}: {kind(answer)}, expected one number", answer=answer)
    elif type(answer) is not type(expected) and not (
        isinstance(answer, list | tuple) and isinstance(expected, list | tuple)
    ):
        raise MismatchError(f"{what}: {kind(answer)}, expected {kind(expected)}", answer=answer)


def _judged(answer: Any, judge: Callable[..., None], *reference: Any) -> None:
    """Judge it; what is found wrong carries the judgement along, for other answers."""
    try:
        judge(answer, *reference)
    except MismatchError as mismatch:
        mismatch.judge = lambda other: judge(other, *reference)
        raise


def _judge(
    answer: Any, expected: Any, exact: Tensor, own_error: float, reach: float, what: str
) -> None:
    _expect_kind(answer, expected, what)
    number_ = _Number.of(answer) if isinstance(expected, float) else None
    mine = _float64(number_.value if number_ else answer)
    tolerance = TOLERANCE_FACTOR * own_error + _tolerance_ulps(_dtype(expected)) * reach
    if not (math.isfinite(tolerance) and bool(exact.isfinite().all())):
        raise GraderFaultError(f"the reference for {what} is not finite, or has another shape")
    scale = float(exact.abs().max()) if exact.numel() else 0.0
    name = dtype_name(_dtype(expected))
    margin = Margin(name, _distance(mine, exact), tolerance, scale)
    trial = current_trial()
    trial.margins.append(margin)
    trial.tolerances[trial.compared - 1] = tolerance
    if margin.max_abs_error <= tolerance:
        return
    finite = bool(mine.isfinite().all())
    index = _worst(mine, exact)
    place = f" at {list(index)}" if index else ""
    off = f"off by up to {number(margin.max_abs_error)}; rounding explains {tolerance:.2g}"
    raise MismatchError(
        f"{what}: {off if finite else 'not finite'}",
        answer=answer,
        expected=around(exact, index),
        yours=around(mine, index),
        where=f"largest difference {number(margin.max_abs_error)}{place}",
        margin=margin,
    )


def _judge_equal(answer: Any, expected: Any, what: str) -> None:
    _expect_kind(answer, expected, what)
    if isinstance(expected, Tensor):
        wrong = (answer.cpu() != expected.cpu()).nonzero()
        if len(wrong):
            index = tuple(wrong[0].tolist())
            raise MismatchError(
                f"{what}: different in {len(wrong)} of {expected.numel()} places",
                answer=answer,
                expected=around(expected, index),
                yours=around(answer, index),
                where=f"first at {list(index)}",
            )
    elif not _same_plain(answer, expected):
        right, mine, where = brief_pair(expected, answer)
        raise MismatchError(
            f"{what}: wrong", answer=answer, expected=right, yours=mine, where=where
        )


def _worst(mine: Tensor, exact: Tensor) -> tuple[int, ...]:
    gap = (mine - exact).abs().nan_to_num(float("inf"))
    flat = int(gap.argmax()) if gap.numel() else 0
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), gap.shape))
