"""A course made from labs: what is in a notebook, and what the real nbgrader releases of it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderApp

from infralens.cli import main
from infralens.course import nbgrader
from infralens.course.nbgrader import BEGIN, ReleaseError, Wanted, release_labs
from infralens.course.notebooks import source_notebook
from infralens.course.record import Assignment, RecordError, read_record
from infralens.course.release_passes import AuditRelease, GivenAwayError
from infralens.labs import Lab, Place, find_lab, find_labs
from infralens.pages import pieces
from infralens.stubs import answer_lines

LABS = find_labs()
LAB = find_lab("lab-03", LABS)
OWN = Path(__file__).resolve().parents[1] / "attacks" / "lab"
pytestmark = pytest.mark.xdist_group("release")  # one course for all


def made(lab: Lab, **points: int) -> NotebookNode:
    return source_notebook(lab, {todo.id: todo.points for todo in lab.todos} | points)


def by_name(notebook: NotebookNode) -> dict[str, NotebookNode]:
    return {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells}


def released(course: Path, lab: Lab = LAB) -> NotebookNode:
    return nbformat.read(course / "release/lab-03" / lab.file.replace(".py", ".ipynb"), 4)


# The source notebook


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_cells_of_a_notebook_are_the_whole_solution(lab: Lab) -> None:
    assert lab.solution is not None
    cells = by_name(made(lab))
    code = "\n".join(cell.source for cell in cells.values() if cell.cell_type == "code")
    solution = lab.solution.read_text(encoding="utf-8")
    body = ast.parse(solution).body[1:]  # without the docstring
    ours = ast.parse(code.replace("%load_ext infralens", "")).body
    checks = [f'check("{lab.track}/{t.id}")'.replace("diffusers/", "") for t in lab.todos]
    expected = [ast.dump(node) for node in body] + [ast.dump(ast.parse(c).body[0]) for c in checks]
    assert sorted(map(ast.dump, ours)) == sorted(expected)
    for todo in lab.todos:
        name = todo.id.replace(".", "-")
        assert cells[f"check-{name}"].metadata.nbgrader.points == todo.points
        assert cells[f"read-{name}"].source.startswith(("### ", "Described with"))
    assert "HIDDEN TESTS" not in code  # feedback pages print them
    marks = [cell.metadata.nbgrader for cell in cells.values()]
    assert all(mark.locked != mark.solution for mark in marks)
    assert [m.grade_id for m in marks if m.grade and m.solution] == ["explain"]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_whole_page_is_there_but_for_the_interview_and_no_link_leads_nowhere(lab: Lab) -> None:
    cells = by_name(made(lab))
    shown = "\n".join(c.source for c in cells.values() if c.cell_type == "markdown")
    for heading, _ in pieces(lab.page.read_text(encoding="utf-8"), 3):
        assert heading in shown or heading.startswith("How to say it")
    assert "](../" not in shown
    assert "](scheduler" not in shown
    assert "How to say it" not in shown
    assert cells["explain"].source  # ours, for the instructor: learners get an empty cell


def test_points_of_the_course_stand_on_the_page_and_in_the_cells() -> None:
    cells = by_name(made(LAB, **{"3.3": 10}))
    assert cells["check-3-3"].metadata.nbgrader.points == 10
    assert "### 3.3 · `class Euler` (10 points)\n\n" in cells["read-3-3"].source
    assert "25 points" in cells["read-1"].source


def test_a_course_that_tells_less_says_so_in_the_notebook() -> None:
    points = {todo.id: todo.points for todo in LAB.todos}
    cells = by_name(source_notebook(LAB, points, tells="name"))
    assert 'INFRALENS_TELLS = "name"' in cells["imports"].source
    assert "INFRALENS_TELLS" not in by_name(made(LAB))["imports"].source


def test_what_is_given_after_an_answer_has_a_cell_of_its_own(tmp_path: Path) -> None:
    solution = tmp_path / "solutions/diffusers/lab-03-scheduler-reading/scheduler.py"
    solution.parent.mkdir(parents=True)
    assert LAB.solution is not None
    text = LAB.solution.read_text(encoding="utf-8")
    solution.write_text(text + "\n\n# a table\nRUNS = [timesteps]\n", encoding="utf-8")
    place = Place(LAB.place.suites, LAB.place.exercises, tmp_path / "solutions")
    cells = by_name(made(replace(LAB, place=place)))
    assert cells["given-3-8-1"].source == "# a table\nRUNS = [timesteps]"
    assert cells["given-3-8-1"].metadata.nbgrader.locked


# What nbgrader makes of it


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("courses") / "diffusion 101"
    list(release_labs(folder, [LAB], Wanted(points={LAB.id: {"3.6": 3}})))
    return folder


def test_learners_get_stubs_that_open_with_python_and_hold_no_answer(course: Path) -> None:
    assert LAB.solution is not None
    notebook = released(course)
    cells = by_name(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    stub = ast.parse(LAB.stub.read_text(encoding="utf-8"))
    defined = [ast.dump(node) for node in stub.body if hasattr(node, "name")]
    ours = ast.parse(code.replace("%load_ext infralens", ""))
    assert [ast.dump(node) for node in ours.body if hasattr(node, "name")] == defined
    assert notebook.metadata.kernelspec.name == "python3"
    assert cells["explain"].source == "YOUR ANSWER HERE"
    stubbed = LAB.stub.read_text(encoding="utf-8")
    secret = set(answer_lines(LAB.solution.read_text(encoding="utf-8")))
    secret -= {line.strip() for line in stubbed.splitlines()}
    shown = {line.strip() for cell in notebook.cells for line in cell.source.splitlines()}
    assert not secret & shown - set(map(str.strip, LAB.page.read_text("utf-8").splitlines()))


def test_the_gradebook_names_a_kernel_that_nobody_has_and_the_points(course: Path) -> None:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        notebook = gradebook.find_notebook("scheduler", "lab-03")
        assert json.loads(notebook.kernelspec)["name"] == "infralens-examiner"
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    assert points["check-3-6"] == 3
    assert points["check-3-3"] == 4
    assert points["explain"] == 0


def test_a_second_release_keeps_seed_points_grades_and_the_instructors_own_lines(
    course: Path,
) -> None:
    before = read_record(course)
    assert before is not None
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text("utf-8") + "c.Exchange.root = '/nowhere'\n", "utf-8")
    source = course / "source/lab-03/scheduler.ipynb"
    source.write_text(source.read_text("utf-8").replace("You will write", "You write"), "utf-8")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        gradebook.add_student("ada")
        gradebook.add_submission("lab-03", "ada")
        grade = gradebook.find_grade("check-3-3", "scheduler", "lab-03", "ada")
        grade.auto_score = 4
        gradebook.db.commit()
    (done,) = release_labs(course, [LAB], Wanted(tells="name", points={LAB.id: {"3.3": 6}}))
    assert done.released
    kept, counts = done.remarks
    assert "replaced/lab-03-" in kept
    assert "1 submission graded before: the grades stay; check-3-3 4 → 6" in counts
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        grade = gradebook.find_grade("check-3-3", "scheduler", "lab-03", "ada")
        assert (grade.auto_score, grade.max_score) == (4, 6)
    after = read_record(course)
    assert after is not None
    old, new = before.assignments["lab-03"], after.assignments["lab-03"]
    assert (new.seed, new.points["3.6"], new.points["3.3"], new.tells) == (old.seed, 3, 6, "name")
    assert config.read_text("utf-8").count(BEGIN) == 1
    assert config.read_text("utf-8").endswith("c.Exchange.root = '/nowhere'\n")
    (copy,) = (course / "replaced").iterdir()
    assert "You write" in copy.read_text("utf-8")


def test_other_cells_than_were_graded_are_refused_and_nothing_changes(
    course: Path, tmp_path: Path
) -> None:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        gradebook.update_or_create_student("ada")
        gradebook.update_or_create_submission("lab-03", "ada")
    page = tmp_path / "exercises/diffusers/lab-03-scheduler-reading/README.md"
    page.parent.mkdir(parents=True)
    page.write_text(LAB.page.read_text("utf-8") + "\n## One more\n\nthing\n", "utf-8")
    place = replace(LAB.place, exercises=tmp_path / "exercises")
    files = [course / "release/lab-03/scheduler.ipynb", course / "source/lab-03/scheduler.ipynb"]
    before = [path.read_bytes() for path in files]
    (done,) = release_labs(course, [replace(LAB, place=place)], Wanted())
    assert not done.released
    assert "1 submission came with other cells (read-" in done.remarks[0]
    assert [path.read_bytes() for path in files] == before


def test_a_line_of_an_answer_anywhere_stops_the_release_and_the_old_one_stays(
    course: Path, tmp_path: Path
) -> None:
    page = tmp_path / "exercises/diffusers/lab-03-scheduler-reading/README.md"
    page.parent.mkdir(parents=True)
    text = LAB.page.read_text("utf-8")
    page.write_text(text, "utf-8")
    (page.parent / LAB.file).write_text(LAB.stub.read_text("utf-8"), "utf-8")
    lab = replace(LAB, place=replace(LAB.place, exercises=tmp_path / "exercises"))
    before = (course / "release/lab-03/scheduler.ipynb").read_bytes()
    notebook = course / "source/lab-03/scheduler.ipynb"
    assert notebook.is_file()
    leak = "slope = (max_shift - base_shift) / (max_seq_len - base_seq_len)"
    page.write_text(text.replace("## What to notice", f"## What to notice\n\n{leak}", 1), "utf-8")
    with pytest.raises(
        ReleaseError, match=r"gives something away: read-7: an answer to 3\.5: slope ="
    ):
        list(release_labs(course, [lab], Wanted()))
    assert (course / "release/lab-03/scheduler.ipynb").read_bytes() == before


def test_a_file_beside_the_notebook_that_holds_an_answer_is_not_released(course: Path) -> None:
    assert LAB.solution is not None
    beside = course / "source/lab-03/helper.py"
    before = (course / "release/lab-03/scheduler.ipynb").read_bytes()
    beside.write_bytes(LAB.solution.read_bytes())
    try:
        with pytest.raises(ReleaseError, match=r"helper\.py: an answer to 3\."):
            list(release_labs(course, [LAB], Wanted()))
    finally:
        beside.unlink()
    (left,) = (course / "release/lab-03").iterdir()
    assert left.read_bytes() == before


def test_a_lab_of_ones_own_folder_is_released_and_audited_too(course: Path) -> None:
    (own,) = (lab for lab in find_labs([OWN]) if lab.place.suites == OWN / "suites")
    (done,) = release_labs(course, [own], Wanted(), [OWN])
    assert (done.assignment, done.released) == ("attacks-lab-01", True)
    notebook = nbformat.read(course / "release/attacks-lab-01/lent.ipynb", 4)
    first = own.todos[0].id
    assert f'check("attacks/{first}")' in [cell.source for cell in notebook.cells]
    source = nbformat.read(course / "source/attacks-lab-01/lent.ipynb", 4)
    AuditRelease().preprocess(source, {})  # knows only the kit's own
    with pytest.raises(GivenAwayError, match="answer to attacks/"):
        AuditRelease(labs=[str(OWN)]).preprocess(source, {})
    assert f"AuditRelease.labs = ['{OWN}']" in (course / "nbgrader_config.py").read_text("utf-8")


def test_what_is_asked_of_a_release_reaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Wanted] = []

    def released(course: Path, labs: Iterable[Lab], wanted: Wanted, own: object) -> Iterator[Any]:
        asked.append(wanted)
        decided = Assignment(LAB.id, 1, "points", {"3.3": 6, "3.1": 2}, explain=5)
        yield nbgrader.Released("lab-03", LAB, decided, released=True)

    monkeypatch.setattr(nbgrader, "release_labs", released)
    words = [*("--points", "3.3=6", "--points", "3.1 = 0"), *("--tells", "name")]
    given = ["release", "nbgrader", str(tmp_path / "c"), "lab-03", *words, "--explain-points", "5"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    said = "Scheduler Reading: 13 points; before the deadline a check tells the points alone\n"
    assert said in done.output
    assert asked == [Wanted(tells="name", explain=5, points={LAB.id: {"3.3": 6, "3.1": 0}})]


def test_the_readme_takes_a_course_to_its_grades_in_eight_commands_that_there_are() -> None:
    text = (OWN.parents[2] / "README.md").read_text(encoding="utf-8")
    block = text.partition("## Teach a course")[2].partition("```sh\n")[2].partition("```")[0]
    assert len(block.splitlines()) == 8
    named = re.findall(r"(?<!release )nbgrader ([a-z_]+)", block)
    assert len(named) == 6  # one of them in a comment
    assert set(named) <= set(NbGraderApp.subcommands)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["lab-03", "--points", "3.3=many"], "--points 3.3=many: write TODO=N"),
        (["lab-03", "--points", "4.1=2"], "--points 4.1=2: There is no todo '4.1'"),
        (["lab-99"], "There is no lab 'lab-99'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_makes_no_course(
    given: list[str], said: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(main, ["release", "nbgrader", str(tmp_path / "c"), *given])
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "c").exists()


def test_a_record_that_is_unfit_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "infralens.json").write_text('{"schema": 1, "kit": "0", "assignments": {"a": 1}}')
    with pytest.raises(RecordError, match=r"infralens\.json cannot be read: "):
        list(release_labs(tmp_path, [LAB], Wanted()))
    assert not (tmp_path / "gradebook.db").exists()
