"""A learner's folder: where the exercises lie, and the progress that is kept beside them."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from infralens.labs import Lab, Place, own_place
from infralens.regular import read_regular, refuse_links, write_below, write_new
from infralens.report import Report

STATE = ".infralens"
PROGRESS = "progress.json"
SCHEMA = 1
LOCK_SECONDS = 10.0
MOST_PROGRESS_BYTES = 2**20
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class NoWorkspaceError(Exception):
    """There is no workspace here; the text says how to make one."""


@dataclass(frozen=True)
class TodoProgress:
    """What the best grade of a todo gave: trying something out takes no points away."""

    score: int
    points: int
    status: str


@dataclass(frozen=True)
class Progress:
    """The whole state of a workspace: points by lab and todo, hints used by todo."""

    labs: dict[str, dict[str, TodoProgress]] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    quizzes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def score(self, lab: Lab) -> int:
        return sum(done.score for done in self.labs.get(lab.id, {}).values())

    def points(self, lab: Lab, todo: str) -> int:
        done = self.labs.get(lab.id, {}).get(todo)
        return done.score if done else 0

    def graded(self, report: Report) -> Progress:
        """This progress with a report's todos in it. A void run changes nothing."""
        if report.grader_error is not None:
            return self
        todos = {
            todo.id: TodoProgress(todo.score, todo.points, todo.status) for todo in report.todos
        }
        known = self.labs.get(report.lab, {})
        best = {
            name: known[name] if name in known and known[name].score > todo.score else todo
            for name, todo in todos.items()
        }
        return replace(self, labs={**self.labs, report.lab: {**known, **best}})

    def hinted(self, todo: str, count: int) -> Progress:
        return replace(self, hints={**self.hints, todo: count})

    def quizzed(self, lab: Lab, right: int, asked: int) -> Progress:
        """With the best record of a quiz: how many answers were right at the first try."""
        known = self.quizzes.get(lab.id, (0, 0))
        best = known if known[1] == asked and known[0] > right else (right, asked)
        return replace(self, quizzes={**self.quizzes, lab.id: best})

    def begun_again(self, lab: Lab) -> Progress:
        """Without the points of a lab whose stub was put back."""
        return replace(self, labs={name: of for name, of in self.labs.items() if name != lab.id})


@dataclass(frozen=True)
class Workspace:
    """A folder with tracks, labs and handbook in it; `root` is what `infralens init` made."""

    root: Path

    def file(self, lab: Lab) -> Path:
        return self.root / lab.track / lab.folder / lab.file

    @property
    def state(self) -> Path:
        return self.root / STATE


def find_workspace(start: Path) -> Workspace | None:
    """The workspace that `start` lies in: made by init, or the exercises of a checkout."""
    for folder in (start, *start.parents):
        if (folder / STATE).is_dir():
            return Workspace(folder)
        if (folder / "exercises" / "handbook").is_dir():
            return Workspace(folder / "exercises")
        if folder.name == "exercises" and (folder / "handbook").is_dir():
            return Workspace(folder)
    return None


def require_workspace(start: Path) -> Workspace:
    workspace = find_workspace(start)
    if workspace is None:
        raise NoWorkspaceError(
            f"{start} is in no workspace. "
            "Make one with `infralens init`, or name a file with --file."
        )
    return workspace


def init(folder: Path, more: Sequence[Place] = ()) -> tuple[Workspace, int, int]:
    """Copy the exercises, and those of `more` places, into `folder`; what is there is kept.

    Returns the workspace, how many files were written and how many were kept.
    """
    written = kept = 0
    sources = [place.exercises for place in (own_place(), *more)]
    for source, path in ((at, path) for at in sources for path in sorted(at.rglob("*"))):
        inside = path.relative_to(source)
        if not path.is_file() or {STATE, "__pycache__"} & set(inside.parts):
            continue
        target = folder / inside
        if write_new(folder, target, path.read_bytes()):
            written += 1
        else:
            kept += 1
    refuse_links(folder, folder / STATE)
    (folder / STATE).mkdir(parents=True, exist_ok=True)
    return Workspace(folder), written, kept


