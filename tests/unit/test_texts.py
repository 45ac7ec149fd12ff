"""The texts of labs, proven without a grade: what is masked is said, nothing is left to write."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import infralens
from infralens.authoring.beginning import begin_lab
from infralens.authoring.idle import idle_assertions
from infralens.authoring.texts import NEEDED, READ, dead_readings, says_masked, unfinished
from infralens.cli import main
from infralens.labs import Lab, find_lab, find_labs
from infralens.wrong import likely_reading

LABS = find_labs()
WRONG = """
- {{todo: "90.1", name: {name}, says: It is {name}., reads: "{reads}", replace: a, by: b}}
"""


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_what_a_lab_masks_is_said_on_its_page_and_in_its_stub(lab: Lab) -> None:
    for path in (lab.page, lab.stub):
        for name in lab.masked:
            assert says_masked(path.read_text(encoding="utf-8"), name)


def test_the_sections_that_docstrings_send_to_are_there() -> None:
    exercises, sent = LABS[0].place.exercises, 0
    for lab in LABS:
        assert lab.solution is not None
        text = lab.solution.read_text(encoding="utf-8")
        assert list(dead_readings(text, exercises)) == []
        sent += len(READ.findall(text))
    assert sent > 15
    for dead in ('handbook/process.md, "No such"', 'handbook/no.md, "Flow"'):
        assert len(list(dead_readings(f"Read: {dead}.", exercises))) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Write it. `diffusers` cannot be imported\nhere.", True),
        ("`diffusers` is masked.", True),
        ("You will import much. `diffusers` has it.", False),
        ("diffusers cannot be imported", False),
    ],
)
def test_a_sentence_names_the_module_and_says_so(text: str, said: bool) -> None:
    assert says_masked(text, "diffusers") is said


@pytest.mark.parametrize(
    ("test", "idle"),
    [
        ("True", True),
        ("x == 1 or True", True),
        ("(x == 1, 'a text')", True),
        ("x is x and y <= y", True),
        ("not None", True),
        ("(i for i in x)", True),
        ("len(x) >= 0", True),
        ("x == 1", False),
        ("x == x.clone()", False),
        ("x == x and y", False),
        ("x != x", False),
        ("not x", False),
        ("len(x) >= 1", False),
        ("x < x or y", False),
        ("(*x,)", False),
    ],
)
def test_an_assertion_that_cannot_fail_is_known_by_its_form(test: str, idle: bool) -> None:
    assert list(idle_assertions(f"if z:\n    assert {test}")) == (
        [f"assert {test}"] if idle else []
    )


def test_what_the_process_of_a_submission_needs_is_what_cannot_be_masked() -> None:
    package = Path(infralens.__file__).parent
    needed = set()
    for path in [package / "wire.py", *(package / "candidate").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                needed |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                needed.add((node.module or "").split(".")[0])
    assert tuple(sorted(needed - {*sys.stdlib_module_names, "infralens"})) == NEEDED


def test_a_handbook_page_that_is_left_to_write_is_a_fault_and_labs_of_ones_own_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner(catch_exceptions=False).invoke
    result = run(main, ["new", "mine", "lab-07", "My Own", "--into", "my labs"])
    assert "`infralens --labs 'my labs' check --lab mine/lab-07`" in result.stdout
    lab = find_lab("mine/lab-07", find_labs([tmp_path / "my labs"]))
    assert any(said.startswith("my-own.md line 3 is left to write") for said in unfinished(lab))
    assert run(main, ["--labs", "my labs", "init", "work"]).exit_code == 0
    assert (tmp_path / "work" / "mine" / "lab-07-my-own" / "my_own.py").is_file()
    assert (tmp_path / "work" / "handbook" / "scheduler.md").is_file()


@pytest.mark.parametrize("title", ['a: "b" # c', 'back\\slash"', "- [x, {{ 1 }}", "Café ∇"])
def test_a_new_lab_has_any_title(tmp_path: Path, title: str) -> None:
    written = begin_lab("mine", "lab-07", title, tmp_path)
    assert find_lab("mine/lab-07", find_labs([tmp_path])).title == title
    for path in written:
        if path.suffix == ".py":
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            assert said is not None
            assert said.startswith(title)


def test_a_new_labs_file_may_be_called_otherwise_than_its_title(tmp_path: Path) -> None:
    begin_lab("mine", "lab-07", "Reading of Configs", tmp_path, "config.py")
    lab = find_lab("mine/lab-07", find_labs([tmp_path]))
    assert (lab.file, lab.stub.is_file()) == ("config.py", True)
    assert (lab.suite / "test_config.py").is_file()
    assert lab.page.read_text(encoding="utf-8").startswith("# Lab 07 (mine) · Reading of Configs")


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_a_failure_without_a_name_sends_to_a_section(lab: Lab) -> None:
    read = [likely_reading(lab, todo.id) for todo in lab.todos]
    assert all("#" in page for page in read)


def test_a_page_alone_is_no_section_to_read(workshop: Any) -> None:
    whole = WRONG.format(name="one", reads="handbook/objective.md")
    lab = workshop.lab("", solution="a = 1\n", wrong=whole)
    assert likely_reading(lab, "90.1") == lab.reading == "handbook/probe.md#more"
    part = WRONG.format(name="two", reads="handbook/objective.md#flow")
    lab = workshop.lab(
        "", solution="a = 1\n", wrong=f"{whole}{whole.replace('one', 'three')}{part}"
    )
    assert likely_reading(lab, "90.1") == "handbook/objective.md#flow"


def test_the_todo_on_training_targets_sends_to_them() -> None:
    lab = find_lab("lab-01", LABS)
    assert likely_reading(lab, "1.8") == "handbook/objective.md#four-targets"
