"""The README tells the truth: transcripts are what the command prints, tables what there is."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infralens.cli import main
from infralens.labs import Lab
from infralens.wrong import wrong_answers
from variants import LABS, solution_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRANSCRIPT = re.compile(r"^```text\n\$ infralens (grade lab-03 --seed 3)\n\n(.*?)^```", re.M | re.S)
SECONDS = re.compile(r"cpu · [\d.]+ s")
LAB_03 = next(lab for lab in LABS if lab.id == "diffusers/lab-03")


def plain(text: str) -> list[str]:
    """The lines of a transcript without what differs from run to run."""
    return [line.rstrip() for line in SECONDS.sub("cpu · ? s", text).strip("\n").splitlines()]


@pytest.mark.parametrize(("number", "wrong"), [(0, "sigma-not-root"), (1, None)])
def test_a_transcript_is_what_the_command_prints(
    number: int, wrong: str | None, tmp_path: Path
) -> None:
    text = solution_of(LAB_03)
    for known in wrong_answers(LAB_03):
        if known.name == wrong:
            text = known.edited(text)
    workspace = tmp_path / LAB_03.track / LAB_03.folder
    workspace.mkdir(parents=True)
    (tmp_path / ".infralens").mkdir()
    (workspace / LAB_03.file).write_text(text, encoding="utf-8")
    command, shown = TRANSCRIPT.findall(README)[number]
    done = subprocess.run(
        [sys.executable, "-m", "infralens.cli", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "88", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == (1 if wrong else 0), done.stderr
    assert plain(done.stdout) == plain(shown)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_readme_lists_the_lab_with_its_points(lab: Lab) -> None:
    page = f"exercises/{lab.track}/{lab.folder}/README.md"
    row = next((line for line in README.splitlines() if page in line), "")
    assert row.rstrip(" |").endswith(f"| {lab.max_score}"), page


def test_the_readme_speaks_of_commands_that_there_are() -> None:
    named = set(re.findall(r"(?:^|`|\n|&& |bin/)infralens ([a-z][a-z-]+)", README))
    assert named - set(main.commands) == set()
    assert {"grade", "batch", "release", "audit"} <= named


@pytest.mark.parametrize("word", ["signals", "home folder", "progress.json", "network", "tracing"])
def test_the_readme_says_what_the_level_of_processes_cannot_stop(word: str) -> None:
    level = re.search(r"\* \*process\*:(.*?)\n\* \*sandbox\*", README, re.S)
    assert level is not None
    assert word in " ".join(level[1].split())


ASKS = {"fetch", "state_of", "requires_grad"}  # a submission's process for what became of a thing


def asking(lab: Lab) -> Iterator[str]:
    """The todos of a lab whose checks, or the helpers that these use, ask so."""
    (suite,) = lab.suite.glob("test_*.py")
    tree = ast.parse(suite.read_text(encoding="utf-8"))
    known = {
        node.name: {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    for node in tree.body:
        for mark in getattr(node, "decorator_list", ()):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "todo":
                used, before = known[node.name], set[str]()
                while used != before:
                    before = used
                    used = used.union(*(known[name] for name in used if name in known))
                if used & ASKS:
                    yield mark.args[0].value


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_readme_says_which_todos_believe_the_submissions_own_process(lab: Lab) -> None:
    """What lies there can be replaced by what it tells of: an instructor is to know."""
    _, table = README.split("| todo | what its own process tells |")
    told: set[str] = set()
    for row in table.split("\n\n")[0].splitlines()[2:]:
        todos = row.split("|")[1]
        for first, last in re.findall(r"((?:diffsynth/)?\d+\.\d+)(?: to (\d+\.\d+))?", todos):
            begin, end = int(first.rpartition(".")[2]), int((last or first).rpartition(".")[2])
            told |= {f"{first.rpartition('.')[0]}.{n}" for n in range(begin, end + 1)}
    track = "" if lab.track == "diffusers" else f"{lab.track}/"
    assert {track + todo.rpartition("/")[2] for todo in asking(lab)} <= told
