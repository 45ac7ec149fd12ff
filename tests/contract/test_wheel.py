"""A wheel, installed in an empty environment away from the checkout, grades and gives no answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from infralens.authoring.given_away import telling_lines
from infralens.labs import find_lab, find_labs
from infralens.wrong import wrong_answers
from variants import solution_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--wheel-dir",
        str(out),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("infralens_labs-*.whl"))


def test_the_wheel_holds_all_of_every_lab(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for lab in find_labs():
        folder = f"{lab.track}/{lab.folder}"
        assert {
            f"infralens/exercises/{folder}/{lab.file}",
            f"infralens/exercises/{folder}/README.md",
            f"infralens/solutions/{folder}/{lab.file}",
            f"infralens/suites/{lab.track}/{lab.suite.name}/lab.yaml",
        } <= names
    assert {"infralens/wrong.schema.json", "infralens/constraints.txt"} <= names


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, and a workspace that it made."""

    python: Path
    workspace: Path

    def infralens(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; from infralens.cli import main; sys.argv[0] = 'infralens'; main()"
        return subprocess.run(
            [str(self.python), "-P", "-c", program, *arguments],
            cwd=self.workspace,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": ""},
            check=False,
        )

    def grade(self, text: str, todo: str, *options: str) -> subprocess.CompletedProcess[str]:
        path = self.workspace / "submission.py"
        path.write_text(text, encoding="utf-8")
        return self.infralens("grade", "lab-03", "--file", str(path), "--todo", todo, *options)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    # The dependencies are this environment's; the package itself comes from the wheel alone.
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    site = next((folder / "env").rglob("site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")
    (folder / "w").mkdir()
    made = Installed(python, folder / "w")
    done = made.infralens("init", ".")
    assert done.returncode == 0, done.stderr
    return made


def test_a_workspace_made_from_the_wheel_holds_no_line_of_an_answer(installed: Installed) -> None:
    made = {
        path: set(map(str.strip, path.read_text(encoding="utf-8", errors="replace").splitlines()))
        for path in installed.workspace.rglob("*")
        if path.is_file()
    }
    assert made
    for lab in find_labs():
        assert lab.solution is not None
        for line in telling_lines(lab.solution.read_text(encoding="utf-8")):
            assert [path for path, lines in made.items() if line in lines] == []


def test_the_wheel_names_a_mistake_and_shows_the_solution_away_from_the_checkout(
    installed: Installed,
) -> None:
    lab = find_lab("lab-03", find_labs())
    wrong = next(known for known in wrong_answers(lab) if known.name == "sigma-not-root")
    shown = installed.infralens("solution", "lab-03", "--give-up")
    assert shown.stdout == solution_of(lab)
    graded = installed.grade(wrong.edited(shown.stdout), "3.3", "--format", "json")
    assert graded.returncode == 1, graded.stderr
    named = {c["misconception"] for t in json.loads(graded.stdout)["todos"] for c in t["checks"]}
    assert "sigma-not-root" in named


THIEF = """
import sys
from pathlib import Path

for folder in sys.path:
    path = Path(folder) / "infralens/solutions/diffusers/lab-03-scheduler-reading/scheduler.py"
    if path.is_file():
        exec(path.read_text())
"""


@pytest.mark.sandbox
def test_a_submission_in_the_sandbox_cannot_read_the_solutions_of_the_wheel(
    installed: Installed,
) -> None:
    inside = installed.grade(THIEF, "3.6", "--isolation", "sandbox")
    assert inside.returncode == 1, inside.stderr
    assert installed.grade(THIEF, "3.6", "--isolation", "process").returncode == 0
