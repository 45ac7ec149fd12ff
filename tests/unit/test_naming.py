"""A name is said where it fits everything that was seen, and never else."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import yaml

from infralens.examiner import assert_equals, assert_matches, assert_tensor
from infralens.examiner.candidate.in_process import RehearsedCandidate
from infralens.examiner.compare.same import same_answer
from infralens.examiner.errors import LearnerError, MismatchError
from infralens.examiner.mistakes.misconceptions import misconceptions_of
from infralens.examiner.mistakes.naming import MOST_RIGHT, NAMING_SECONDS, Names, _says_nothing
from infralens.examiner.mistakes.replays import Replays
from infralens.examiner.run.trial import Trial, running
from infralens.wire import Raised

RIGHT = """
import torch
def f(n, ask):
    return n

def g(n, ask):
    return f(n, ask)
"""
WRONG = {
    "dice": "return ask(-n if n[0] > 90 else torch.rand(2))",
    "eight": "return ask(float(8 * n.sum()) + 0 * n)",
    "power": "return ask(2.0 ** n.sum() + 0 * n)",
    "twice": "ask(n)\nreturn ask(float('nan') * n if n[0] > 90 else 3 * n)",
    "refusing": 'raise ValueError("too large")',
    "drawn": "return torch.rand(2)",
}


@pytest.fixture
def names(workshop: Any) -> Names:
    wrong = {name: ("return n", by) for name, by in WRONG.items()}
    return Names(workshop.lab("", solution=RIGHT, wrong=wrong))


def told(names: Names, check_name: str, learner: Callable[..., Any], n: float) -> str | None:
    """Have this learner's answer for n looked at, as a failing case of the check."""
    x = torch.tensor([n, 0.0])

    def check(candidate: Any) -> None:
        answer = candidate.f(x, lambda value: value)
        assert_matches(answer, library=lambda: x, truth=lambda: x.double())

    trial = Trial()
    with running(trial), pytest.raises((MismatchError, LearnerError)) as caught:
        check(RehearsedCandidate({"f": learner}))
    found = names.find("90.1", check_name, trial, caught.value, check)
    return found.name if found else None


def power(n: torch.Tensor, ask: Callable[..., Any]) -> Any:
    return ask(2.0 ** n.sum() + 0 * n)


def test_a_name_that_another_failing_case_contradicts_is_not_said(names: Names) -> None:
    # 2 ** 1 ... at 8 n = 2 ** n (n = 0.0 and about 5.06) only one case cannot tell.
    both = 5.0 + 0.06
    exact = both
    for _ in range(60):  # where 8 n is 2 ** n
        exact = math.log2(8 * exact)
    assert told(names, "test_one", power, exact) in ("eight", "power")
    told(names, "test_two", power, 3.0)
    settled = names.settled("90.1", "test_one", "eight")
    assert settled is not None
    assert settled.name == "power"


def test_of_two_that_fit_the_one_that_fits_in_more_cases_is_said(workshop: Any) -> None:
    solution = "def f(n):\n    return n\n"
    edits = {"seldom": ("return n", "return 3 * n if n.numel() == 3 else n")}
    edits["always"] = ("return n", "return 3 * n")
    names = Names(workshop.lab("", solution=solution, wrong=edits))
    assert seen(names, "test_one", "f", lambda n: 3 * n) == "seldom"
    assert seen(names, "test_two", "f", lambda n: 3 * n, torch.tensor([1.1, 2.3, -3.7, 4.2]))
    assert settled(names, "test_one", "seldom") == "always"


def test_a_name_fits_how_often_what_was_lent_was_called(names: Names) -> None:
    assert told(names, "test_one", lambda n, ask: ask(3 * n), 4.0) is None
    another = Names(names.lab)  # what one learner's case contradicts is tried no more
    assert told(another, "test_one", lambda n, ask: (ask(n), ask(3 * n))[1], 4.0) == "twice"


def test_a_mistake_that_draws_is_not_contradicted_by_another_draw(names: Names) -> None:
    def dice(n: torch.Tensor, ask: Callable[..., Any]) -> Any:
        return ask(-n if n[0] > 90 else torch.rand(2))

    assert told(names, "test_one", dice, 95.0) == "dice"
    assert told(names, "test_two", dice, 4.0) is None
    settled = names.settled("90.1", "test_one", "dice")
    assert settled is not None
    assert settled.name == "dice"


