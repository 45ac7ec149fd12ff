"""Interview practice: what there is, and that it works with and without somebody typing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from infralens.cli import main
from infralens.interview import FILE, practice
from infralens.labs import BadLabError, find_labs, own_place, place_at, read_lab

LABS = find_labs()
PRACTICE = practice(LABS)


def test_every_lab_has_a_question_and_every_question_a_lab_or_page() -> None:
    pages = {page.stem for page in (own_place().exercises / "handbook").glob("*.md")}
    about = {one.about for one in PRACTICE}
    assert {lab.id for lab in LABS} <= about
    assert about <= {lab.id for lab in LABS} | pages
    assert all(len(one.points) == 3 for one in PRACTICE)


def test_the_points_that_were_said_are_counted() -> None:
    typed = "I would say this.\nAnd that.\n\ny\nno\nyes\n"
    result = CliRunner().invoke(main, ["interview", "lab-04"], input=typed)
    assert result.exit_code == 0
    assert "Where is the classifier?" in result.stdout
    assert "You ticked 2 of 3 points." in result.stdout
    assert "grade" not in result.stdout.replace("Nobody graded them", "")


def test_without_anybody_typing_all_of_it_is_printed() -> None:
    result = CliRunner().invoke(main, ["interview"], input="")
    assert result.exit_code == 0
    assert result.stdout.count("[ ] trade-off: ") == len(PRACTICE)
    assert "ticked" not in result.stdout


def test_a_run_that_ends_in_the_middle_prints_the_rest() -> None:
    result = CliRunner().invoke(main, ["interview", "lab-01"], input="words\n\ny\n")
    assert result.exit_code == 0
    assert result.stdout.count("trade-off: ") == 2
    assert "You ticked 1 of 6 points." in result.stdout


def test_a_page_has_its_questions_and_those_of_its_labs_and_an_unknown_name_a_sentence() -> None:
    assert CliRunner().invoke(main, ["interview", "serving"], input="").exit_code == 0
    told = CliRunner().invoke(main, ["interview", "controlnet"], input="").stdout
    here = ("controlnet", "diffusers/lab-09", "diffsynth/lab-09")
    asked = [one.asks for one in PRACTICE if one.about in here]
    assert len(asked) == 4
    assert all(question in " ".join(told.split()) for question in asked)
    assert told.count("[ ] trade-off: ") == len(asked)
    empty = CliRunner().invoke(main, ["interview", "glossary"])
    assert empty.exit_code == 2
    assert "There are no interview questions about glossary." in empty.stderr
    result = CliRunner().invoke(main, ["interview", "lab-99"])
    assert result.exit_code == 2
    assert "There is no lab" in result.stderr


def test_a_folder_of_ones_own_may_have_none_and_a_damaged_file_is_told(tmp_path: Path) -> None:
    home = tmp_path / "suites" / "mine" / LABS[0].suite.name
    home.mkdir(parents=True)
    text = (LABS[0].suite / "lab.yaml").read_text(encoding="utf-8")
    (home / "lab.yaml").write_text(text, encoding="utf-8")
    lab = read_lab(home / "lab.yaml", place_at(tmp_path))
    assert practice([lab]) == ()
    (tmp_path / "suites" / FILE).write_text("questions: [{asks: What?}]\n", encoding="utf-8")
    with pytest.raises(BadLabError, match="must contain"):
        practice([lab])
