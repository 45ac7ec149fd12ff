"""A Gradescope autograder: its own scripts, run in a folder laid out as Gradescope does."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from click.testing import CliRunner

from infralens.authoring.beginning import begin_lab
from infralens.cli import main
from infralens.course import gradescope_run
from infralens.course.gradescope import VISIBILITIES, Configuration, autograder
from infralens.course.gradescope_run import results, run, submitted
from infralens.labs import find_lab, find_labs
from infralens.report import CheckResult, Environment, Report, TodoResult
from infralens.wrong import wrong_answers

LAB = find_lab("lab-01", find_labs())
TOLD = Configuration(LAB.id, "everything", "after_due_date")
FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
TEST = {
    "type": "object",
    "additionalProperties": False,
    "required": ["score", "max_score"],
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "max_score": {"type": "number", "minimum": 0},
        "status": {"enum": ["passed", "failed"]},
        "name": {"type": "string"},
        "name_format": FORMAT,
        "number": {"type": "string"},
        "output": {"type": "string"},
        "output_format": FORMAT,
        "tags": {"type": "array", "items": {"type": "string"}},
        "visibility": {"enum": [*VISIBILITIES]},
        "extra_data": {"type": "object"},
    },
}
"""A test of results.json, as Gradescope's page "Autograder Specifications" lists its keys."""
RESULTS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["score", "tests"],
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "execution_time": {"type": "number", "minimum": 0},
        "output": {"type": "string"},
        "output_format": FORMAT,
        "test_output_format": FORMAT,
        "test_name_format": FORMAT,
        "visibility": {"enum": [*VISIBILITIES]},
        "stdout_visibility": {"enum": [*VISIBILITIES]},
        "extra_data": {"type": "object"},
        "tests": {"type": "array", "items": TEST},
    },
}
VALID = fastjsonschema.compile(RESULTS)


def report(*, isolation: str = "sandbox", grader_error: str | None = None) -> Report:
    """One mistake in the first todo, all else right."""
    bad = CheckResult("test_x", "It is so.", "failed", "3 \x1b[2J is not 2", misconception="off-by")
    todos = [TodoResult(t.id, t.title, t.points, t.points, "passed", ()) for t in LAB.todos]
    todos[0] = replace(todos[0], score=0, status="failed", checks=(bad,))
    score = sum(todo.score for todo in todos)
    return Report(
        lab=LAB.id,
        title=LAB.title,
        submission="x",
        score=score,
        max_score=LAB.max_score,
        passed=False,
        seed=7,
        seconds=1.25,
        grader_error=grader_error,
        environment=Environment("cpu", ("float32",), "3", "2", "0", isolation),
        todos=tuple(todos),
    )


