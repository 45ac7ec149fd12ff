"""The library's own function behind a todo: found, read and cut without importing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from infralens.cli import main
from infralens.labs import Source, Todo, find_labs
from infralens.library_source import MOST_LINES, NoSourceError, excerpt

TODOS = [(lab.id, todo) for lab in find_labs() for todo in lab.todos]

LIBRARY = '''"""A library."""
from elsewhere import torch


class Box:
    """A box."""

    def close(self, lid):
        """Close it.

        With a lid.
        """
        # First, the lid.
        self.lid = lid
        if lid is None:
            raise ValueError
        return self


def alone(): return 1
'''


@pytest.fixture
def library(tmp_path: Path) -> list[str]:
    (tmp_path / "somelib").mkdir()
    (tmp_path / "somelib" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "somelib" / "boxes.py").write_text(LIBRARY, encoding="utf-8")
    return [str(tmp_path)]


@pytest.mark.parametrize(("lab", "todo"), TODOS, ids=lambda one: getattr(one, "id", one))
def test_every_todo_names_lines_of_an_installed_library(lab: str, todo: Todo) -> None:
    assert todo.source is not None, f"{lab} {todo.id} names no source in its lab.yaml"
    taken = excerpt(todo.source)
    assert 1 <= len(taken.lines) <= MOST_LINES
    assert todo.source.asks.endswith("?")


def test_the_body_begins_after_the_docstring(library: list[str]) -> None:
    taken = excerpt(Source("somelib.boxes.Box.close", "?"), library)
    assert taken.text.startswith("# First, the lid.\nself.lid = lid\n")
    assert (taken.first, taken.last) == (13, 17)
    assert excerpt(Source("somelib.boxes.alone", "?"), library).lines == ("def alone(): return 1",)


def test_the_lines_begin_where_the_text_stands(library: list[str]) -> None:
    taken = excerpt(Source("somelib.boxes.Box.close", "?", "if lid is None"), library)
    assert taken.lines[0].strip() == "if lid is None:"
    assert taken.lines[-1].strip() == "return self"


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("nolib.boxes.Box", ""),
        ("somelib.boxes.Box.open", ""),
        ("somelib.nothing.Box", ""),
        ("somelib.boxes.Box.close", "def alone"),
    ],
)
def test_what_is_not_there_is_said(library: list[str], name: str, at: str) -> None:
    with pytest.raises(NoSourceError):
        excerpt(Source(name, "?", at), library)


def test_it_is_shown_after_full_marks_or_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    refused = run(main, ["source", "3.3"])
    assert refused.exit_code == 2
    assert "not passed yet" in refused.stderr
    shown = run(main, ["source", "3.3", "--give-up"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert "EulerDiscreteScheduler.step" in shown.stdout
    assert "scheduling_euler_discrete.py, lines " in shown.stdout
    assert shown.stdout.rstrip().endswith("?")
    assert "yours" not in shown.stdout  # there is no workspace here


def test_the_learner_s_own_function_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    run(main, ["init", "work"])
    monkeypatch.chdir(tmp_path / "work")
    (file,) = Path().glob("diffusers/lab-03*/scheduler.py")
    line = "return sample + (sigma_next - sigma) * (model_output + next_model_output) / 2"
    file.write_text(f'def heun_step(*args):\n    """Words."""\n    {line}\n', encoding="utf-8")
    for columns in (60, 240):
        arguments = ["source", "3.7", "--give-up"]
        shown = run(main, arguments, env={"COLUMNS": str(columns)}).stdout
        assert line in shown  # never cut
        assert "Words." not in shown
    odd = "# a form feed \x0c and \u2028 end no line\n"  # nor is a byte order mark code
    text = f'\ufeff{odd}def heun_step(*args):\n    """Words."""\n    {line}\n    # last\n'
    file.write_text(text, encoding="utf-8")
    shown = run(main, arguments, env={"COLUMNS": "60"}).stdout
    assert shown.splitlines()[-5:-2] == ["def heun_step(*args):", f"    {line}", ""]
    file.write_text("def heun_step(:\n", encoding="utf-8")
    assert run(main, ["source", "3.7", "--give-up"]).exit_code == 0


def test_nothing_is_imported_to_find_it() -> None:
    before = set(sys.modules)
    excerpt(Source("diffusers.models.attention.BasicTransformerBlock.forward", "?"))
    assert not [name for name in set(sys.modules) - before if name.startswith("diffusers")]
