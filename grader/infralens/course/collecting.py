"""`nbgrader zip_collect` of this kit's courses: whose a file is, as `infralens batch` reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from nbgrader.plugins import FileNameCollectorPlugin

from infralens.course.assigned import Assigned, assigned_in
from infralens.course.batch.finding import Submission, find
from infralens.course.batch.sources import Entry, FileEntry, Source, source_at
from infralens.labs import find_labs
from infralens.show.harmless import one_line

ARCHIVES = (".zip", ".gz")  # as nbgrader unpacks them, each into a folder of its own


@dataclass(frozen=True)
class Collected:
    """The file of each learner, by where it lies, and why the others are nobody's."""

    taken: dict[Path, Submission]
    left: dict[Path, str]


class CollectByName(FileNameCollectorPlugin):
    """Takes one notebook a learner; an instructor's own `named_regexp` is used in place of it."""

    _collected: Collected | None = None

    def collect(self, submitted_file: str) -> dict[str, Any] | None:
        """nbgrader's names for a file, or None where it is left out, which is told."""
        if self.named_regexp:
            named: dict[str, Any] | None = super().collect(submitted_file)
            return named
        if self._collected is None:
            self._collected = self._of_assignment()
        path = Path(submitted_file)
        found = self._collected.taken.get(path)
        if found is None:
            reason = self._collected.left.get(path, "it is no notebook of a learner's")
            self.log.warning("%s is left out: %s", one_line(path.name), one_line(reason))
            return None
        return {"student_id": found.learner, "file_id": Path(found.assignment.lab.file).stem}

    def _of_assignment(self) -> Collected:
        app, course = self.parent, Path(self.parent.coursedir.root)
        labs = [Path(folder) for folder in app.config.Examine.get("labs", [])]
        assigned = assigned_in(course, find_labs(labs)) or ()
        names = {each.name: each for each in assigned}

        def place(step: str) -> Path:
            """Where nbgrader keeps a step of this assignment, as its settings say."""
            told: str = app.collect_directory_structure.format(
                downloaded=app.downloaded_directory,
                assignment_id=app.coursedir.assignment_id,
                collect_step=step,
            )
            return course / told

        return collected(
            place(app.extracted_directory),
            place(app.archive_directory),
            assigned,
            names.get(app.coursedir.assignment_id),
        )


def collected(
    extracted: Path, archive: Path, assigned: tuple[Assigned, ...], only: Assigned | None
) -> Collected:
    """Sort out what nbgrader unpacked. What an archive held is read as `batch` reads the archive.

    Without `only`, the assignment is none of this kit's, and nothing is taken.
    """
    taken: dict[Path, Submission] = {}
    left: dict[Path, str] = {}
    firsts: dict[str, Submission] = {}
    for root, source in _sources(extracted, archive):
        found = find(source, assigned, only)
        left |= {root / path: reason for path, reason in found.left}
        for submission in found.submissions:
            path = root / submission.entry.path
            if only is None:
                left[path] = "the assignment is none of this kit's"
            elif not submission.learner:
                left[path] = "neither its name nor a folder says whose it is"
            elif submission.learner in firsts:
                left[path] = f"{firsts[submission.learner].entry.path} is taken"
            else:
                firsts[submission.learner] = taken[path] = submission
    return Collected(taken, left)


def _sources(extracted: Path, archive: Path) -> list[tuple[Path, Source]]:
    """What each archive held, and last the files that came as they are."""
    with source_at(extracted) as source:
        notebooks = [each for each in source.entries if each.path.lower().endswith(".ipynb")]
    unpacked = {_stem(path.name) for path in archive.iterdir() if path.suffix in ARCHIVES}
    parts: dict[str, list[Entry]] = {}
    for entry in notebooks:
        top, *inside = PurePosixPath(entry.path).parts
        own = top if inside and top in unpacked else ""
        path = PurePosixPath(*inside) if own else PurePosixPath(entry.path)
        assert isinstance(entry, FileEntry)
        parts.setdefault(own, []).append(replace(entry, path=path.as_posix()))
    ordered = sorted(parts, key=lambda name: (not name, name))
    found = [(extracted / name, Source(name, tuple(parts[name]))) for name in ordered]
    return [*found, (extracted, Source("", (), source.left))]


def _stem(name: str) -> str:
    """The folder that nbgrader unpacks an archive into."""
    stem = Path(name).stem
    return Path(stem).stem if Path(stem).suffix == ".tar" else stem
