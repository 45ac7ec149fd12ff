"""Finding what a class handed in: which file is whose, and for which assignment.

One rule serves every layout. The assignment is named by a folder (`lab-03`, `diffsynth-lab-04`, or
a lab's own folder) or by the file (`scheduler.py`, `ada_scheduler.py`, `ada-lab-03.ipynb`); the
first folder that names no assignment and no track is the learner; without one, what is left of the
file's name is. So nbgrader's LEARNER/ASSIGNMENT/FILE is read as well as a folder a learner, or a
workspace in it, as plain files, and as all this in a zip.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from infralens.course.assigned import Assigned
from infralens.course.batch.sources import Entry, Source

SUFFIXES = (".py", ".ipynb")
SUPPLIED = {"submitted", "submissions", "exercises"}  # folders that are nobody's name
NOBODYS = {".ipynb_checkpoints", ".infralens", ".git", ".venv", "__pycache__", "__MACOSX"}
BETWEEN = "-_ .()[]"  # what stands between the parts of a file's name
COPY = re.compile(r"[ _-]?\(\d{1,2}\)$|-\d{1,2}$")  # `scheduler (1).py`, `scheduler-2.py`


@dataclass(frozen=True)
class Submission:
    """One file of one learner for one assignment."""

    learner: str
    assignment: Assigned
    entry: Entry


@dataclass(frozen=True)
class Found:
    """The submissions, one a learner and assignment, and why other files are not among them."""

    submissions: tuple[Submission, ...]
    left: tuple[tuple[str, str], ...]  # (path, reason)


def find(source: Source, assignments: Sequence[Assigned], only: Assigned | None) -> Found:
    """Sort out the files of a class. With `only`, all are of this assignment.

    The source names the learner where nothing in it does, as it is for a single workspace.
    """
    choices: dict[tuple[str, str], list[tuple[int, Submission]]] = {}
    left = list(source.left)
    names = _Names(assignments)
    for entry in source.entries:
        path = PurePosixPath(entry.path)
        if path.suffix.lower() not in SUFFIXES or _is_nobodys(path):
            continue
        if any(part.startswith(".") for part in path.parts):
            left.append((entry.path, "it is hidden"))
            continue
        learner, by_folder = "", None
        for part in path.parent.parts:
            if (named := names.of_folder(part)) is not None:
                by_folder = named
            elif not learner and part.lower() not in names.tracks | SUPPLIED:
                learner = part
        by_name, rest = names.of_file(path.name)
        named = by_folder or by_name
        assignment = only or named
        if assignment is None:
            left.append((entry.path, "it names no assignment"))
            continue
        if named not in (None, assignment):
            left.append((entry.path, f"it is of {named.name}"))
            continue
        own = by_name is assignment
        if not learner:
            learner = rest if own else path.stem
        submission = Submission(learner or source.name, assignment, entry)
        rank = _rank(path, assignment, own)
        choices.setdefault((submission.learner, assignment.name), []).append((rank, submission))
    taken = []
    for ranked in choices.values():
        ranked.sort(key=lambda each: (each[0], each[1].entry.path))
        (best, first), *others = ranked
        taken.append(first)
        for rank, other in others:
            doubt = ", though both may be meant" if rank == best else ""
            left.append((other.entry.path, f"{first.entry.path} is taken{doubt}"))
    taken.sort(key=lambda each: (each.assignment.name, each.learner))
    return Found(tuple(taken), tuple(left))


EXACT, NOTEBOOK, LIKELY, ANY = range(4)


def _rank(path: PurePosixPath, assignment: Assigned, own: bool) -> int:
    """How surely a file is the submission, and no helper beside it."""
    if path.name == assignment.lab.file:
        return EXACT
    stems = (assignment.name, PurePosixPath(assignment.lab.file).stem, assignment.lab.name)
    if path.suffix == ".ipynb" and path.stem in stems:
        return NOTEBOOK
    return LIKELY if own else ANY


class _Names:
    """What folders and files may be called, and which assignment each name is of."""

    def __init__(self, assignments: Sequence[Assigned]) -> None:
        self.tracks = {each.lab.track for each in assignments}
        self._folders: dict[str, Assigned] = {}
        self._files: dict[str, Assigned] = {}
        for each in assignments:
            stem = PurePosixPath(each.lab.file).stem
            for name in (each.name, each.lab.folder):
                self._add(self._folders, name, each)
            for name in (each.name, each.lab.folder, stem):
                self._add(self._files, name, each)
        # The longest first: diffsynth-lab-04 ends with lab-04.
        self._endings = sorted(self._files, key=len, reverse=True)

    @staticmethod
    def _add(names: dict[str, Assigned], name: str, of: Assigned) -> None:
        names.setdefault(name.lower(), of)

    def of_folder(self, name: str) -> Assigned | None:
        return self._folders.get(name.lower())

    def of_file(self, name: str) -> tuple[Assigned | None, str]:
        """The assignment that a file's name ends or begins with, and what is left of the name."""
        stem = PurePosixPath(name).stem
        for told in (stem, COPY.sub("", stem)):
            low = told.lower()
            for ending in self._endings:
                if low == ending:
                    return self._files[ending], ""
                before, after = told[: -len(ending)], told[len(ending) :]
                if low.endswith(ending) and before[-1:] in BETWEEN:
                    return self._files[ending], before.rstrip(BETWEEN)
                if low.startswith(ending) and after[:1] in BETWEEN:
                    return self._files[ending], after.lstrip(BETWEEN)
        return None, stem


def _is_nobodys(path: PurePosixPath) -> bool:
    """Whether a program wrote it, and no learner."""
    return bool(NOBODYS & set(path.parts)) or path.name.startswith("._")
