"""A course folder of nbgrader: made, or brought up to date, lab by lab."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from infralens import __version__
from infralens.course.assigned import assignment_name
from infralens.course.audit import Auditor
from infralens.course.notebooks import notebook_of, source_notebook
from infralens.course.record import Assignment, Record, Tells, read_record, write_record
from infralens.course.release_passes import auditor_of
from infralens.labs import Lab
from infralens.regular import read_regular, write_below

CONFIG = "nbgrader_config.py"
BEGIN = "# BEGIN INFRALENS: `infralens release nbgrader` writes these lines anew each time."
END = "# END INFRALENS. What you write below stays, and has the last word."
BLOCK = """\
{begin}
c = get_config()  # noqa: F821  # nbgrader gives it
c.CourseDirectory.course_id = {course!r}
P = "nbgrader.preprocessors."

# What learners get: stubs instead of answers, no line of an answer or of a suite.
c.GenerateAssignment.preprocessors = [
    *(P + name for name in ("IncludeHeaderFooter", "InstantiateTests", "LockCells")),
    "infralens.course.ClearAnswers",
    *(P + name for name in ("ClearOutput", "CheckCellMetadata", "ComputeChecksums")),
    "infralens.course.ForTheExaminer",
    P + "SaveCells",
    "infralens.course.ForTheLearner",
    *(P + name for name in ("ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums")),
    P + "CheckCellMetadata",
    "infralens.course.AuditRelease",
]

# How submissions are graded: by an examiner, in processes of their own, never in a kernel.
c.Autograde.exporter_class = "infralens.course.TolerantExporter"
c.Autograde.sanitize_preprocessors = [
    "infralens.course.RestoreCells",
    *(P + name for name in ("ClearOutput", "DeduplicateIds", "OverwriteKernelspec")),
    *(P + name for name in ("OverwriteCells", "CheckCellMetadata")),
]
c.Autograde.autograde_preprocessors = [
    "infralens.course.Examine",
    *(P + name for name in ("LimitOutput", "SaveAutoGrades", "AssignLatePenalties")),
    P + "CheckCellMetadata",
]

# Whose a file is, for zip_collect: as `infralens batch` reads it, or by your own
# c.FileNameCollectorPlugin.named_regexp. Grades in a CSV that a name cannot break. And, where
# nbgrader's exchange is used, collect takes plain files alone and follows no link.
c.ZipCollectApp.collector_plugin = "infralens.course.CollectByName"
c.ExportApp.plugin_class = "infralens.course.ExportCsv"
c.ExchangeFactory.collect = "infralens.course.CollectPlainFiles"
{labs}{end}
"""
MOST_BYTES = 2**22


class ReleaseError(RuntimeError):
    """nbgrader could not make the learners' copy; the text says why."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of a release. `points` are by lab and todo; None keeps what there is."""

    tells: Tells | None = None
    explain: int | None = None
    points: Mapping[str, Mapping[str, int]] | None = None


@dataclass(frozen=True)
class Released:
    """What became of one lab, and what was decided. `remarks` are sentences for the instructor."""

    assignment: str
    lab: Lab
    decided: Assignment
    released: bool
    remarks: tuple[str, ...] = ()


def release_labs(
    course: Path, labs: Iterable[Lab], wanted: Wanted, own_labs: Iterable[Path] = ()
) -> Iterator[Released]:
    """Make or update a course with an assignment for each lab, and release it with nbgrader.

    RecordError where `infralens.json` is unfit, ReleaseError where nbgrader fails.
    """
    course = course.resolve()
    record = read_record(course) or Record(__version__)
    course.mkdir(parents=True, exist_ok=True)
    own = tuple(own_labs)
    _write_config(course, own)
    api, auditor = _api(course), auditor_of(tuple(map(str, own)))
    for lab in labs:
        name = assignment_name(lab)
        decided = _decided(lab, record.assignments.get(name), wanted)
        done = _release_one(course, lab, decided, api, auditor)
        if done.released:
            known = {**record.assignments, name: decided}
            record = replace(record, kit=__version__, assignments=known)
            write_record(course, record)
        yield done


def _decided(lab: Lab, known: Assignment | None, wanted: Wanted) -> Assignment:
    """What holds for an assignment: what is asked now, else what was decided before."""
    if known is None or known.lab != lab.id:
        known = Assignment(lab.id, secrets.randbits(32), "everything", {}, explain=0)
    asked = (wanted.points or {}).get(lab.id, {})
    points = {todo.id: known.points.get(todo.id, todo.points) for todo in lab.todos}
    return replace(
        known,
        tells=wanted.tells or known.tells,
        explain=known.explain if wanted.explain is None else wanted.explain,
        points={**points, **asked},
    )