def test_results_have_a_test_a_todo_with_its_points_and_what_the_course_tells() -> None:
    document = results(report(), TOLD)
    VALID(document)
    assert document["score"] == sum(test["score"] for test in document["tests"])
    assert [test["max_score"] for test in document["tests"]] == [t.points for t in LAB.todos]
    assert document["visibility"] == "after_due_date"
    assert document["stdout_visibility"] == "hidden"
    first = document["tests"][0]
    assert (first["score"], first["status"]) == (0, "failed")
    assert "is not 2" in first["output"]
    assert "\x1b" not in first["output"]
    little = results(report(), replace(TOLD, tells="points"))
    assert "is not 2" not in json.dumps(little["tests"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder /autograder once the image is built, with nothing handed in."""
    for name in ("source", "submission", "results"):
        (tmp_path / name).mkdir()
    text = json.dumps(TOLD.__dict__)
    (tmp_path / "source" / "infralens.json").write_text(text, encoding="utf-8")
    return tmp_path


def written(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / "results/results.json").read_text("utf-8"))
    VALID(document)
    return document


def test_what_holds_no_file_to_grade_gets_no_points_and_a_sentence(root: Path) -> None:
    assert run(root) == 0
    document = written(root)
    assert (document["score"], len(document["tests"])) == (0, len(LAB.todos))
    assert document["output"] == f"Hand in {LAB.file}; no such file is here."


def test_a_grader_that_fails_writes_no_result(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "submission" / LAB.file).write_text("x", encoding="utf-8")
    monkeypatch.setattr(gradescope_run, "grade", lambda *_, **__: report(grader_error="it broke"))
    assert run(root) == 3
    assert not (root / "results/results.json").exists()
    assert "it broke" in capsys.readouterr().out


def test_process_level_is_said_plainly(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "submission" / LAB.file).write_text("x", encoding="utf-8")
    monkeypatch.setattr(gradescope_run, "grade", lambda *_, **__: report(isolation="process"))
    assert run(root) == 0
    assert written(root)["extra_data"]["isolation"] == "process"
    assert "no sandbox" in capsys.readouterr().out


def test_the_file_that_is_meant_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "handed in"
    (folder / "deep").mkdir(parents=True)
    assert submitted(folder, LAB) is None
    (folder / "mine.py").write_text("", encoding="utf-8")
    assert submitted(folder, LAB) == folder / "mine.py"
    (folder / "other.py").write_text("", encoding="utf-8")
    assert submitted(folder, LAB) is None
    (folder / "deep" / LAB.file).write_text("", encoding="utf-8")
    assert submitted(folder, LAB) == folder / "deep" / LAB.file
    (folder / LAB.file).write_text("", encoding="utf-8")
    assert submitted(folder, LAB) == folder / LAB.file


def test_the_zip_holds_its_scripts_executable_and_no_other_lab(tmp_path: Path) -> None:
    output = tmp_path / "autograder.zip"
    done = CliRunner().invoke(main, ["release", "gradescope", "lab-01", "--output", str(output)])
    assert done.exit_code == 0, done.output
    assert "at process level" in done.output
    with zipfile.ZipFile(output) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert all(modes[name] & stat.S_IXUSR for name in ("setup.sh", "run_autograder"))
    others = [lab for lab in find_labs() if lab.id != LAB.id]
    held = "\n".join(modes)
    assert f"solutions/{LAB.track}/{LAB.folder}/{LAB.file}" in held
    assert not [lab.id for lab in others if lab.folder in held or lab.suite.name in held]
    assert "__pycache__" not in held


def test_a_lab_of_an_authors_own_folder_is_the_one_that_the_kit_in_the_zip_finds(
    tmp_path: Path,
) -> None:
    begin_lab("mine", "lab-01", "My Own", tmp_path / "own")
    (lab,) = (lab for lab in find_labs([tmp_path / "own"]) if lab.track == "mine")
    source = tmp_path / "source"
    with zipfile.ZipFile(io.BytesIO(autograder(lab, replace(TOLD, lab=lab.id)))) as archive:
        archive.extractall(source)
    program = (
        "import sys; from pathlib import Path; from infralens.labs import find_labs\n"
        "print(*((lab.id, lab.solution.is_file()) for lab in find_labs([Path(sys.argv[1])])))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(source / "labs")],
        env={**os.environ, "PYTHONPATH": str(source / "kit")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "('mine/lab-01', True)\n"


PYTHON3 = """#!{python}
# Makes the environment that is asked for out of what is installed here, without pip.
import pathlib, subprocess, sys, venv
if sys.argv[1:3] == ["-m", "venv"]:
    folder = pathlib.Path(sys.argv[3])
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.rglob("site-packages"))
    (site / "others.pth").write_text({others!r})
    (site / "pip.py").write_text("import sys; print('pip', *sys.argv[1:])")
else:
    sys.exit(subprocess.run([{python!r}, *sys.argv[1:]]).returncode)
"""


def script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="Gradescope runs Linux")
def test_its_scripts_grade_what_was_handed_in(tmp_path: Path) -> None:
    """setup.sh once, run_autograder on a file with one known mistake."""
    root, programs = tmp_path / "autograder", tmp_path / "bin"
    for folder in (root / "submission", root / "results", programs):
        folder.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(autograder(LAB, TOLD))) as archive:
        archive.extractall(root / "source")
    others = "".join(f"{path}\n" for path in sys.path if path.endswith("site-packages"))
    script(programs / "apt-get", "#!/bin/sh\n")
    script(programs / "python3", PYTHON3.format(python=sys.executable, others=others))
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "AUTOGRADER_ROOT": str(root)}
    setup = ["bash", str(root / "source/setup.sh")]
    built = subprocess.run(setup, env=own, cwd=root, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert f"pip install --quiet -r {root}/source/requirements.txt" in built.stdout
    assert "Submissions will be graded " in built.stdout

    assert LAB.solution is not None
    wrong = next(known for known in wrong_answers(LAB) if known.says)
    text = wrong.edited(LAB.solution.read_text(encoding="utf-8"))
    (root / "submission" / LAB.file).write_text(text, encoding="utf-8")
    script(root / "run_autograder", (root / "source/run_autograder").read_text(encoding="utf-8"))
    graded = subprocess.run(
        [str(root / "run_autograder")],
        env=own,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert graded.returncode == 0, graded.stdout + graded.stderr
    document = written(root)
    lost = {test["number"]: test["output"] for test in document["tests"] if not test["score"]}
    assert list(lost) == [wrong.todo]
    assert wrong.name in lost[wrong.todo]
    assert document["score"] == LAB.max_score - LAB.todo(wrong.todo).points
