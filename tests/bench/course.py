"""What a class of notebooks costs. Run: python tests/bench/course.py [--count 30] [--lab lab-03]

The same answers (a solution, misconceptions and stubs of each lab in turn) are graded three times:
by nbgrader's own autograde, with this kit's checks as notebook tests in the learner's kernel; by
`nbgrader autograde` as `infralens release nbgrader` sets it up; by `infralens batch`. Told are the
seconds a submission by the clock, how many times faster than the first, and the points, which agree
where no answer cheats. In the kernel a todo ends at its first failure, and no mistake is named.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from infralens.course.nbgrader import Wanted, release_labs
from infralens.course.notebooks import notebook_of, source_notebook
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.labs import Lab, find_lab, find_labs
from infralens.stubs import definitions
from infralens.wrong import wrong_answers

WRONG = 3  # misconceptions to each solution and each stub, as in class.py
CHECK = """\
import sys
sys.path.insert(0, {folder!r})
from course import passed
assert passed({lab!r}, {todo!r}, globals())
"""


def passed(lab_id: str, todo: str, names: dict[str, Any]) -> bool:
    """Whether what a kernel has under these names passes a todo's checks: run in that kernel."""
    from diffusers.utils import logging

    from infralens.examiner.candidate.in_process import RehearsedCandidate
    from infralens.examiner.candidate.submission import Submission
    from infralens.examiner.mistakes.rehearse import InProcess
    from infralens.examiner.run.plugin import ExaminerPlugin, run_checks
    from infralens.examiner.run.suites import ImportedSuites

    logging.set_verbosity_error()  # nbgrader pays nothing for a cell that writes to stderr
    lab = find_lab(lab_id, find_labs())
    plugin = ExaminerPlugin(
        lab,
        InProcess(Submission("", "notebook")),
        RehearsedCandidate(names),
        seed=1,
        device="cpu",
        todos=frozenset({todo}),
        emit=lambda event: None,
        naming="none",
        stop="first failure",
    )
    run_checks(plugin, ImportedSuites())
    if plugin.fault is not None:
        raise RuntimeError(plugin.fault)
    return all(result.score for result in plugin.results.of_todos())


def answers(lab: Lab) -> Iterator[str | None]:
    """The text of each submission, for ever; None for one that was never begun."""
    assert lab.solution is not None
    solution = lab.solution.read_text(encoding="utf-8")
    wrong = [entry.edited(solution) for entry in wrong_answers(lab) if entry.says]
    lanes = (itertools.repeat(solution), *[itertools.cycle(wrong)] * WRONG, itertools.repeat(None))
    for lane in itertools.cycle(lanes):
        yield next(lane)


def filled(released: NotebookNode, lab: Lab, text: str | None) -> str:
    """A learner's notebook with these answers."""
    for todo in lab.todos if text is not None else ():
        name = f"answer-{todo.id.replace('.', '-')}"
        for cell in released.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == name:
                cell.source = definitions(text or "", todo.names).rstrip("\n")
    return nbformat.writes(released)


def hand_in(course: Path, lab: Lab, count: int) -> None:
    name = f"{notebook_of(lab)}.ipynb"
    for number, text in zip(range(count), answers(lab), strict=False):
        released = nbformat.read(course / "release" / lab.name / name, 4)
        path = course / "submitted" / f"learner-{number:04d}" / lab.name / name
        path.parent.mkdir(parents=True)
        path.write_text(filled(released, lab, text), encoding="utf-8")


def stock_course(course: Path, labs: list[Lab]) -> None:
    """A course as nbgrader alone would have it: each check cell is a notebook test."""
    course.mkdir()
    for lab in labs:
        notebook = source_notebook(lab, {todo.id: todo.points for todo in lab.todos})
        checks = {f"check-{todo.id.replace('.', '-')}": todo.id for todo in lab.todos}
        folder = str(Path(__file__).resolve().parent)
        for cell in notebook.cells:
            name = cell.metadata.nbgrader.grade_id
            if name == "imports":
                cell.source = "\n".join(
                    line for line in cell.source.splitlines() if "infralens" not in line
                )
            elif name in checks:
                cell.source = CHECK.format(folder=folder, lab=lab.id, todo=checks[name])
        source = course / "source" / lab.name / f"{notebook_of(lab)}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(nbformat.writes(notebook), encoding="utf-8")
    for lab in labs:
        run(course, "nbgrader", "generate_assignment", lab.name)


def run(folder: Path, module: str, *words: str) -> float:
    """Seconds of a command; what it printed where it fails."""
    begun = time.perf_counter()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [sys.executable, "-m", module, *words]
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode > 1:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return time.perf_counter() - begun


def scores(course: Path, lab: Lab) -> list[float]:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        found = gradebook.assignment_submissions(lab.name)
        return [each.score for each in sorted(found, key=lambda of: of.student.id)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=30, help="of each lab")
    parser.add_argument("--stock", type=int, default=10, help="so many of these in the kernel")
    parser.add_argument("--lab", nargs="+", default=["lab-01", "lab-02", "lab-03"])
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    labs = [find_lab(name, find_labs()) for name in asked.lab]
    isolation = "sandbox" if unavailable() is None else "process"
    total = {"stock": 0.0, "nbgrader": 0.0, "batch": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        stock, ours = Path(folder) / "stock", Path(folder) / "ours"
        stock_course(stock, labs)
        for _ in release_labs(ours, labs, Wanted()):
            pass
        for lab in labs:
            hand_in(stock, lab, asked.stock)
            hand_in(ours, lab, asked.count)
        shutil.copytree(ours / "submitted", Path(folder) / "class")
        how = ["--output", "graded", "--jobs", str(asked.jobs), "--isolation", isolation]
        for lab in labs:
            total["stock"] += run(stock, "nbgrader", "autograde", lab.name)
            total["nbgrader"] += run(ours, "nbgrader", "autograde", lab.name)
        total["batch"] += run(Path(folder), "infralens", "batch", "class", *how, "--device", "cpu")
        for lab in labs:
            kernel, mine = scores(stock, lab), scores(ours, lab)
            print(f"{lab.id}: {sum(mine):g} points; in the kernel {kernel}")
            print(f"{' ' * len(lab.id)}  of the same with this kit      {mine[: asked.stock]}")
        summary = json.loads((Path(folder) / "graded" / "summary.json").read_text("utf-8"))
        paid = sum(each["score"] for each in summary["submissions"])
        print(f"batch: {len(summary['submissions'])} submissions, {paid} points")
    each = {
        name: seconds / (len(labs) * (asked.stock if name == "stock" else asked.count))
        for name, seconds in total.items()
    }
    print(f"{asked.count} of each lab, isolation {isolation}, {asked.jobs} jobs")
    for name, seconds in each.items():
        print(
            f"{name:10} {seconds:6.2f} s a submission, {each['stock'] / seconds:5.1f} times stock"
        )


if __name__ == "__main__":
    main()
