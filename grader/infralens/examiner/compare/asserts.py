"""The comparisons. An answer is right when it is as near to the truth as the library itself is.

The truth is the formula in float64. The live library must agree with it, or the run stops with a
grader error, so no formula of ours can drift from diffusers unseen. The tolerance follows from the
library's own error on the same inputs; it is never a number typed in.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infralens.examiner.compare.curve import curve_along
from infralens.examiner.compare.describe import around, brief_pair, dtype_name, kind, number
from infralens.examiner.compare.forms import Form, first_unlike, form_of
from infralens.examiner.compare.region import region_of
from infralens.examiner.compare.same import same_plain
from infralens.examiner.compare.tolerance import (
    RUN_SHARE,
    TOLERANCE_FACTOR,
    allowed_agreement,
    distance,
    float64,
    graded_dtype,
    tolerance_of,
    ulp_of,
)
from infralens.examiner.errors import (
    NO_ANSWER,
    GraderFaultError,
    LearnerError,
    MismatchError,
    NotUnpackedError,
    ReplayedError,
    SubmissionError,
)
from infralens.examiner.run.trial import current_trial
from infralens.report import Margin
from infralens.wire import Raised

MAX_RAISED = 500  # characters of an exception's text


def live(library: Callable[[], Any]) -> Any:
    """Ask the library, and hear it as this run does."""
    return current_trial().hear(_ours(library))


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
        exact = _ours(lambda: float64(truth()))
        reach = ulp_of(expected, exact)
        library_error = distance(float64(expected), exact)
        ulps = agreement_ulps or allowed_agreement(graded_dtype(expected))
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
        exact = _ours(lambda: float64(truth()))
        own_error, reach = distance(float64(expected), exact), ulp_of(expected, exact)
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
        exact = float64(expected)
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
        exact = float64(expected)
        reach = ulp_of(expected, exact)
        own_error = ulps * reach / TOLERANCE_FACTOR
        _judged(answer, _judge, expected, exact, own_error, reach, what)


def assert_equals(
    answer: Any,
    *,
    library: Callable[[], Any] | None = None,
    value: Any = NO_ANSWER,
    what: str = "the result",
) -> None:
    """The answer is exactly the library's (or the given) value: whole numbers, texts, lists."""
    if (library is None) == (value is NO_ANSWER):
        raise GraderFaultError("assert_equals takes one of library= and value=")
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
    trial = current_trial()
    trial.tolerances[trial.compared - 1] = math.inf  # to naming too any numbers are alike here
    trial.suspects.passed(answer)


def assert_form(answer: Any, form: Form, *, what: str = "the result") -> None:
    """The answer holds values of these kinds at these places: `form_of(answer)` is this form.

    For an answer of many parts that a check reads: what they say is still to be judged. Only the
    form is compared, so that a time in it makes no other answer of it.
    """
    found = form_of(answer)
    if not current_trial().compare(found, "property"):
        return
    if odd := first_unlike(found, form):
        raise MismatchError(f"{what}: {odd}", answer=found)
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
    mine = float64(number_.value if number_ else answer)
    tolerance = tolerance_of(own_error, graded_dtype(expected), reach)
    if not (math.isfinite(tolerance) and bool(exact.isfinite().all())):
        raise GraderFaultError(f"the reference for {what} is not finite, or has another shape")
    scale = float(exact.abs().max()) if exact.numel() else 0.0
    name = dtype_name(graded_dtype(expected))
    margin = Margin(name, distance(mine, exact), tolerance, scale)
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
        region=functools.partial(region_of, exact, mine, index),
        curve=functools.partial(curve_along, exact, mine, tolerance, what),
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
                region=functools.partial(region_of, expected, answer, index),
            )
    elif not same_plain(answer, expected):
        right, mine, where = brief_pair(expected, answer)
        raise MismatchError(
            f"{what}: wrong", answer=answer, expected=right, yours=mine, where=where
        )


def _worst(mine: Tensor, exact: Tensor) -> tuple[int, ...]:
    gap = (mine - exact).abs().nan_to_num(float("inf"))
    flat = int(gap.argmax()) if gap.numel() else 0
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), gap.shape))