def read_progress(workspace: Workspace) -> tuple[Progress, str | None]:
    """The progress, and a sentence when a damaged file was kept aside and progress starts anew."""
    path = workspace.state / PROGRESS
    try:
        return _read(workspace), None
    except OSError as error:
        return Progress(), f"Your progress cannot be read ({error.strerror}): {path}."
    except DAMAGED:
        aside = free_name(path, f"damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        try:
            path.replace(aside)
        except OSError:
            return Progress(), f"Your progress file is damaged and cannot be moved: {path}."
        return Progress(), f"Your progress file was damaged; it is kept as {aside.name}."


def _read(workspace: Workspace) -> Progress:
    """The progress as it stands. ValueError and the like when it is damaged."""
    path = workspace.state / PROGRESS
    refuse_links(workspace.root, path)
    try:
        text = read_regular(path, MOST_PROGRESS_BYTES, follow=False).decode("utf-8")
    except FileNotFoundError:
        return Progress()
    return _parsed(json.loads(text))


def _parsed(data: dict[str, Any]) -> Progress:
    if data["schema"] != SCHEMA:
        raise ValueError("another schema")
    labs = {
        str(lab): {str(todo): _todo_progress(**entry) for todo, entry in todos.items()}
        for lab, todos in data["labs"].items()
    }
    hints = {str(todo): int(count) for todo, count in data["hints"].items()}
    return Progress(labs, hints, dict(map(_quiz_record, data.get("quizzes", {}).items())))


def _quiz_record(entry: tuple[str, Any]) -> tuple[str, tuple[int, int]]:
    lab, (right, asked) = entry
    return lab, (int(right), int(asked))


def _todo_progress(score: int, points: int, status: str) -> TodoProgress:
    if type(score) is not int or type(points) is not int or type(status) is not str:
        raise TypeError("scores are whole numbers, a status is a text")
    return TodoProgress(score, points, status)


@contextmanager
def updating(workspace: Workspace) -> Iterator[list[Progress]]:
    """Read, change and write the progress with no other grade in between.

    The block gets a list holding the progress and replaces its only item.
    """
    from filelock import FileLock, Timeout  # whoever only reads does not wait for it

    refuse_links(workspace.root, workspace.state / "lock")
    workspace.state.mkdir(parents=True, exist_ok=True)
    lock = FileLock(workspace.state / "lock", timeout=LOCK_SECONDS)
    try:
        with lock:
            _, damage = read_progress(workspace)  # moves a damaged file aside
            try:
                progress = _read(workspace)  # what cannot be read is not to be written over
            except DAMAGED:
                raise OSError(errno.EINVAL, damage) from None
            holder = [progress]
            yield holder
            if holder[0] != progress:
                document = {"schema": SCHEMA, **asdict(holder[0])}
                text = json.dumps(document, indent=2) + "\n"
                write_below(workspace.root, workspace.state / PROGRESS, text)
    except Timeout:
        raise OSError(f"another infralens holds {lock.lock_file}") from None


def record(workspace: Workspace, report: Report) -> str | None:
    """Keep a report's points. Returns a sentence when they could not be kept."""
    try:
        _, damage = read_progress(workspace)
        with updating(workspace) as progress:
            progress[0] = progress[0].graded(report)
    except OSError as error:
        return f"Your points were not kept: {error.strerror or error}."
    return damage


def backup_of(path: Path) -> Path:
    """A name beside `path` that is free: scheduler.backup-1.py, scheduler.backup-2.py, …"""
    return free_name(path, "backup")


def free_name(path: Path, word: str) -> Path:
    """`name.word-1.ending` beside `path`, or the first number that is free."""
    number = 1
    while os.path.lexists(candidate := path.with_name(f"{path.stem}.{word}-{number}{path.suffix}")):
        number += 1
    return candidate
