"""Solution to stub: the markers, whose answer it is, and what is wrong when they do not pair."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from infralens.labs import Lab, find_labs
from infralens.stubs import MarkerError, answer_lines, definitions, regions, stub_of

SOLUTION = dedent(
    '''
    """A lab."""

    def scale(x):
        """3.1 · Scale."""
        ### BEGIN SOLUTION
        y = x * 2
        return y
        ### END SOLUTION


    class Euler:
        """3.2 · Euler."""

        def __init__(self):
            self.given = True

        def step(self, x):
            if x:
                ### BEGIN SOLUTION
                return -x
                ### END SOLUTION
            return 0

        class Inner:
            def deep(self):
                ### BEGIN SOLUTION
                return 1
                ### END SOLUTION
    '''
)
TODOS = {"scale": "3.1", "Euler": "3.2"}


def test_each_answer_becomes_one_line_that_names_its_todo() -> None:
    stub = stub_of(SOLUTION, TODOS)
    assert '\n    raise NotImplementedError("TODO 3.1: scale")\n' in stub
    assert (
        '\n            raise NotImplementedError("TODO 3.2: Euler.step")\n        return 0' in stub
    )
    assert 'raise NotImplementedError("TODO 3.2: Euler.Inner.deep")' in stub
    ast.parse(stub)


def test_everything_outside_the_answers_stays() -> None:
    stub = stub_of(SOLUTION, TODOS)
    answered = {
        number for region in regions(SOLUTION) for number in range(region.first, region.last + 1)
    }
    lines = enumerate(SOLUTION.splitlines(), start=1)
    kept = [line for number, line in lines if number not in answered]
    assert [line for line in stub.splitlines() if "TODO" not in line] == kept


def test_no_line_of_an_answer_is_in_the_stub() -> None:
    stub = stub_of(SOLUTION, TODOS)
    assert list(answer_lines(SOLUTION)) == ["y = x * 2", "return y", "return -x", "return 1"]
    assert not any(line in stub for line in answer_lines(SOLUTION))
    assert "SOLUTION" not in stub


def test_regions_know_their_owner() -> None:
    assert [(region.name, region.owner) for region in regions(SOLUTION)] == [
        ("scale", "scale"),
        ("Euler.step", "Euler"),
        ("Euler.Inner.deep", "Euler"),
    ]


def test_a_file_without_answers_is_its_own_stub() -> None:
    assert stub_of("x = 1\n", {}) == "x = 1\n"


def test_an_answer_in_an_async_function_is_found() -> None:
    text = "async def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n"
    assert 'TODO 3.1: f"' in stub_of(text, {"f": "3.1"})


FAULTS = {
    "never ended": ("def f():\n    ### BEGIN SOLUTION\n    return 1\n", "line 2.*without"),
    "never begun": ("def f():\n    return 1\n    ### END SOLUTION\n", "line 3.*without"),
    "begun twice": (
        "def f():\n    ### BEGIN SOLUTION\n    ### BEGIN SOLUTION\n    pass\n",
        "line 3.*inside the answer begun on line 2",
    ),
    "outside every function": (
        "### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n",
        "line 1.*outside every function",
    ),
    "of no todo": (
        "def g():\n    ### BEGIN SOLUTION\n    pass\n    ### END SOLUTION\n",
        "line 2: g belongs to no todo",
    ),
}


@pytest.mark.parametrize(("text", "says"), FAULTS.values(), ids=FAULTS)
def test_markers_that_do_not_pair_are_named_with_their_line(text: str, says: str) -> None:
    with pytest.raises(MarkerError, match=says):
        stub_of(text, {"f": "3.1"})


@pytest.mark.parametrize("lab", find_labs(), ids=lambda lab: lab.id)
def test_a_stub_of_ours_can_be_parsed(lab: Lab) -> None:
    if lab.solution is None or not lab.solution.is_file():
        pytest.skip("no solutions here")
    todos = {name: todo.id for name, todo in lab.todo_of_name.items()}
    ast.parse(stub_of(lab.solution.read_text(encoding="utf-8"), todos))


def test_a_form_feed_or_another_line_of_unicode_moves_no_answer() -> None:
    odd = SOLUTION.replace("    def step", "    # a form feed \x0c, \u2028 and \x85\n    def step")
    plain = SOLUTION.replace("    def step", "    # a form feed\n    def step")
    assert [(r.first, r.name) for r in regions(odd)] == [(r.first, r.name) for r in regions(plain)]
    assert definitions(odd, {"Euler"}).count("# a form feed \x0c, \u2028 and \x85\n") == 1
    assert definitions(odd, {"scale"}) == definitions(plain, {"scale"})
