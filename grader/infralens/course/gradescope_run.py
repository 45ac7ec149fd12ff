"""What Gradescope runs for every submission: python -m infralens.course.gradescope_run /autograder

Below that folder `source` holds the unpacked zip and `submission` what was handed in;
`results/results.json` is what Gradescope reads. When the grader itself fails it is not written, and
the exit code is 3: Gradescope then says that the autograder failed, and nobody gets a mark by it.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from infralens.course.gradescope import CONFIGURATION, Configuration
from infralens.course.telling import told
from infralens.examiner.errors import UnavailableError, UnreadableError
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.grading import grade
from infralens.labs import Lab, find_lab, find_labs
from infralens.regular import write_whole
from infralens.report import Report, TodoResult
from infralens.show.harmless import harmless, one_line
from infralens.show.terminal import show_todo

GRADER_FAILED = 3
COLUMNS = 88
MOST_OUTPUT = 20_000  # letters of one todo
PROCESS_LEVEL = (
    "This container allows no sandbox, so the submission was graded in a process of its own, which "
    "can read what is installed here. Where a mark matters, read the file."
)
Document = dict[str, Any]


def results(report: Report, configuration: Configuration) -> Document:
    """The report as Gradescope's results.json: a test for each todo."""
    shown = told(report, configuration.tells)
    return {
        "score": report.score,
        "execution_time": round(report.seconds, 1),
        "output": one_line(f"{report.score} of {report.max_score} points, seed {report.seed}."),
        "output_format": "text",
        "visibility": configuration.visibility,
        "stdout_visibility": "hidden",
        "tests": [_test(todo, shown) for todo in shown.todos],
        "extra_data": {
            "lab": report.lab,
            "seed": report.seed,
            "isolation": report.environment.isolation,
            "misconceptions": [
                check.misconception
                for todo in report.todos
                for check in todo.checks
                if check.misconception
            ],
            "notes": [f"line {note.line}: {one_line(note.text)}" for note in report.notes],
        },
    }


def nothing_to_grade(lab: Lab, configuration: Configuration, reason: str) -> Document:
    """What is said where no file can be graded: no points, and one sentence."""
    tests = [
        {
            "name": todo.title,
            "number": todo.id,
            "score": 0,
            "max_score": todo.points,
            "status": "failed",
            "output": "",
        }
        for todo in lab.todos
    ]
    return {
        "score": 0,
        "output": one_line(reason),
        "output_format": "text",
        "visibility": configuration.visibility,
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def submitted(folder: Path, lab: Lab) -> Path | None:
    """The file that is meant: the lab's own name, a notebook of that name, or the only one."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".ipynb"))
    for name in (lab.file, f"{Path(lab.file).stem}.ipynb"):
        named = [path for path in files if path.name == name]
        if named:
            return min(named, key=lambda path: len(path.parts))
    return files[0] if len(files) == 1 else None


def _test(todo: TodoResult, report: Report) -> Document:
    text = io.StringIO()
    console = Console(file=text, width=COLUMNS, highlight=False, emoji=False, markup=False)
    show_todo(todo, report, console)
    return {
        "name": todo.title,
        "number": todo.id,
        "score": todo.score,
        "max_score": todo.points,
        "status": "passed" if todo.score == todo.points else "failed",
        "output": harmless(text.getvalue()).strip()[:MOST_OUTPUT],
        "output_format": "text",
    }


def run(root: Path) -> int:
    """Grade what lies below `root`. The exit code."""
    source = root / "source"
    document = json.loads((source / CONFIGURATION).read_text(encoding="utf-8"))
    configuration = Configuration(**document)
    own = source / "labs"
    lab = find_lab(configuration.lab, find_labs([own] if own.is_dir() else []))
    file = submitted(root / "submission", lab)
    if file is None:
        found = nothing_to_grade(lab, configuration, f"Hand in {lab.file}; no such file is here.")
    else:
        try:
            report = grade(lab, file, isolation="auto")
        except UnreadableError as error:
            found = nothing_to_grade(lab, configuration, _without(root, str(error)))
        except UnavailableError as error:
            print(f"The grader failed: {error}")
            return GRADER_FAILED
        else:
            if report.grader_error is not None:
                print(f"The grader failed: {report.grader_error}")
                return GRADER_FAILED
            if report.environment.isolation == "process":
                print(PROCESS_LEVEL)
            found = results(report, configuration)
    write_whole(root / "results" / "results.json", json.dumps(found, indent=1) + "\n")
    return 0


def _without(root: Path, sentence: str) -> str:
    """A sentence that names files as the learner knows them."""
    return sentence.replace(f"{root / 'submission'}/", "")


def level() -> str:
    """One sentence: how submissions will be kept apart here."""
    lacking = unavailable()
    if lacking is None:
        return "Submissions will be graded in the sandbox."
    return f"Submissions will be graded at process level, without a sandbox: {lacking}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--level"]:
        print(level())
        sys.exit(0)
    sys.exit(run(Path(sys.argv[1])))
