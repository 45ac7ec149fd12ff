"""`nbgrader autograde` over a class of two labs: what is paid, and what is not.

One course serves all the tests here. Lab 03 of it is graded by nbgrader's own command, as whoever
types it has it, and lab 01 learner by learner in this process, as formgrader has it.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.apps.exportapp import ExportApp
from nbgrader.coursedir import CourseDirectory
from nbgrader.server_extensions.formgrader.formgrader import FormgradeExtension
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from infralens.course.autograde import bench, examine
from infralens.course.distinctive import distinctive_lines, suite_owner
from infralens.course.kernel import Warm
from infralens.course.nbgrader import Wanted, release_labs
from infralens.labs import Lab, find_lab, find_labs
from infralens.stubs import definitions
from infralens.wrong import wrong_answers

LABS = find_labs()
NOISE, SCHEDULER = find_lab("lab-01", LABS), find_lab("lab-03", LABS)
PROGRAM = [sys.executable, "-m", "nbgrader"]
real = pytest.mark.sandbox


def answered(released: NotebookNode, lab: Lab, *todos: str, wrong: str = "") -> NotebookNode:
    """The released notebook with the answers to these todos, or to all; one as a named mistake."""
    assert lab.solution is not None
    text = lab.solution.read_text(encoding="utf-8")
    if wrong:
        text = next(of for of in wrong_answers(lab) if of.name == wrong).edited(text)
    for todo in lab.todos:
        if not todos or todo.id in todos:
            cell = named(released, f"answer-{todo.id.replace('.', '-')}")
            cell.source = definitions(text, todo.names).rstrip("\n")
    return released


def named(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)


def without(notebook: NotebookNode, *names: str) -> NotebookNode:
    for name in names:
        notebook.cells.remove(named(notebook, name))
    return notebook


def after(notebook: NotebookNode, name: str, *cells: NotebookNode) -> NotebookNode:
    place = notebook.cells.index(named(notebook, name)) + 1
    notebook.cells[place:place] = cells
    return notebook


def put(notebook: NotebookNode, name: str, change: Callable[[str], str]) -> NotebookNode:
    cell = named(notebook, name)
    cell.source = change(cell.source)
    return notebook


def attacked(notebook: NotebookNode, code: str) -> NotebookNode:
    """The untouched notebook with the attack as its first cell, and once more after an answer."""
    notebook.cells.insert(0, new_code_cell(code))
    return after(notebook, "answer-1-1", new_code_cell(code))


REDEFINED = """\
def check(todo):
    return 1e9
_ = None
import builtins
builtins.check = check
"""
TRANSFORMED = """\
shell = get_ipython()
shell.input_transformers_post.append(lambda lines: ["4.0\\n"])
shell.input_transformer_manager.cleanup_transforms.append(lambda lines: ["4.0\\n"])
"""
REWRITTEN = """\
import ast
class Pay(ast.NodeTransformer):
    def visit_Call(self, node):
        return ast.Constant(4.0)
get_ipython().ast_transformers.append(Pay())
"""
COMPILED = """\
import ast, builtins
kept = builtins.compile
def compiled(source, filename, mode, *args, **kwargs):
    text = ast.unparse(source) if isinstance(source, ast.AST) else str(source)
    paid = text.strip().startswith("check")
    return kept("4.0" if paid else source, filename, mode, *args, **kwargs)
builtins.compile = compiled
"""
READ = """\
import json, sqlite3
from pathlib import Path
course = Path({course!r})
found = []
try:
    rows = sqlite3.connect(course / "gradebook.db").execute("select source from source_cell")
    found = [row[0] for row in rows]
except Exception as error:
    print("no gradebook:", error)
try:
    source = json.loads((course / "source/lab-01/forward_noise.ipynb").read_text())
    for cell in source["cells"]:
        if cell["cell_type"] == "code" and "check(" not in "".join(cell["source"]):
            exec("".join(cell["source"]).replace("%", "#"), globals())
except Exception as error:
    print("no source:", error)
