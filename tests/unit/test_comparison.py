"""The comparisons: what is right, what is wrong, and what is a fault of the grader itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from infralens.examiner.compare.asserts import (
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_number,
    assert_property,
    assert_raises,
    assert_tensor,
    unpack,
)
from infralens.examiner.compare.same import same_answer
from infralens.examiner.compare.tolerance import (
    AGREEMENT_ULPS,
    HALF_AGREEMENT_ULPS,
    TOLERANCE_FACTOR,
    TOLERANCE_ULPS,
)
from infralens.examiner.errors import (
    NO_ANSWER,
    GraderFaultError,
    LearnerError,
    MismatchError,
    ReplayedError,
)
from infralens.examiner.run.sabotage import perturbed
from infralens.examiner.run.trial import Trial, running
from infralens.wire import Raised

EPS = torch.finfo(torch.float32).eps
TRUTH = torch.tensor([1.0, -3.0, 4.0], dtype=torch.float64)


@pytest.fixture(autouse=True)
def trial() -> Iterator[Trial]:
    with running(Trial()) as current:
        yield current


def against_exact(answer: Any, truth: torch.Tensor = TRUTH) -> None:
    """Compare with a library that is exact: what is left of the tolerance are its ulps."""
    assert_matches(answer, library=lambda: truth.float(), truth=lambda: truth)


def mismatch(compare: Callable[[], object]) -> MismatchError:
    with pytest.raises(MismatchError) as caught:
        compare()
    return caught.value


# The tolerance


def test_the_librarys_own_answer_is_right() -> None:
    against_exact(TRUTH.float())


def test_the_tolerance_is_a_few_ulps_of_the_largest_value_when_the_library_is_exact(
    trial: Trial,
) -> None:
    allowed = TOLERANCE_ULPS * EPS * 4.0
    against_exact((TRUTH + 0.9 * allowed * torch.tensor([1, 0, 0])).float())
    assert trial.margins[0].tolerance == pytest.approx(allowed)
    assert trial.margins[0].scale == 4.0
    mismatch(lambda: against_exact((TRUTH + 1.5 * allowed * torch.tensor([1, 0, 0])).float()))


def test_the_tolerance_grows_with_the_librarys_own_error(trial: Trial) -> None:
    library = TRUTH.float() + 40 * EPS
    own = float((library.double() - TRUTH).abs().max())
    wide = TOLERANCE_FACTOR * own + TOLERANCE_ULPS * EPS * 4.0
    answer = TRUTH.float() + 0.9 * wide
    assert_matches(answer, library=lambda: library, truth=lambda: TRUTH)
    assert trial.margins[0].tolerance == pytest.approx(wide)
    mismatch(
        lambda: assert_matches(
            TRUTH.float() + 1.2 * wide, library=lambda: library, truth=lambda: TRUTH
        )
    )


def test_a_half_precision_answer_gets_a_half_precision_tolerance(trial: Trial) -> None:
    truth = torch.tensor([1.001, 2.003], dtype=torch.float64)
    assert_matches(truth.half(), library=lambda: truth.half(), truth=lambda: truth)
    assert trial.margins[0].dtype == "float16"
    assert trial.margins[0].tolerance > 8 * torch.finfo(torch.float16).eps


@pytest.mark.parametrize(
    ("dtype", "ulps"), [(torch.float32, AGREEMENT_ULPS), (torch.float16, HALF_AGREEMENT_ULPS)]
)
def test_a_library_that_disagrees_with_the_formula_is_a_fault_of_the_grader(
    dtype: torch.dtype, ulps: float
) -> None:
    truth = torch.tensor([4.0], dtype=torch.float64)
    off = (truth + 2 * ulps * 4 * torch.finfo(dtype).eps).to(dtype)
    with pytest.raises(GraderFaultError, match="diffusers and the formula disagree"):
        assert_matches(off, library=lambda: off, truth=lambda: truth)


def test_a_library_of_another_shape_is_a_fault_of_the_grader() -> None:
    with pytest.raises(GraderFaultError):
        assert_matches(TRUTH.float(), library=lambda: TRUTH.float()[None], truth=lambda: TRUTH)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_library_that_is_not_finite_is_a_fault_of_the_grader(number: float) -> None:
    library = torch.tensor([1.0, number])
    with pytest.raises(GraderFaultError):
        assert_matches(
            library, library=lambda: library, truth=lambda: torch.tensor([1.0, 2.0]).double()
        )


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_truth_that_is_not_finite_is_a_fault_of_the_grader(number: float) -> None:
    """Otherwise the tolerance is infinite, and anything passes."""
    truth = torch.tensor([1.0, number], dtype=torch.float64)
    with pytest.raises(GraderFaultError):
        assert_matches(torch.tensor([5.0, 6.0]), library=lambda: truth.float(), truth=lambda: truth)


@pytest.mark.parametrize(
    "computed",
    [torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.inf]), torch.tensor([[1.0, 2.0]])],
    ids=["nan", "inf", "another shape"],
)
def test_a_formula_without_a_finite_error_is_a_fault_of_the_grader(computed: torch.Tensor) -> None:
    truth = torch.tensor([1.0, 2.0], dtype=torch.float64)
    with pytest.raises(GraderFaultError):
        assert_matches_formula(
            torch.full_like(computed, 99.0), computed=lambda: computed, truth=lambda: truth
        )


def test_a_property_that_is_not_finite_is_a_fault_of_the_grader() -> None:
    with pytest.raises(GraderFaultError):
        assert_property(
            torch.tensor([99.0]), equals=lambda: torch.tensor([math.inf]), what="the sum"
        )


def test_a_float_formula_that_is_wrong_widens_nothing_beyond_its_own_error() -> None:
    truth = torch.tensor([1.0], dtype=torch.float64)
    computed = (truth + EPS).float()
    mismatch(
        lambda: assert_matches_formula(
            torch.tensor([1.001]), computed=lambda: computed, truth=lambda: truth
        )
    )


def test_where_the_truth_is_zero_only_zero_is_right() -> None:
    zeros = torch.zeros(3, dtype=torch.float64)
    against_exact(torch.zeros(3), zeros)
    against_exact(torch.tensor([0.0, -0.0, 0.0]), zeros)
    mismatch(lambda: against_exact(torch.tensor([0.0, 1e-30, 0.0]), zeros))


def test_an_empty_result_is_right_when_it_is_empty() -> None:
    against_exact(torch.empty(0, 3), torch.empty(0, 3, dtype=torch.float64))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_an_answer_that_is_not_finite_is_wrong(number: float) -> None:
    error = mismatch(lambda: against_exact(torch.tensor([1.0, number, 4.0])))
    assert "not finite" in error.message
    assert error.where is not None
    assert "[1]" in error.where


def test_the_explanation_shows_the_place_of_the_largest_difference() -> None:
    truth = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    answer = truth.float()
    answer[1, 2, 1] += 5
    error = mismatch(lambda: against_exact(answer, truth))
    assert error.where == "largest difference 5 at [1, 2, 1]"
    assert error.expected == "[20, 21, 22, 23]"
    assert error.yours == "[20, 26, 22, 23]"
    assert error.margin is not None
    assert error.margin.max_abs_error == 5
    region = error.region()
    assert region is not None
    assert (region.start, region.worst) == ((1, 0, 0), (2, 1))
    assert region.difference == ("0 0 0 0", "0 0 0 0", "0 5 0 0")


# Kind, shape, dtype, device


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "None"),
        ([1.0, -3.0, 4.0], "a list of 3"),
        (1.0, "the float 1.0"),
        (TRUTH.float()[None], r"shape \(1, 3\), expected \(3,\)"),
        (TRUTH.float()[:1], r"shape \(1,\), expected \(3,\)"),
        (TRUTH, "dtype float64, expected float32"),
        (TRUTH.half(), "dtype float16"),
        (TRUTH.long(), "dtype int64"),
        (torch.empty(3, device="meta"), "device meta"),
    ],
    ids=["None", "list", "float", "more axes", "broadcasts", "double", "half", "int", "device"],
)
def test_an_answer_of_another_kind_is_named(answer: Any, says: str) -> None:
    with pytest.raises(MismatchError, match=says):
        against_exact(answer)


@pytest.mark.parametrize("answer", [2.5, torch.tensor(2.5), torch.tensor([[2.5]])], ids=repr)
def test_where_a_float_belongs_any_single_number_will_do(answer: Any) -> None:
    assert_matches(answer, library=lambda: 2.5, truth=lambda: 2.5)


@pytest.mark.parametrize(
    "answer", [True, "2.5", None, torch.tensor([2.5, 2.5]), torch.tensor(2), [2.5]], ids=repr
)
def test_where_a_float_belongs_other_things_will_not_do(answer: Any) -> None:
    mismatch(lambda: assert_matches(answer, library=lambda: 2.5, truth=lambda: 2.5))


def test_whole_numbers_have_a_comparison_of_their_own() -> None:
    with pytest.raises(GraderFaultError, match="assert_equals"):
        assert_matches(
            torch.tensor([1]), library=lambda: torch.tensor([1]), truth=lambda: torch.tensor([1])
        )


# Exactly


@pytest.mark.parametrize(
    "value", [1, True, "a", None, [1, 2], (1, [True]), {"a": 1}, 0.5, torch.float16], ids=repr
)
def test_the_same_plain_value_is_equal(value: Any) -> None:
    assert_equals(value, value=value)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (True, 1),
        (1, True),
        (0, False),
        (1.0, 1),
        (1, 1.0),
        ("1", 1),
        (None, 0),
        ([True], [1]),
        ([1, 2], [1, 2, 3]),
        ([2, 1], [1, 2]),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"b": 1}),
        ((1, [0]), (1, [False])),
        (torch.tensor(1), 1),
        (math.nan, 0.5),
    ],
    ids=repr,
)
def test_a_bool_is_no_int_and_an_int_no_float(answer: Any, value: Any) -> None:
    mismatch(lambda: assert_equals(answer, value=value))


def test_a_list_will_do_for_a_tuple() -> None:
    assert_equals([1, (2, 3)], value=(1, [2, 3]))


def test_long_lists_are_shown_where_they_differ() -> None:
    right = [*range(20)]
    error = mismatch(lambda: assert_equals([*right[:15], 99, *right[16:]], value=right))
    assert (error.where, "15" in str(error.expected), "99" in str(error.yours)) == (
        "first at [15]",
        True,
        True,
    )
    error = mismatch(lambda: assert_equals([7, *right[1:]], value=right))
    assert error.where is None
    assert str(error.yours).startswith("[7, 1, ")


def test_of_many_entries_those_that_differ_are_shown_in_one_order() -> None:
    right = {f"key{n}": n for n in range(9)}
    wrong = {"key8": 8, **{key: n for key, n in right.items() if n not in (2, 5)}, "more": 0}
    error = mismatch(lambda: assert_equals({**wrong, "key4": -1}, value=right))
    assert error.expected == "{'key2': 2, 'key5': 5, 'key4': 4, …}"
    assert error.yours == "{'more': 0, 'key4': -1, …}"
    assert error.where == "missing: 'key2', 'key5'; not expected: 'more'; different: 'key4'"


def test_few_entries_are_all_shown_in_the_expected_order() -> None:
    error = mismatch(lambda: assert_equals({"b": 3, "a": 1}, value={"a": 1, "b": 2}))
    assert (error.expected, error.yours) == ("{'a': 1, 'b': 2}", "{'a': 1, 'b': 3}")
    assert error.where == "different: 'b'"


def test_tensors_of_whole_numbers_are_compared_exactly() -> None:
    expected = torch.tensor([[3, 2], [1, 0]])
    assert_equals(expected.clone(), library=lambda: expected)
    error = mismatch(lambda: assert_equals(expected + 1, library=lambda: expected))
    assert "4 of 4 places" in error.message
    error = mismatch(
        lambda: assert_equals(torch.tensor([[3, 2], [1, 7]]), library=lambda: expected)
    )
    assert error.where == "first at [1, 1]"
    region = error.region()
    assert region is not None
    assert region.difference == ("0 0", "0 7")
    mismatch(lambda: assert_equals(expected.int(), library=lambda: expected))
    mismatch(lambda: assert_equals(expected.bool(), library=lambda: expected.bool() ^ True))


# Raising


def raising(*names: str, text: str = "no", at_call: bool = False) -> Callable[[], Any]:
    def call() -> Any:
        raise LearnerError(Raised(names, text, at_call=at_call))

    return call


def test_the_exception_or_one_of_its_bases_is_what_is_asked_for() -> None:
    assert_raises(raising("MyError", "ValueError", "Exception"), "ValueError", what="n > T")
    assert_raises(raising("KeyError"), "ValueError", "KeyError", what="n > T")
    assert_raises(raising("AnythingError"), what="n > T")


def test_another_exception_or_none_is_wrong() -> None:
    error = mismatch(lambda: assert_raises(raising("KeyError"), "ValueError", what="n > T"))
    assert str(error).startswith("n > T should raise ValueError; it raised KeyError")
    error = mismatch(lambda: assert_raises(lambda: 3, "ValueError", what="n > T"))
    assert str(error) == "n > T should raise ValueError; it returned the int 3"


def test_a_call_that_does_not_fit_is_not_the_exception_that_was_asked_for() -> None:
    mismatch(
        lambda: assert_raises(raising("TypeError", at_call=True), "TypeError", what="the call")
    )


def test_not_written_yet_is_not_an_exception_that_was_asked_for() -> None:
    with pytest.raises(LearnerError):
        assert_raises(raising("NotImplementedError", text="TODO 3.1: x"), what="n > T")


# Parts, and the record


def test_unpack_takes_a_tuple_or_a_list_of_the_right_length() -> None:
    assert unpack((1, 2), "a", "b") == (1, 2)
    assert unpack([1, 2], "a", "b") == (1, 2)


@pytest.mark.parametrize("answer", [None, (1,), (1, 2, 3), "ab", {"a": 1, "b": 2}, torch.ones(2)])
def test_unpack_names_what_was_expected(answer: Any) -> None:
    with pytest.raises(MismatchError, match=r"expected a tuple \(a, b\)"):
        unpack(answer, "a", "b")


def test_what_was_compared_with_what_is_kept(trial: Trial) -> None:
    against_exact(TRUTH.float())
    assert_equals(1, value=1)
    assert_property(1.0, equals=lambda: 1.0, what="one")
    assert trial.compared == 3
    assert trial.references == {"library", "property"}


def test_a_replay_stops_at_the_answer_that_is_wanted_and_asks_no_library() -> None:
    def library() -> Any:
        raise AssertionError("asked")

    with running(Trial(stop_at=1)):
        assert_matches(1.0, library=library, truth=library)
        with pytest.raises(ReplayedError) as caught:
            assert_matches(2.0, library=library, truth=library)
    assert caught.value.answer == 2.0


def test_a_comparison_outside_a_check_is_a_fault_of_the_grader() -> None:
    nothing: Any = None
    with running(nothing), pytest.raises(GraderFaultError, match="outside a check"):
        assert_equals(1, value=1)


@pytest.mark.parametrize("with_what", [{}, {"library": lambda: 1, "value": 1}])
def test_an_equality_has_one_other_side(trial: Trial, with_what: dict[str, Any]) -> None:
    with pytest.raises(GraderFaultError, match="one of library= and value="):
        assert_equals(1, **with_what)
    assert_equals(None, value=None)


# The same answer


@pytest.mark.parametrize(
    "value",
    [
        TRUTH.float(),
        torch.tensor([1.0, math.nan, math.inf]),
        torch.tensor([1, 2]),
        torch.empty(0),
        0.5,
        True,
        None,
        "a",
        [1.0, (torch.ones(2), {"k": 1})],
        Raised(("ValueError",), "no"),
    ],
    ids=repr,
)
def test_an_answer_is_the_same_as_itself(value: Any) -> None:
    assert same_answer(value, value, 0.0)


def test_what_a_lent_object_raised_is_the_same_here_and_there() -> None:
    here, there = Raised(("RuntimeError",), "no"), Raised(("RemoteError",), "RuntimeError: no")
    assert same_answer(there, here, 0.0)
    assert not same_answer(there, Raised(("ValueError",), "no"), 0.0)


def test_rounding_does_not_make_another_answer() -> None:
    assert same_answer(TRUTH.float(), TRUTH.float() + 8 * EPS, 0.0)
    assert same_answer(TRUTH.float(), TRUTH.float() + 0.5, 1.0)
    assert same_answer(0.5, 0.5 + 1e-8, 0.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TRUTH.float(), TRUTH.float() + 0.01),
        (TRUTH.float(), TRUTH.float()[None]),
        (TRUTH.float(), TRUTH),
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0])),
        (torch.tensor([1.0, math.inf]), torch.tensor([1.0, -math.inf])),
        (torch.tensor([1.0, math.inf]), torch.tensor([1.0, math.nan])),
        (torch.tensor([1]), torch.tensor([2])),
        (0.5, 0.6),
        (True, 1),
        (1, 1.0),
        (None, 0),
        ([1.0], [1.0, 2.0]),
        ({"a": 1.0}, {"b": 1.0}),
        (Raised(("ValueError",), "no"), Raised(("KeyError",), "no")),
        (Raised(("ValueError",), "no"), Raised(("ValueError",), "yes")),
        (NO_ANSWER, None),
        (torch.ones(()), 1.0),
    ],
    ids=lambda value: "no answer" if value is NO_ANSWER else repr(value),
)
def test_another_answer_is_not_the_same(one: Any, other: Any) -> None:
    assert not same_answer(one, other, 1e-6)
    assert not same_answer(other, one, 1e-6)


# Sabotage: what proves that a check asks the library


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([0.6, -1.3, 2.1]),
        torch.zeros(2),
        torch.ones(2).half(),
        torch.tensor([True]),
        torch.tensor([3]),
        1.5,
        0.0,
        3,
        True,
        "leading",
        [1, (2.0,)],
        {"a": 1},
    ],
    ids=repr,
)
def test_a_sabotaged_library_is_noticed(value: Any) -> None:
    def compare() -> None:
        if isinstance(value, float) or (
            isinstance(value, torch.Tensor) and value.is_floating_point()
        ):
            wrong = perturbed(value)
            assert_matches(value, library=lambda: wrong, truth=lambda: value)
        else:
            assert_equals(value, library=lambda: perturbed(value))

    with pytest.raises((MismatchError, GraderFaultError)):
        compare()


# The form of an answer, before anything computes with it


@pytest.mark.parametrize(
    "answer",
    [None, [1.0, 2.0], torch.ones(3), torch.ones(2).half(), torch.tensor([1.0, math.nan])],
    ids=["None", "a list", "another shape", "another dtype", "NaN"],
)
def test_an_answer_of_another_form_is_no_such_tensor(answer: Any) -> None:
    with pytest.raises(MismatchError):
        assert_tensor(answer, like=torch.zeros(2))
    assert_tensor(torch.ones(2), like=torch.zeros(2))


@pytest.mark.parametrize("answer", [None, True, " 0.5 ", math.nan, math.inf, torch.ones(())])
def test_what_is_no_finite_number_is_none(answer: Any) -> None:
    with pytest.raises(MismatchError):
        assert_number(answer)
    assert_number(0.5)
