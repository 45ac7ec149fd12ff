"""The pages that belong to no single lab, and what a stub's examples come to."""

from __future__ import annotations

import doctest
import re
import types
from pathlib import Path

import pytest

from infralens.authoring import page_faults
from infralens.authoring.texts import LINK, broken_link
from infralens.labs import Lab, find_lab, find_labs
from infralens.pages import section

LABS = find_labs()
EXERCISES = LABS[0].place.exercises


@pytest.mark.parametrize(
    "page", sorted((EXERCISES / "handbook").glob("*.md")), ids=lambda p: p.stem
)
def test_a_handbook_page_runs_and_its_links_lead_somewhere(page: Path) -> None:
    assert list(page_faults(page)) == []


def test_a_page_with_a_broken_link_and_wrong_code_has_both_faults(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[x](nowhere.md) [y](#no)\n\n```python\nassert 1 == 2\n```\n", encoding="utf-8")
    assert len(list(page_faults(page))) == 3


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_examples_of_a_stub_come_to_a_clear_not_yet(lab: Lab) -> None:
    module = types.ModuleType("stub")
    exec(compile(lab.stub.read_text(encoding="utf-8"), str(lab.stub), "exec"), vars(module))
    # An example may need an earlier todo as well, whose "not yet" then comes first.
    not_yet = [f"NotImplementedError: TODO {todo.id}" for todo in lab.todos]
    for name in lab.todo_of_name:
        for test in doctest.DocTestFinder().find(getattr(module, name), name, globs=vars(module)):
            said: list[str] = []
            doctest.DocTestRunner(verbose=False).run(test, out=said.append)
            if test.examples:
                assert any(text in "".join(said) for text in not_yet), test.name


def test_where_the_authors_page_says_an_answer_is_there_is_a_section() -> None:
    guide = Path(__file__).resolve().parents[2] / "grader" / "AUTHORING.md"
    part = section(guide.read_text(encoding="utf-8"), "where-each-answer-is-found")
    rows = re.findall(r"^\| (\d\.\d) \| (.+?) \| (.*) \|$", part, re.MULTILINE)
    first = [find_lab(name, LABS) for name in ("lab-01", "lab-02", "lab-03")]
    assert [row[0] for row in rows] == [todo.id for lab in first for todo in lab.todos]
    for todo, found, beside in rows:
        assert LINK.findall(found), todo
        problems = [broken_link(guide, target) for target in LINK.findall(found + beside)]
        assert set(problems) == {None}, todo