"""
ATTACKS = (REDEFINED, TRANSFORMED, REWRITTEN, COMPILED)
MAGICS = """\
%matplotlib inline
!pip install nothing
torch?
%time values = [1, 2]
"""


def with_magics(notebook: NotebookNode) -> NotebookNode:
    put(notebook, "answer-1-1", lambda text: f"{MAGICS}{text}\nbetas??")
    put(notebook, "answer-1-2", lambda text: f"%%time\n{text}")
    own = "%run other.py", "%%bash\nls", "1 / 0", "import os\nos._exit(3)"
    return after(notebook, "answer-1-2", *map(new_code_cell, own))


def altered(notebook: NotebookNode) -> NotebookNode:
    """Points, names and marks as a learner may write them into the file."""
    named(notebook, "check-3-1").metadata.nbgrader.points = 400
    named(notebook, "check-3-3").metadata.nbgrader.update(grade=False, solution=True, points=-1)
    named(notebook, "answer-3-2").metadata.nbgrader.update(grade=True, points=50, schema_version=1)
    named(notebook, "read-3-4").metadata.nbgrader.locked = "no"
    notebook.metadata.infralens = {"lab": "diffusers/lab-01", "restored": True}
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "x", "language": "python"}
    return notebook


def solution(lab: Lab) -> str:
    assert lab.solution is not None
    return lab.solution.read_text(encoding="utf-8")


Made = Callable[[NotebookNode, Path], NotebookNode]


@dataclass(frozen=True)
class Case:
    """One submission: who, to which lab, made how, and the points it must get by todo."""

    student: str
    lab: Lab
    made: Made
    paid: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.paid.values())


def points(lab: Lab, *todos: str) -> dict[str, int]:
    return {t.id: t.points if t.id in todos else 0 for t in lab.todos}


def all_but(lab: Lab, *todos: str) -> dict[str, int]:
    return {t.id: 0 if t.id in todos else t.points for t in lab.todos}


def mistaken(lab: Lab, name: str) -> Made:
    return lambda nb, _: answered(nb, lab, wrong=name)


def unended(notebook: NotebookNode) -> NotebookNode:
    """3.6 waits for ever, and takes no processor time from the others."""
    body = "    import time\n    while True:\n        time.sleep(1)\n"
    return put(notebook, "answer-3-6", lambda text: text.split("    raise")[0] + body)


def copied(notebook: NotebookNode) -> NotebookNode:
    copies = [deepcopy(named(notebook, name)) for name in ("check-3-1", "check-3-3")]
    return after(notebook, "check-3-3", *copies)


def in_an_own_cell(notebook: NotebookNode) -> NotebookNode:
    own = new_code_cell(definitions(solution(SCHEDULER), SCHEDULER.todo("3.4").names))
    return after(without(notebook, "answer-3-4"), "read-3-4", own)


DELETED = ("check-3-1", "read-3-4", "answer-3-7", "imports", "explain")
N, S = NOISE, SCHEDULER
CASES = (
    Case("full", S, lambda nb, _: answered(nb, S), all_but(S)),
    Case("untouched", S, lambda nb, _: nb, points(S)),
    Case(
        "half",
        S,
        lambda nb, _: answered(nb, S, "3.1", "3.2", "3.4"),
        points(S, "3.1", "3.2", "3.4"),
    ),
    Case("mistake-3-3", S, mistaken(S, "sigma-not-root"), all_but(S, "3.3")),
    Case("mistake-3-2", S, mistaken(S, "karras-rho-fixed"), all_but(S, "3.2")),
    Case("mistake-1-1", N, mistaken(N, "cosine-not-capped"), all_but(N, "1.1")),
    Case(
        "syntax-error",
        S,
        lambda nb, _: put(answered(nb, S), "answer-3-4", lambda text: text.replace("(", "((", 1)),
        all_but(S, "3.4"),
    ),
    Case("endless-loop", S, lambda nb, _: unended(answered(nb, S, "3.1")), points(S, "3.1")),
    Case(
        "deleted-cells",
        S,
        lambda nb, _: without(answered(nb, S, "3.1", "3.4"), *DELETED),
        points(S, "3.1", "3.4"),
    ),
    Case("copied-check", S, lambda nb, _: copied(answered(nb, S, "3.1")), points(S, "3.1")),
    Case("altered-points", S, lambda nb, _: altered(answered(nb, S, "3.1")), points(S, "3.1")),
    Case("own-cell", S, lambda nb, _: in_an_own_cell(nb), points(S, "3.4")),
    Case("magics", N, lambda nb, _: with_magics(answered(nb, N)), all_but(N)),
    Case("unreadable", N, lambda nb, _: nb, points(N)),
    Case("redefined-check", N, lambda nb, _: attacked(nb, REDEFINED), points(N)),
    Case("input-transformers", N, lambda nb, _: attacked(nb, TRANSFORMED), points(N)),
    Case("ast-transformers", N, lambda nb, _: attacked(nb, REWRITTEN), points(N)),
    Case("patched-compile", N, lambda nb, _: attacked(nb, COMPILED), points(N)),
    Case(
        "reads-the-course",
        N,
        lambda nb, course: attacked(nb, READ.format(course=str(course))),
        points(N),
    ),
)
BY_STUDENT = {case.student: case for case in CASES}


# The real command line


@dataclass(frozen=True)
class Course:
    """A course that was graded, and what nbgrader printed."""

    folder: Path
    printed: dict[str, str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *words],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    @property
    def gradebook(self) -> Gradebook:
        return Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}")

    def scores(self, student: str, lab: Lab) -> dict[str, float | None]:
        """What the gradebook has for each todo."""
        with self.gradebook as gradebook:
            found = gradebook.find_submission_notebook(stem(lab), lab.name, student)
            return {
                grade.name.removeprefix("check-").replace("-", "."): grade.auto_score
                for grade in found.grades
                if grade.name != "explain"
            }

    def api(self, *, configured: bool = True, **examine_with: Any) -> NbGraderAPI:
        """nbgrader as formgrader has it, in this process."""
        loader = PyFileConfigLoader("nbgrader_config.py", path=str(self.folder))
        config: Config = loader.load_config() if configured else Config()
        config.CourseDirectory.root = str(self.folder)
        config.Examine.update(examine_with)
        return NbGraderAPI(CourseDirectory(config=config), config=config)

    def copy(self, folder: Path) -> Course:
        shutil.copytree(self.folder, folder)
        return Course(folder, self.printed)

    def outputs(self, student: str, lab: Lab, todo: str) -> list[NotebookNode]:
        """What stands below a check cell."""
        path = self.folder / "autograded" / student / lab.name / file(lab)
        cell = named(nbformat.read(path, 4), f"check-{todo.replace('.', '-')}")
        found: list[NotebookNode] = cell.outputs
        return found


def stem(lab: Lab) -> str:
    return Path(lab.file).stem


def file(lab: Lab) -> str:
    return f"{stem(lab)}.ipynb"


class Kept(Warm):
    """The examiner of every grade in this process: no bench ends it."""

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def kept() -> Iterator[None]:
    warm = Kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "Warm", lambda: warm)
        yield
    Warm.close(warm)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, kept: None) -> Course:
    folder = tmp_path_factory.mktemp("course") / "diffusion"
    for _ in release_labs(folder, [NOISE, SCHEDULER], Wanted()):
        pass
    for case in CASES:
        lab = case.lab
        notebook = case.made(nbformat.read(folder / "release" / lab.name / file(lab), 4), folder)
        path = folder / "submitted" / case.student / lab.name / file(lab)
        path.parent.mkdir(parents=True)
        path.write_text(nbformat.writes(notebook), encoding="utf-8")
        if case.student == "unreadable":
            path.write_text(path.read_text(encoding="utf-8")[:-200], encoding="utf-8")
    beside = folder / "submitted/half" / SCHEDULER.name
    (beside / "timestamp.txt").write_text("when I like", encoding="utf-8")
    (beside / "notes.txt").symlink_to(folder / "source" / SCHEDULER.name / file(SCHEDULER))
    course = Course(folder, {})
    done = course.run("autograde", SCHEDULER.name)
    assert done.returncode == 0, done.stderr
    course.printed[SCHEDULER.name] = done.stderr
    noisy = [case.student for case in CASES if case.lab is NOISE]
    logs = [course.api(jobs=1).autograde(NOISE.name, student) for student in noisy]
    assert all(log["success"] for log in logs), logs
    course.printed[NOISE.name] = "\n".join(log["log"] for log in logs)
    return course


@real
@pytest.mark.minutes
@pytest.mark.xdist_group("autograde")
class TestTheRealCommandLine:
    @pytest.mark.parametrize("student", BY_STUDENT)
    def test_the_gradebook_has_exactly_the_points_that_were_earned(
        self, course: Course, student: str
    ) -> None:
        case = BY_STUDENT[student]
        assert course.scores(student, case.lab) == case.paid

    def test_the_exported_table_has_the_same_points(
        self, course: Course, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(course.folder)
        app = ExportApp()
        app.initialize([])
        app.start()
        with (course.folder / "grades.csv").open(encoding="utf-8") as rows:
            found = {(row["student_id"], row["assignment"]): row for row in csv.DictReader(rows)}
        for case in CASES:
            row = found[case.student, case.lab.name]
            found_points = float(row["score"]), float(row["max_score"])
            assert found_points == (case.total, case.lab.max_score)

    def test_every_check_cell_ends_with_an_explanation_and_a_score(self, course: Course) -> None:
        for case in CASES:
            for todo, paid in case.paid.items():
                said, score = course.outputs(case.student, case.lab, todo)
                assert (said.output_type, score.output_type) == ("display_data", "execute_result")
                assert float(score.data["text/plain"]) == paid
                assert set(said.data) == {"text/plain"}

    def test_explanations_are_those_of_infralens_grade_and_say_how_it_was_graded(
        self, course: Course
    ) -> None:
        todos = {"mistake-3-3": "3.3", "syntax-error": "3.4", "endless-loop": "3.6"}
        said = {
            student: course.outputs(student, SCHEDULER, todo)[0].data["text/plain"]
            for student, todo in {**todos, "untouched": "3.1"}.items()
        }
        assert "3.3 · Euler's method: 0 of 4 points" in said["mistake-3-3"]
        assert "Divide by √(σ² + 1)" in said["mistake-3-3"]
        assert "(sigma-not-root)" in said["mistake-3-3"]
        assert "--seed" not in said["mistake-3-3"]
        assert "syntax error on line 1 of cell" in said["syntax-error"]
        assert "no answer within 10 seconds" in said["endless-loop"]
        assert "not started" in said["untouched"]
        for text in said.values():
            assert "graded in a sandbox" in text

    def test_feedback_pages_show_points_and_explanations_and_no_line_of_a_suite(
        self, course: Course
    ) -> None:
        done = course.api().generate_feedback(SCHEDULER.name, "mistake-3-3")
        assert done["success"], done["error"]
        path = course.folder / f"feedback/mistake-3-3/{SCHEDULER.name}/{stem(SCHEDULER)}.html"
        page = path.read_text(encoding="utf-8")
        assert "(Score: 15.0 / 19.0)" in page
        assert "sigma-not-root" in page
        owners = {line.owner for line in distinctive_lines([SCHEDULER]).found_in(page.encode())}
        assert owners  # the answers are the learner's own
        assert suite_owner(SCHEDULER) not in owners
        done = course.api().generate_feedback(SCHEDULER.name, "untouched")
        assert done["success"], done["error"]
        told = (path.parents[2] / "untouched" / SCHEDULER.name / path.name).read_bytes()
        assert not distinctive_lines([SCHEDULER]).found_in(told)

    def test_what_nbgrader_would_follow_or_stumble_over_is_set_aside(self, course: Course) -> None:
        said = "half/lab-03: timestamp.txt, notes.txt cannot be used"
        assert said in course.printed[SCHEDULER.name]
        graded = course.folder / "autograded/half" / SCHEDULER.name
        assert [path.name for path in graded.iterdir()] == [file(SCHEDULER)]
        shown = {row["student"]: row["score"] for row in course.api().get_submissions("lab-03")}
        assert shown["half"] == BY_STUDENT["half"].total

    def test_progress_is_told_with_the_points_of_each(self, course: Course) -> None:
        count = sum(case.lab is SCHEDULER for case in CASES)
        told = rf"full: 19 of 19 points \(\d+ of {count} graded, about \d+ (s|min) left\)"
        assert re.search(told, course.printed["lab-03"])
        assert "unreadable: cannot be read" in course.printed["lab-01"]

    def test_each_attack_would_be_paid_where_answers_run_beside_what_judges_them(
        self, course: Course
    ) -> None:
        """A kernel that first hears of check, then runs the attack, then the check cell."""
        code = (
            "import json, os, sys\n"
            "from IPython.core.interactiveshell import InteractiveShell\n"
            "shell = InteractiveShell.instance()\n"
            "for cells in json.load(sys.stdin):\n"
            "    if os.fork() == 0:\n"
            "        done = [shell.run_cell(cell) for cell in cells][-1]\n"
            "        print('PAID' if done.success else 'NOT PAID', flush=True)\n"
            "        os._exit(0)\n"
            "    os.wait()\n"
        )
        given = 'def check(todo):\n    raise AssertionError("wrong")'
        tried = [[given, *attack, 'check("1.1")'] for attack in ([], *([a] for a in ATTACKS))]
        ran = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(tried),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        verdicts = [line for line in ran if line.endswith("PAID")]
        assert verdicts == ["NOT PAID", *["PAID"] * len(ATTACKS)]
        stolen: dict[str, Any] = {}
        exec(READ.format(course=str(course.folder)), stolen)
        assert stolen["found"]
        assert stolen["betas"]("linear", 3, 0.1, 0.3).tolist() == pytest.approx([0.1, 0.2, 0.3])

    def test_nbgraders_own_autograde_pays_nothing(self, course: Course, tmp_path: Path) -> None:
        stock = course.copy(tmp_path / "stock")
        (stock.folder / "nbgrader_config.py").unlink()
        shutil.rmtree(stock.folder / "autograded")
        with stock.gradebook as gradebook:
            gradebook.remove_submission(NOISE.name, "redefined-check")
        done = stock.api(configured=False).autograde(NOISE.name, "redefined-check")
        assert not done["success"]
        assert "infralens-examiner" in done["log"]
        with stock.gradebook as gradebook:
            assert gradebook.find_submission(NOISE.name, "redefined-check").score == 0

    def test_a_regrade_that_fails_keeps_no_old_score(self, course: Course, tmp_path: Path) -> None:
        broken = course.copy(tmp_path / "broken")
        (broken.folder / "infralens.json").unlink()
        assert broken.scores("full", SCHEDULER) == all_but(SCHEDULER)
        done = broken.api().autograde(SCHEDULER.name, "full", force=True)
        assert not done["success"]
        assert "lab-03 is no assignment of this kit" in done["log"]
        assert set(broken.scores("full", SCHEDULER).values()) == {None}
        with broken.gradebook as gradebook:
            assert gradebook.find_submission(SCHEDULER.name, "full").score == 0
            assert gradebook.find_submission(SCHEDULER.name, "full").needs_manual_grade

    def test_without_a_sandbox_nothing_is_graded_and_nothing_forgotten(
        self, course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(examine, "unavailable", lambda: "bubblewrap is not installed")
        other = course.copy(tmp_path / "other")
        done = other.api().autograde(SCHEDULER.name, "full", force=True)
        assert not done["success"]
        assert "there is no sandbox here (bubblewrap is not installed)" in done["log"]
        assert 'c.Examine.isolation = "process"' in done["log"]
        assert other.scores("full", SCHEDULER) == all_but(SCHEDULER)

    def test_process_level_is_there_for_those_who_ask_and_is_said(
        self, course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(examine, "unavailable", lambda: "bubblewrap is not installed")
        other = course.copy(tmp_path / "other")
        done = other.api(isolation="process").autograde(NOISE.name, "redefined-check", force=True)
        assert done["success"], done["error"]
        assert other.scores("redefined-check", NOISE) == points(NOISE)
        said = other.outputs("redefined-check", NOISE, "1.1")[0].data["text/plain"]
        assert "graded without a sandbox, in a process of its own" in said

    @pytest.mark.parametrize("place", ["working folder", "CourseDirectory.root"])
    def test_formgrader_finds_the_configuration(
        self, course: Course, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
        monkeypatch.setattr(sys, "path", list(sys.path))  # it puts the working folder there
        if place == "working folder":
            monkeypatch.chdir(course.folder)
        else:
            monkeypatch.chdir(tmp_path)
            root = f"c = get_config()\nc.CourseDirectory.root = {str(course.folder)!r}\n"
            (tmp_path / "config").mkdir()
            (tmp_path / "config/nbgrader_config.py").write_text(root, encoding="utf-8")
        app = FormgradeExtension()
        app.initialize([])
        assert app.config.Autograde.exporter_class == "infralens.course.TolerantExporter"
        assert app.config.Autograde.autograde_preprocessors[0] == "infralens.course.Examine"
