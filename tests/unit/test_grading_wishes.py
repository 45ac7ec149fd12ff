"""How much a grade is to find out: names, the checks after a failure, the case to begin with."""

from __future__ import annotations

from typing import Any

from infralens.grading import Wishes

SUITE = """
@todo("90.1")
def test_first(candidate):
    \"\"\"First.\"\"\"
    assert_equals(candidate.one(), value=1)

@todo("90.1")
@pytest.mark.parametrize("number", [1, 2])
def test_cases(candidate, number):
    \"\"\"Cases.\"\"\"
    assert_equals(candidate.one(), value=1)

@todo("90.2")
def test_other(candidate):
    \"\"\"Other.\"\"\"
    assert_equals(candidate.two(), value=2)
"""
THREE = "def one():\n    return 3\ndef two():\n    return 2\n"


def test_a_grade_looks_for_names_and_goes_on_unless_it_is_asked_not_to(workshop: Any) -> None:
    wrong = {"three": ("return 1", "return 3")}
    solution = THREE.replace("3", "1")
    lab = workshop.lab(SUITE, todos=("90.1", "90.2"), solution=solution, wrong=wrong)
    whole = workshop.grade(lab, THREE)
    assert [c.misconception for c in whole.todos[0].checks] == ["three", "three"]
    short = workshop.grade(lab, THREE, wishes=Wishes(naming="none", stop="first failure"))
    assert [c.misconception for c in short.todos[0].checks] == [None, None]
    assert [c.status for c in short.todos[0].checks] == ["failed", "not_run"]
    assert [(t.status, t.score) for t in short.todos] == [(t.status, t.score) for t in whole.todos]


def test_the_case_that_is_asked_for_comes_first(workshop: Any) -> None:
    lab = workshop.lab(SUITE, todos=("90.1", "90.2"))
    wishes = Wishes(stop="first failure", first="test_cases[2]")
    checks = {c.name: c for c in workshop.grade(lab, THREE, wishes=wishes).todos[0].checks}
    assert checks["test_first"].status == "not_run"
    detail = checks["test_cases"].detail
    assert detail is not None
    assert detail.case == "test_cases[2]"
    right = workshop.grade(lab, THREE.replace("3", "1"), wishes=wishes)
    assert right.passed
