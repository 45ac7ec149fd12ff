"""Reading checkpoints: questions from a suite's quiz.py, and what counts as a right answer."""

from __future__ import annotations

from typing import Any

import pytest

from infralens.quiz import Question, explained, is_an_answer, is_right, questions_of, shown

QUIZ = '''
from infralens.quiz import question


@question("How many\\nsteps?")
def steps():
    """Because there are
    ten of them."""
    return 10


def helper():
    return 0


@question("Which one?", choices=["the mean", "the variance"])
def which():
    """That one."""
    return "the variance"
'''


def test_the_questions_of_a_lab_come_in_order(workshop: Any) -> None:
    lab = workshop.lab("")
    (lab.suite / "quiz.py").write_text(QUIZ, encoding="utf-8")
    first, second = questions_of(lab)
    assert (first.text, first.choices, first.answer()) == ("How many\nsteps?", (), 10)
    assert first.explanation == "Because there are ten of them."
    assert second.choices == ("the mean", "the variance")


def test_a_lab_without_a_quiz_has_no_questions(workshop: Any) -> None:
    assert questions_of(workshop.lab("")) == ()


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("10", 10),
        (" 10.0 ", 10),
        ("1,000", 1000),
        ("yes", True),
        ("Y", True),
        ("no", False),
        ("False", False),
        ("0.18215", 0.18215),
        ("0.183", 0.18215),
        ("1e3", 1000.0),
        ("-0.5", -0.5),
        ("0", 0.0),
        ("(1, 4, 64, 64)", (1, 4, 64, 64)),
        ("1x4x64x64", (1, 4, 64, 64)),
        ("[1,4]", (1, 4)),
        ("1 × 4", (1, 4)),
        ("Epsilon", "epsilon"),
    ],
)
def test_a_right_answer_is_taken_in_any_usual_spelling(given: str, right: Any) -> None:
    assert is_right(given, right)


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("11", 10),
        ("", 10),
        ("ten", 10),
        ("nan", 10),
        ("inf", 10),
        ("1", True),
        ("yes", False),
        ("", True),
        ("0.2", 0.18215),
        ("nan", 0.5),
        ("1,4,64", (1, 4, 64, 64)),
        ("", (1,)),
        ("sigma", "epsilon"),
    ],
)
def test_a_wrong_answer_is_not_taken(given: str, right: Any) -> None:
    assert not is_right(given, right)


@pytest.mark.parametrize(
    ("given", "right"), [("b", True), ("B", True), ("the variance", True), ("a", False)]
)
def test_a_choice_is_taken_by_letter_or_by_text(given: str, right: bool) -> None:
    assert is_right(given, "the variance", ["the mean", "the variance"]) is right


@pytest.mark.parametrize(
    ("right", "text"),
    [(True, "yes"), (False, "no"), (0.1 + 0.2, "0.3"), (7, "7"), ((1, 2), "(1, 2)")],
)
def test_the_right_answer_is_shown_in_words(right: Any, text: str) -> None:
    assert shown(right) == text


@pytest.mark.parametrize(
    ("right", "explanation", "said"),
    [
        (901, "901: the offset is added.", "901: the offset is added."),
        ((1, 16), "(1, 16): three blocks.", "(1, 16): three blocks."),
        (True, "Yes. It takes the mode.", "Yes. It takes the mode."),
        (14, "14.6 is the largest.", "14. 14.6 is the largest."),
        (7, "A quarter of the way.", "7. A quarter of the way."),
    ],
)
def test_an_explanation_that_begins_with_the_answer_says_it_once(
    right: Any, explanation: str, said: str
) -> None:
    def answer() -> Any:
        return right

    answer.__doc__ = explanation
    question = Question("How many?", (), answer)
    assert explained(question, right) == said


@pytest.mark.parametrize(
    ("given", "right", "choices", "is_one"),
    [
        ("", 5, (), True),
        ("abc", 5, (), False),
        ("3,2", 3.2, (), False),
        ("1,000", 1000, (), True),
        ("4", 5, (), True),
        ("maybe", True, (), False),
        ("no", True, (), True),
        ("2 x 3", (2, 4), (), True),
        ("2, b", (2, 4), (), False),
        ("(2, 4,)", (2, 4), (), True),
        ("()", (2, 4), (), False),
        ("z", "the first", ("the first", "the second"), False),
        ("b", "the first", ("the first", "the second"), True),
        ("the", "the first", ("the first", "the second"), False),
        ("anything", "linear", (), True),
    ],
)
def test_what_has_the_form_of_an_answer(
    given: str, right: Any, choices: tuple[str, ...], is_one: bool
) -> None:
    assert is_an_answer(given, right, choices) is is_one


def test_a_part_of_a_choice_that_no_other_has_is_that_choice() -> None:
    choices = ("the first", "the second")
    assert is_right("first", "the first", choices)
    assert is_right("Second.", "the second", choices)
    assert not is_right("second", "the first", choices)