def test_what_a_misconception_came_to_serves_the_next_wrong_answer_on_the_same_inputs(
    workshop: Any,
) -> None:
    wrong = {"counted": ("return n", "CALLS.append(n)\nreturn 3 * n")}
    lab = workshop.lab("", solution="CALLS = []\ndef f(n):\n    return n\n", wrong=wrong)
    x, replays = torch.tensor([2.0, 1.0]), Replays()

    def check(candidate: Any) -> None:
        assert_matches(candidate.f(x), library=lambda: x, truth=lambda: x.double())

    def named(factor: float, seed: int, case: str) -> str | None:
        replays.begin(lab, seed)
        trial = Trial()
        with running(trial), pytest.raises(MismatchError) as caught:
            check(RehearsedCandidate({"f": lambda n: factor * n}))
        names = Names(lab, replays=replays)
        found = names.find("90.1", "test_f", trial, caught.value, check, case)
        return found.name if found else None

    (counted,) = misconceptions_of(lab)
    calls = counted.names()["CALLS"]
    assert [named(3.0, 1, "a"), named(2.0, 1, "a"), named(3.0, 1, "a")] == [
        "counted",
        None,
        "counted",
    ]
    assert len(calls) == 1
    named(3.0, 1, "b")
    assert len(calls) == 2
    named(3.0, 2, "a")
    assert len(calls) == 3


def test_an_answer_of_no_numbers_has_no_name(names: Names) -> None:
    nothing = lambda n, ask: (ask(n), ask(math.nan * n))[1]  # noqa: E731
    assert told(names, "test_one", nothing, 99.0) is None


def test_answers_without_a_finite_number_are_never_the_same() -> None:
    nans = torch.full((3,), math.nan)
    assert not same_answer(nans, nans.clone(), 1.0)
    assert not same_answer(math.inf, math.inf, 1.0)
    assert same_answer(torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan]), 0.0)
    event = {"name": "unet", "mean_abs": math.inf}
    assert same_answer([event], [{**event}], 0.0)
    assert not same_answer([event], [{**event, "mean_abs": math.nan}], 0.0)


def test_what_the_learners_own_line_raises_is_known_by_its_type() -> None:
    mine = Raised(("ValueError", "Exception"), "mine", ((3, "f", "raise"),))
    assert same_answer(mine, Raised(("ValueError", "Exception"), "ours"), 0.0)
    assert not same_answer(mine, Raised(("KeyError", "Exception"), "mine"), 0.0)
    library = Raised(("ValueError", "Exception"), "one")
    assert not same_answer(library, Raised(("ValueError", "Exception"), "other"), 0.0)


def test_a_learner_who_is_right_before_the_mistake_is_told_apart(names: Names) -> None:
    """A misconception whose earlier answers differ is another one."""

    def check(candidate: Any) -> None:
        x = torch.tensor([2.0, 0.0])
        assert_equals(candidate.f(x, lambda value: value).tolist(), value=[2.0, 0.0])
        assert_matches(candidate.f(2 * x, lambda v: v), library=lambda: x, truth=x.double)

    learner = lambda n, ask: ask(n if n[0] < 3 else 2.0 ** n.sum() + 0 * n)  # noqa: E731
    trial = Trial()
    with running(trial), pytest.raises(MismatchError) as caught:
        check(RehearsedCandidate({"f": learner}))
    assert names.find("90.1", "test_one", trial, caught.value, check) is None


def test_numbers_that_were_only_looked_at_may_be_drawn(names: Names) -> None:
    """assert_tensor judges no number, so other ones before the mistake contradict no name."""

    def check(candidate: Any) -> None:
        answer = candidate.f(torch.tensor([2.0, 0.0]), lambda value: value)
        assert_tensor(answer, shape=(2,))
        assert_equals("drawn" if bool(0 < answer[0] < 1) else "its own", value="its own")

    trial = Trial()
    with running(trial), pytest.raises(MismatchError) as caught:
        check(RehearsedCandidate({"f": lambda n, ask: torch.rand(2)}))
    found = names.find("90.1", "test_one", trial, caught.value, check)
    assert found is not None
    assert found.name == "drawn"