def _release_one(
    course: Path, lab: Lab, decided: Assignment, api: NbGraderAPI, auditor: Auditor
) -> Released:
    name = assignment_name(lab)
    notebook = source_notebook(lab, decided.points, explain=decided.explain, tells=decided.tells)
    handed_in, differing = _bound_cells(api, name, notebook_of(lab), notebook)
    if differing:
        said = (
            f"{_counted(handed_in)} came with other cells ({', '.join(sorted(differing)[:6])}), "
            "and nbgrader adds and removes none after that: it stays as it was released."
        )
        return Released(name, lab, decided, released=False, remarks=(said,))
    remarks = []
    source = course / "source" / name / f"{notebook_of(lab)}.ipynb"
    kept = _keep_edited(course, source, notebook)
    if kept:
        remarks.append(f"the source notebook that was there is kept as {kept}.")
    if handed_in:
        changed = _changed_points(api, name, notebook_of(lab), notebook)
        if changed:
            remarks.append(
                f"{_counted(handed_in)} graded before: the grades stay; {changed} counts "
                f"when they are graded again (nbgrader autograde {name} --force)."
            )
    with _kept_if_it_fails(course / "release" / name):
        write_below(course, source, nbformat.writes(notebook) + "\n")
        result = api.generate_assignment(name, force=True)
        if not result["success"]:
            if "KeyboardInterrupt" in result["error"] or "SystemExit" in result["error"]:
                raise KeyboardInterrupt  # nbgrader catches it with all else
            raise ReleaseError(f"{name} was not released: {_reason(result)}")
        for finding in auditor.audit(course / "release" / name):  # files beside the notebook too
            raise ReleaseError(f"{name} was not released: {finding}")
    return Released(name, lab, decided, released=True, remarks=tuple(remarks))


def _counted(submissions: int) -> str:
    return f"{submissions} submission{'s' * (submissions != 1)}"


def _bound_cells(
    api: NbGraderAPI, name: str, notebook_name: str, notebook: NotebookNode
) -> tuple[int, set[str]]:
    """How many submissions the gradebook has, and the cells that they keep from being changed."""
    with api.gradebook as gradebook:
        try:
            known = gradebook.find_notebook(notebook_name, name)
        except MissingEntry:
            return 0, set()
        submissions = len(known.submissions)
        named = {cell.metadata.nbgrader.grade_id for cell in notebook.cells}
        return submissions, named ^ {
            cell.name for cell in known.source_cells
        } if submissions else set()


def _changed_points(api: NbGraderAPI, name: str, notebook_name: str, notebook: NotebookNode) -> str:
    """The cells whose points differ from the gradebook's, in words; "" where none do."""
    with api.gradebook as gradebook:
        cells = gradebook.find_notebook(notebook_name, name).grade_cells
        before = {cell.name: cell.max_score for cell in cells}
    now = {
        cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points
        for cell in notebook.cells
        if cell.metadata.nbgrader.grade
    }
    changed = [cell for cell in now if now[cell] != before[cell]]
    return ", ".join(f"{cell} {before[cell]:g} → {now[cell]:g}" for cell in changed)


def _keep_edited(course: Path, source: Path, notebook: NotebookNode) -> str | None:
    """Keep a source notebook that differs from the new one: it may hold the instructor's edits."""
    if not source.is_file():
        return None
    old = read_regular(source, MOST_BYTES)
    if old.decode("utf-8", "replace").rstrip("\n") == nbformat.writes(notebook):
        return None
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    kept = course / "replaced" / f"{source.parent.name}-{stamp}-{source.name}"
    write_below(course, kept, old)
    return str(kept.relative_to(course))


@contextmanager
def _kept_if_it_fails(folder: Path) -> Iterator[None]:
    """nbgrader removes a release before it makes the next one: put it back when that fails."""
    if not folder.is_dir():
        try:
            yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return
    with tempfile.TemporaryDirectory(prefix="infralens-release-") as kept:
        shutil.copytree(folder, Path(kept) / folder.name)
        try:
            yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(Path(kept) / folder.name, folder)
            raise


def _reason(result: Mapping[str, Any]) -> str:
    """The last sentence of what nbgrader says of a failure."""
    said = [
        line.split("] ", 1)[-1]
        for line in re.sub(r"\x1b\[[\d;]*m", "", result.get("log", "")).splitlines()
        if "Error" in line and line.strip()
    ]
    lines = said or str(result.get("error", "")).strip().splitlines()
    return lines[-1] if lines else "nbgrader does not say why"


def _write_config(course: Path, own_labs: tuple[Path, ...]) -> None:
    path = course / CONFIG
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    folders = [str(folder) for folder in own_labs]
    labs = f"c.Examine.labs = c.AuditRelease.labs = {folders!r}\n" if folders else ""
    block = BLOCK.format(begin=BEGIN, end=END, course=_course_id(course), labs=labs)
    ours = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}\n", re.DOTALL)
    new = ours.sub(lambda _: block, old) if ours.search(old) else block + old
    if new != old:
        write_below(course, path, new)


def _course_id(course: Path) -> str:
    return re.sub(r"[^\w-]+", "-", course.name).strip("-") or "course"


def _api(course: Path) -> NbGraderAPI:
    try:
        config: Config = PyFileConfigLoader(CONFIG, path=str(course)).load_config()
    except Exception as error:  # whatever an instructor's lines in it raise
        said = f"{type(error).__name__}: {error}"
        raise ReleaseError(f"{course / CONFIG} cannot be run: {said}") from None
    config.CourseDirectory.root = str(course)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    with _own_programs(), api.gradebook:  # which makes a new one with the program alembic
        return api


@contextmanager
def _own_programs() -> Iterator[None]:
    """For the block, the programs installed beside this Python are found, activated or not."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before
