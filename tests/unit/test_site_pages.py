"""The pages of the site before Sphinx sets them: in order, with hints and answers to unfold."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from infralens import workspace
from infralens.authoring.beginning import begin_lab
from infralens.cli.publishing import sources_of_passed
from infralens.curriculum import read_curriculum
from infralens.labs import Lab, find_lab, find_labs, own_place
from infralens.show.site.errors import SiteError
from infralens.show.site.staging import stage
from infralens.workspace import TodoProgress


def answers(lab: Lab) -> list[str]:
    """As many as the page has questions."""
    asked = lab.page.read_text(encoding="utf-8").partition("## Checkpoints")[2]
    return ["*Not* 3 < 4"] * len(re.findall(r"^\d+\. ", asked.partition("\n## ")[0], re.MULTILINE))


def staged(labs: tuple[Lab, ...], folder: Path) -> list[str]:
    return [page.name for page in stage(labs, folder, answers, lambda doing: None)]


def test_the_pages_come_in_the_order_of_reading(tmp_path: Path) -> None:
    names = staged(find_labs(), tmp_path)
    steps = read_curriculum(own_place()).steps
    assert [name.split("/")[-1] for name in names if name.startswith("handbook")] == [
        step.name for step in steps if not step.is_lab
    ]
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert [index.index(f"]({name}.md)") for name in names] == sorted(
        index.index(f"]({name}.md)") for name in names
    )
    assert "| ●●○ 100 min |" in index


def test_a_lab_has_its_hints_and_answers_and_no_second_way_on(tmp_path: Path) -> None:
    lab = find_lab("lab-03", find_labs())
    staged((lab,), tmp_path)
    page = (tmp_path / "diffusers" / lab.folder / "index.md").read_text(encoding="utf-8")
    for todo in lab.todos:
        part = page.partition(f"### {todo.id} ")[2].partition("\n### ")[0]
        assert part.count('<details class="hint">') == len(todo.hints) == 3
    assert page.count('<details class="answer">') == 7
    assert r"\*Not\* 3 \< 4" in page
    assert "* Before:" not in page
    assert '<details class="source">' not in page
    assert "README.md" not in page
    assert (tmp_path / "diffusers" / lab.folder / lab.file).read_bytes() == lab.stub.read_bytes()


def test_the_library_s_lines_stand_at_what_is_passed_and_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = find_lab("lab-03", find_labs())
    workspace.init(tmp_path / "mine", [])
    monkeypatch.chdir(tmp_path / "mine")
    done = {"3.3": TodoProgress(4, 4, "passed"), "3.4": TodoProgress(0, 2, "failed")}
    with workspace.updating(workspace.Workspace(tmp_path / "mine")) as holder:
        holder[0] = replace(holder[0], labs={lab.id: done})
    stage([lab], tmp_path / "mine's", answers, lambda doing: None, sources_of_passed())
    page = (tmp_path / "mine's" / "diffusers" / lab.folder / "index.md").read_text("utf-8")
    passed = page.partition("### 3.3 ")[2].partition("\n### ")[0]
    assert page.count('<details class="source">') == passed.count('<details class="source">') == 1
    assert "EulerDiscreteScheduler.step" in passed
    assert "````python\n" in passed


def test_labs_of_a_folder_of_ones_own_lie_apart(tmp_path: Path) -> None:
    begin_lab("acoustics", "lab-11", "Echo reading", tmp_path / "mine")
    own = "diffusers/lab-03"
    labs = tuple(
        lab for lab in find_labs([tmp_path / "mine"]) if lab.id in (own, "acoustics/lab-11")
    )
    names = staged(labs[::-1], tmp_path / "site")
    assert any(name.startswith("diffusers/lab-03") for name in names)
    assert "more-1/handbook/echo-reading" in names
    assert names[-1] == "more-1/acoustics/lab-11-echo-reading/index"


def test_questions_without_an_answer_are_told(tmp_path: Path) -> None:
    lab = find_labs()[0]
    with pytest.raises(SiteError, match="lab-01 asks 1, its page 6"):
        stage([lab], tmp_path, lambda lab: ["one"], lambda doing: None)