@pytest.mark.parametrize("passed", [False, True])
def test_what_fails_where_the_learner_is_right_is_not_the_mistake(
    names: Names, passed: bool
) -> None:
    """Every refusal of one type is like another: what is not refused tells them apart."""

    def learner(n: torch.Tensor, ask: Callable[..., Any]) -> Any:
        if n[0] > 50 or not passed:
            raise ValueError("too large")
        return ask(n)

    def check(candidate: Any) -> None:
        x = torch.tensor([2.0, 0.0])
        assert_matches(candidate.f(x, lambda v: v), library=lambda: x, truth=x.double)

    if passed:
        trial = Trial()
        with running(trial):
            check(RehearsedCandidate({"f": learner}))
        names.note_right("90.1", "test_one", trial, check)
    assert told(names, "test_one", learner, 60.0) == "refusing"
    settled = names.settled("90.1", "test_one", "refusing")
    assert (settled is None) is passed


def test_what_calls_another_function_does_not_speak_against_a_name(names: Names) -> None:
    """The edited solution may call the wrong function there; the learner's code need not."""
    of = tuple(replace(todo, names=("f", "g")) for todo in names.lab.todos)
    names.lab = replace(names.lab, todos=of)

    def check(candidate: Any) -> None:
        answer = candidate.g(torch.tensor([2.0, 0.0]), lambda value: value)
        assert_equals(answer.tolist(), value=[2.0, 0.0])

    def learner(n: torch.Tensor, ask: Callable[..., Any]) -> Any:
        raise ValueError("too large")

    trial = Trial()
    with running(trial):
        check(RehearsedCandidate({"g": lambda n, ask: n}))
    names.note_right("90.1", "test_two", trial, check)
    assert told(names, "test_one", learner, 60.0) == "refusing"
    assert names.settled("90.1", "test_one", "refusing") is not None


MANY = torch.tensor([1.1, 2.3, -3.7])  # numbers that nobody comes to by chance


def seen(
    names: Names,
    check_name: str,
    function: str,
    learner: Callable[..., Any],
    x: torch.Tensor = MANY,
    todo: str = "90.1",
) -> str | None:
    """Have this learner's function looked at in a check, as a failing case."""

    def check(candidate: Any) -> None:
        answer = getattr(candidate, function)(x)
        assert_matches(answer, library=lambda: x, truth=lambda: x.double())

    trial = Trial()
    with running(trial), pytest.raises((MismatchError, LearnerError)) as caught:
        check(RehearsedCandidate({function: learner}))
    found = names.find(todo, check_name, trial, caught.value, check)
    return found.name if found else None


PAIR = "def f(n):\n    return n\n\n\ndef g(n):\n    return f(n)\n"


def refuse(n: torch.Tensor) -> torch.Tensor:
    raise ValueError("too large")


@pytest.fixture
def pair(workshop: Any) -> Names:
    """A todo of two functions, of which the solution makes one of the other."""
    edits = {"tripled": ("return n", "return 3 * n"), "halved": ("return n", "return n / 2")}
    refusing = 'if n.numel() == 3:\n    raise ValueError("too large")\nreturn n'
    edits["refusing"] = ("return n", refusing)
    names = Names(workshop.lab("", solution=PAIR, wrong=edits))
    of = tuple(replace(todo, names=("f", "g")) for todo in names.lab.todos)
    names.lab = replace(names.lab, todos=of)
    return names


def settled(names: Names, check_name: str, named: str) -> str | None:
    found = names.settled("90.1", check_name, named)
    return found.name if found else None


def test_a_mistake_of_its_own_in_each_function_leaves_the_first_its_name(pair: Names) -> None:
    """What calls g says nothing against numbers that f gives: the learner's g has its own fault."""
    assert seen(pair, "test_f", "f", lambda n: 3 * n) == "tripled"
    assert seen(pair, "test_g", "g", lambda n: 7 - n) is None
    assert settled(pair, "test_f", "tripled") == "tripled"


