"""The difference between two texts as edits: what is made of it makes one of the other."""

from __future__ import annotations

import random

import pytest
import yaml

from infralens.authoring.entries import NoEntryError, edits_between, entry_text
from infralens.labs import find_labs
from infralens.wrong import Edit, WrongAnswer, edited, wrong_answers

TEXT = """def f(x):
    if x:
        y = 1
        return y
    y = 1
    return y


def g(x):
    return x
"""


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        ("return x", "return 2", [Edit("return x", "return 2")]),
        ("    return x", "    x = 2\n    return x", [Edit("def g(x):", "def g(x):\n    x = 2")]),
        ("    return x", "", None),
        (
            "    y = 1\n    return y\n\n",
            "    return y\n\n",
            [Edit("if x:\n    y = 1\n    return y\ny = 1", "if x:\n    y = 1\n    return y")],
        ),
        ("        y = 1\n        return y\n    y", "        return y\n    y", None),
        ("if x:\n        y = 1\n        return y\n    y", "y", None),
        ("y = 1\n    return y", "y = 2\n    return y", None),
    ],
)
def test_a_change_is_told_in_the_fewest_lines(old: str, new: str, edits: list[Edit] | None) -> None:
    assert TEXT.count(old) == 1
    copy = TEXT.replace(old, new)
    found = list(edits_between(TEXT, copy))
    assert edits is None or found == edits
    text = TEXT
    for edit in found:
        text = edited(text, edit)
    assert text == copy


def test_any_few_changes_of_a_solution_can_be_told() -> None:
    draw = random.Random(7)
    for lab in find_labs():
        assert lab.solution is not None
        solution = lab.solution.read_text(encoding="utf-8")
        for wrong in draw.sample(wrong_answers(lab), min(5, len(wrong_answers(lab)))):
            copy = wrong.edited(solution)
            again = WrongAnswer("1.1", "again", tuple(edits_between(solution, copy)))
            assert again.edited(solution) == copy, wrong.name
            assert yaml.safe_load(entry_text(again))[0]["todo"] == "1.1"


def test_what_was_not_changed_is_no_entry() -> None:
    with pytest.raises(NoEntryError, match="nothing was changed"):
        list(edits_between(TEXT, TEXT))


def test_an_entry_reads_back_as_it_was() -> None:
    edits = (Edit("a: b\nc", "True"), Edit("x # y", ""))
    wrong = WrongAnswer("3.10", "of-two", edits, "It is √2: so.", "handbook/x.md#y")
    (read,) = yaml.safe_load(entry_text(wrong))
    assert read["todo"] == "3.10"
    assert read["says"] == wrong.says
    assert tuple(Edit(**edit) for edit in read["edits"]) == edits
