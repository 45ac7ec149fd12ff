"""Right answers written another way get full marks; wrong ones, an edit away, lose their todo."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

import share
from infralens.authoring.judging_wrong import judge_wrong
from infralens.grading import Examiner
from infralens.labs import Lab
from infralens.stubs import answer_lines
from infralens.wrong import WrongAnswer, wrong_answers
from variants import LABS, Grade, lost, solution_of, variants_of

RIGHT = [
    pytest.param(lab, path, id=f"{lab.id}-{path.stem}")
    for lab in LABS
    for path in sorted((variants_of(lab) / "right").glob("*.py"))
]
WRONG = [
    pytest.param(lab, wrong, id=f"{lab.id}-{wrong.todo}-{wrong.name}")
    for lab in LABS
    for wrong in wrong_answers(lab)
    if wrong.says is None  # `prove` judges those that say something
]
FEW_CHARACTERS = 24  # `return x`, `else:` and the like may be shared by anybody


@pytest.mark.parametrize(("lab", "path"), RIGHT)
def test_a_right_answer_written_differently_gets_full_marks(
    lab: Lab, path: Path, grade_text: Grade, base_seed: int
) -> None:
    text = path.read_text(encoding="utf-8")
    for seed in range(base_seed, base_seed + 3):
        report = grade_text(lab, text, seed=seed)
        assert lost(report) == []
        assert report.passed
        assert [todo.id for todo in report.todos] == [todo.id for todo in lab.todos]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_there_are_two_right_variants_of_every_todo(lab: Lab) -> None:
    names = {name for todo in lab.todos for name in todo.names}
    complete = 0
    for path in (variants_of(lab) / "right").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        complete += names <= defined
    assert complete >= 2


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_right_variants_share_no_statement_with_the_solution(lab: Lab) -> None:
    answers = {line for line in answer_lines(solution_of(lab)) if len(line) > FEW_CHARACTERS}
    for path in (variants_of(lab) / "right").glob("*.py"):
        lines = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
        shared = {
            line for line in answers & lines if not line.startswith(("raise ", "if ", "elif "))
        }
        assert shared == set(), path.name


@pytest.mark.parametrize(("lab", "wrong"), WRONG)
def test_a_wrong_answer_loses_its_todo(
    lab: Lab,
    wrong: WrongAnswer,
    warm: Examiner,
    tmp_path: Path,
    base_seed: int,
    request: pytest.FixtureRequest,
) -> None:
    day = share.Share.named(request.config.option.share)
    nameless = [of.entry for of in wrong_answers(lab) if of.says is None]
    level = share.crossing(day, lab, nameless).get(wrong.entry)
    report = judge_wrong(lab, wrong, tmp_path / lab.file, warm, seed=base_seed, level=level)
    assert report.grader_error is None
    assert report.score == 0, f"seed {report.seed}"
    assert report.todos[0].status in ("failed", "error")


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_every_todo_has_three_wrong_answers(lab: Lab) -> None:
    for todo in lab.todos:
        assert sum(wrong.todo == todo.id for wrong in wrong_answers(lab)) >= 3, todo.id


CORPUS = Path(__file__).resolve().parents[1] / "attacks" / "corpus"
REMEMBERS = runpy.run_path(str(CORPUS / "build_cached_by_shape.py"))["ENDING"]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_answers_remembered_by_their_shapes_earn_nothing(
    lab: Lab, grade_text: Grade, base_seed: int
) -> None:
    report = grade_text(lab, solution_of(lab) + REMEMBERS, seed=base_seed)
    assert report.grader_error is None
    assert [todo.id for todo in report.todos if todo.score] == [], f"seed {report.seed}"