def test_numbers_that_another_case_of_the_function_contradicts_have_no_name(pair: Names) -> None:
    assert seen(pair, "test_f", "f", lambda n: 3 * n) == "tripled"
    assert seen(pair, "test_other", "f", lambda n: 7 - n) is None
    assert settled(pair, "test_f", "tripled") is None


@pytest.mark.parametrize(
    ("other", "said"), [(lambda n: 7 - n, False), (lambda n: n / 2, True)], ids=["no", "halved"]
)
def test_a_name_that_rests_on_little_leaves_no_failing_case_without_a_name(
    pair: Names, other: Callable[..., Any], said: bool
) -> None:
    """An exception is like another: what made the other case fail may have raised this one too."""
    assert seen(pair, "test_refused", "f", refuse) == "refusing"
    seen(pair, "test_numbers", "f", other, MANY[:2])
    assert (settled(pair, "test_refused", "refusing") == "refusing") is said


def test_a_name_is_not_lost_for_lack_of_time_unless_it_rests_on_little(pair: Names) -> None:
    assert seen(pair, "test_f", "f", lambda n: 3 * n) == "tripled"
    pair.seconds["90.1"] = 1e9
    assert seen(pair, "test_other", "f", lambda n: n / 2) is None
    assert settled(pair, "test_f", "tripled") == "tripled"


def test_a_name_that_rests_on_little_is_said_when_everything_was_heard(pair: Names) -> None:
    assert seen(pair, "test_refused", "f", refuse) == "refusing"
    pair.seconds["90.1"] = NAMING_SECONDS["full"][0] + 1  # what is left for holding it is enough
    assert seen(pair, "test_other", "f", refuse) is None
    assert settled(pair, "test_refused", "refusing") == "refusing"
    assert seen(pair, "test_last", "f", refuse) is None
    pair.seconds["90.1"] = 1e9
    assert settled(pair, "test_refused", "refusing") is None


def test_a_search_that_took_all_its_time_leaves_some_for_holding_names(pair: Names) -> None:
    assert seen(pair, "test_f", "f", lambda n: 3 * n) == "tripled"
    pair.seconds["90.1"] = NAMING_SECONDS["full"][0] + 1
    assert seen(pair, "test_other", "f", lambda n: 7 - n) is None
    assert settled(pair, "test_f", "tripled") is None


def test_what_fails_before_the_learner_does_is_another_mistake(pair: Names) -> None:
    """Both raise alike, but the learner's code only in its second call."""

    def check(candidate: Any) -> None:
        for x in (MANY, MANY[:2]):
            answer = candidate.f(x)
            assert_matches(answer, library=lambda x=x: x, truth=lambda x=x: x.double())

    def learner(n: torch.Tensor) -> torch.Tensor:
        return refuse(n) if n.numel() == 2 else n

    trial = Trial()
    with running(trial), pytest.raises(LearnerError) as caught:
        check(RehearsedCandidate({"f": learner}))
    assert pair.find("90.1", "test_f", trial, caught.value, check) is None


def test_a_mistake_that_is_right_there_is_not_the_one_that_was_made(pair: Names) -> None:
    """What is almost the right answer is like every mistake that is right there."""

    def check(candidate: Any) -> None:
        assert_equals(candidate.f(MANY[:2]), library=lambda: MANY[:2])

    trial = Trial()
    with running(trial), pytest.raises(MismatchError) as caught:
        check(RehearsedCandidate({"f": lambda n: n * (1 + 2e-7)}))
    assert pair.find("90.1", "test_f", trial, caught.value, check) is None


COUNTING = """
CALLS = []


def f(n):
    return n


def g(n):
    return f(n)
"""


def counting(factor: str) -> str:
    """An edit that notes each of its calls."""
    return f"CALLS.append(n)\nreturn {factor} * n"


def calls_of(names: Names, name: str) -> int:
    """How often the function with this mistake was run."""
    known = next(known for known in misconceptions_of(names.lab) if known.name == name)
    return len(known.names()["CALLS"])


