"""hint, quiz, reset, solution and completion, as a learner uses them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from infralens.cli import learning, main
from infralens.labs import find_lab, find_labs
from infralens.quiz import questions_of, shown

LAB = find_lab("lab-03", find_labs())


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run("init", ".").exit_code == 0
    return tmp_path


def run(*arguments: str, text: str | None = None, **env: str) -> Result:
    return CliRunner(env=env, catch_exceptions=False).invoke(main, list(arguments), input=text)


def progress(workspace: Path) -> dict[str, dict[str, object]]:
    text = (workspace / ".infralens" / "progress.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, object]] = json.loads(text)
    return found


def test_hints_come_one_at_a_time_and_what_was_used_is_kept(workspace: Path) -> None:
    hints = LAB.todo("3.2").hints
    for used in (1, 2, 3, 3):
        said = " ".join(run("hint", "3.2").output.split())
        assert [" ".join(hint.split()) in said for hint in hints] == [n < used for n in range(3)]
        assert progress(workspace)["hints"] == {"diffusers/3.2": used}
    assert "last hint" in run("hint", "3.2").output


def test_hint_again_uses_no_new_one(workspace: Path) -> None:
    assert run("hint", "3.2", "--again").output.endswith("The first: infralens hint 3.2\n")
    run("hint", "3.2")
    run("hint", "3.2", "--again")
    assert progress(workspace)["hints"] == {"diffusers/3.2": 1}


def test_a_hint_for_an_unknown_todo_names_the_nearest() -> None:
    result = run("hint", "3.9")
    assert result.exit_code == 2
    assert "Did you mean 3." in result.output


def test_the_quiz_shows_the_answer_after_mine_and_counts(workspace: Path) -> None:
    answers = [question.answer() for question in questions_of(LAB)]
    right = "\n".join(shown(answer) for answer in answers) + "\n"
    result = run("quiz", "lab-03", text=right)
    assert f"{len(answers)} of {len(answers)} right" in result.output
    wrong = run("quiz", "lab-03", text="\n" * len(answers))
    assert f"0 of {len(answers)} right" in wrong.output
    assert wrong.output.count("Passed over: ") == len(answers)
    assert "No: " in run("quiz", "lab-03", text="1\n1\n").output
    assert f"quiz {len(answers)}/{len(answers)}" in run("list").output  # the best record is kept


def test_a_wrong_answer_may_be_bettered_once_but_counts_as_the_first(workspace: Path) -> None:
    first, *others = [shown(question.answer()) for question in questions_of(LAB)]
    result = run("quiz", "lab-03", text="\n".join(["1", first, *others]) + "\n")
    assert "Not yet. One more try:" in result.output
    assert "Right now: " in result.output
    assert f"{len(others)} of {len(others) + 1} right at once." in result.output


def test_what_has_not_the_form_of_an_answer_is_asked_again() -> None:
    result = run("quiz", "lab-03", text="nonsense\n901\n")
    assert "That is no answer of this kind." in result.output
    assert "Right: 901" in result.output


def test_a_quiz_says_that_it_works_while_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    screen = Console(file=said, force_terminal=True, width=80)
    monkeypatch.setattr(learning, "terminal", lambda stderr=False: screen)
    run("quiz", "lab-03", text="")
    assert "working out the answers" in said.getvalue()


def test_a_quiz_can_be_left_in_the_middle() -> None:
    result = run("quiz", "lab-03", text="1\n", COLUMNS="60")
    assert result.exit_code == 0
    assert "Stopped." in result.output
    assert max(map(len, result.output.splitlines())) <= 60  # questions are broken between words


def test_reset_keeps_a_backup_and_says_where(workspace: Path) -> None:
    path = workspace / LAB.track / LAB.folder / LAB.file
    for number, mine in enumerate(("first = 1\n", "second = 2\n"), start=1):
        path.write_text(mine, encoding="utf-8")
        result = run("reset", "lab-03")
        backup = path.with_name(f"scheduler.backup-{number}.py")
        assert backup.read_text(encoding="utf-8") == mine
        assert backup.name in result.output.replace("\n", "")
        assert path.read_bytes() == LAB.stub.read_bytes()


def test_reset_of_an_untouched_file_makes_no_backup(workspace: Path) -> None:
    run("reset", "lab-03")
    assert list((workspace / LAB.track / LAB.folder).glob("*backup*")) == []


def test_after_a_reset_the_list_shows_a_fresh_start(workspace: Path) -> None:
    todos = {t.id: {"score": t.points, "points": t.points, "status": "passed"} for t in LAB.todos}
    state = {"schema": 1, "labs": {LAB.id: todos}, "hints": {"diffusers/3.2": 2}}
    (workspace / ".infralens" / "progress.json").write_text(json.dumps(state), encoding="utf-8")
    assert "19/19" in run("list").output
    run("reset", "lab-03")
    assert "19/19" not in run("list").output
    assert progress(workspace)["hints"] == {"diffusers/3.2": 2}


def test_the_solution_is_shown_only_after_full_marks_or_on_giving_up(workspace: Path) -> None:
    assert LAB.solution is not None
    solution = LAB.solution.read_text(encoding="utf-8")
    refused = run("solution", "lab-03")
    assert refused.exit_code == 2
    assert "0 of 19 points" in refused.output
    assert run("solution", "lab-03", "--give-up").output == solution
    todos = {t.id: {"score": t.points, "points": t.points, "status": "passed"} for t in LAB.todos}
    state = {"schema": 1, "labs": {LAB.id: todos}, "hints": {}}
    (workspace / ".infralens" / "progress.json").write_text(json.dumps(state), encoding="utf-8")
    assert run("solution", "lab-03").output == solution


def test_the_solution_of_one_todo_is_shown_alone(workspace: Path) -> None:
    assert "0 of 4 points in 3.3" in run("solution", "3.3").output
    shown = run("solution", "3.3", "--give-up").output
    assert shown.startswith("class Euler")
    assert "def karras_sigmas" not in shown
    assert "BEGIN SOLUTION" not in shown
    compile(shown, "3.3", "exec")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_INFRALENS_COMPLETE" in result.output


def test_the_shell_completes_lab_names() -> None:
    environment = {
        **os.environ,
        "_INFRALENS_COMPLETE": "bash_complete",
        "COMP_WORDS": "infralens grade lab-0",
        "COMP_CWORD": "2",
    }
    program = "from infralens.cli import main; main(prog_name='infralens')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "plain,lab-03" in done.stdout


def test_hint_answers_without_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from infralens.cli import main; "
        "main(['hint', '3.2'], standalone_mode=False); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert done.returncode == 0