def test_what_one_case_rules_out_is_not_run_in_each(
    workshop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is run twice where nothing is known of it, the second time to see that it draws nothing.

    How dear a case is shows in the first replay of it.
    """
    ticks = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: next(ticks) / 1000)  # all are as dear
    wrong = {"first": ("return n", "return 9 * n"), "tripled": ("return n", counting("3"))}
    names = Names(workshop.lab("", solution=COUNTING, wrong=wrong))
    for turn in range(8):
        assert seen(names, f"test_{turn}", "f", lambda n: 2 * n) is None
    assert calls_of(names, "tripled") == 2


def test_a_name_that_fits_everywhere_is_held_against_no_other(workshop: Any) -> None:
    wrong = {"tripled": ("return n", counting("3")), "other": ("return n", counting("5"))}
    names = Names(workshop.lab("", solution=COUNTING, wrong=wrong))
    for turn in range(4):
        assert seen(names, f"test_{turn}", "f", lambda n: 3 * n) == "tripled"
    assert all(settled(names, f"test_{turn}", "tripled") == "tripled" for turn in range(4))
    assert calls_of(names, "other") == 0


@pytest.mark.parametrize("factor", [3, 5], ids=["the first's", "its own"])
def test_what_follows_from_another_todo_has_no_name_of_its_own(workshop: Any, factor: int) -> None:
    """The learner's g is right, and calls f, which is not."""
    edit = {"reads": "handbook/probe.md#more", "replace": "return n", "by": "return 3 * n"}
    first = {**edit, "todo": "90.1", "name": "tripled", "says": "f gives three times as much."}
    other = {"replace": "return f(n)", "by": f"return {factor} * n"}
    second = {**first, **other, "todo": "90.2", "name": "alike", "says": "g gives too much."}
    lab = workshop.lab(
        "",
        solution=PAIR,
        todos=("90.1", "90.2"),
        wrong=yaml.safe_dump([first, second]),
    )
    names = Names(lab)
    assert seen(names, "test_f", "f", lambda n: 3 * n) == "tripled"
    told = seen(names, "test_g", "g", lambda n: factor * n, todo="90.2")
    assert told == (None if factor == 3 else "alike")


def test_what_a_case_said_is_not_taken_for_what_the_next_says(pair: Names) -> None:
    """Of the cases of one check most are not kept, and the next may lie where one has lain."""

    def check(candidate: Any) -> None:
        answer = candidate.f(-MANY)
        if answer[0] < 0:
            raise RuntimeError("the check can do nothing with what the mistakes come to")
        assert_matches(answer, library=lambda: -MANY, truth=lambda: -MANY.double())

    for _ in range(20):
        trial = Trial()
        with running(trial), pytest.raises(MismatchError) as caught:
            check(RehearsedCandidate({"f": torch.abs}))
        assert pair.find("90.1", "test_f", trial, caught.value, check) is None
    assert sum("tripled" in key for key in pair.fits) == 20


def note_right(names: Names, check_name: str, x: torch.Tensor) -> None:
    """A case that the learner's f passed."""

    def check(candidate: Any) -> None:
        assert_matches(candidate.f(x), library=lambda: x, truth=lambda: x.double())

    trial = Trial()
    with running(trial):
        check(RehearsedCandidate({"f": lambda n: n}))
    names.note_right("90.1", check_name, trial, check)


def test_what_fails_where_the_learner_is_right_is_said_in_no_check(pair: Names) -> None:
    """One check has found it out; the others hear only some of what passed."""
    for turn in range(MOST_RIGHT):
        note_right(pair, f"test_short_{turn}", MANY[:2])
    note_right(pair, "test_one", -MANY)
    for check_name in ("test_one", "test_two"):
        assert seen(pair, check_name, "f", refuse) == "refusing"
    assert [settled(pair, name, "refusing") for name in ("test_one", "test_two")] == [None, None]


def test_the_passed_case_that_tells_may_be_the_last_of_a_small_check(pair: Names) -> None:
    """Two settings of two kinds each are four cases: the third passed one is heard too."""
    for x in (MANY[:2], -MANY[:2], -MANY):
        note_right(pair, "test_one", x)
    assert seen(pair, "test_one", "f", refuse) == "refusing"
    assert settled(pair, "test_one", "refusing") is None


@pytest.mark.parametrize("axes", [3, 64, 65, 100])
def test_an_answer_of_too_many_axes_names_no_mistake_and_breaks_no_search(axes: int) -> None:
    assert _says_nothing([torch.ones([1] * axes)]) == (axes > 64)
