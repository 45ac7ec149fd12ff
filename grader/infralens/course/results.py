"""One result a learner and assignment: a file of JSON, written whole, wherever it was graded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from infralens.regular import read_regular, write_below
from infralens.report import Report

SCHEMA = 1
MOST_BYTES = 64 << 20
PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
LONGEST_NAME = 40
REPORTS = Path(".infralens") / "reports"  # below a course's folder


@dataclass(frozen=True)
class Result:
    """What came of one submission.

    `learner`, `assignment` and `file` are names as they were found, so they may hold anything.
    `code` is the digest of the code without comments and blanks. `key` says what the verdict rests
    on: where it is the same, it need not be given again. Points are those of the lab; a course's
    own are put in when they are shown. `refused` is why there was nothing to grade, `remark` what
    an instructor should know where points are missing.
    """

    learner: str
    assignment: str
    lab: str
    file: str
    sha256: str
    code: str
    key: str
    kit: str
    report: Report | None
    refused: str | None = None
    remark: str = ""
    schema: int = SCHEMA

    @property
    def final(self) -> bool:
        """Whether it was judged: a grader that failed says nothing about the submission."""
        return self.report is None or self.report.grader_error is None

    def to_json(self) -> str:
        """One JSON document for any strict reader. The report in it is as `grade` prints it."""
        report = None if self.report is None else json.loads(self.report.to_json())
        fields = asdict(replace(self, report=None))
        return json.dumps({"schema": fields.pop("schema"), **fields, "report": report}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """The result that `to_json` wrote. ValueError when it is something else."""
        try:
            data = json.loads(text)
            report = data.pop("report")
            read = None if report is None else Report.from_json(json.dumps(report))
            result = cls(**data, report=read)
            names = (result.learner, result.assignment, result.lab, result.file)
            fields = (*names, result.key, result.remark)
            if not all(isinstance(field, str) for field in fields) or result.schema != SCHEMA:
                raise ValueError("this is no result of InfraLens")
            return result
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"this is no result of InfraLens: {error}") from error


def key_of(sha256: str, kit: str, lab: str, seed: int, isolation: str, device: str = "cpu") -> str:
    """What a verdict rests on, as one digest."""
    words = (sha256, kit, lab, str(seed), isolation, device)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def place_of(root: Path, assignment: str, learner: str) -> Path:
    """Where a learner's result lies below `root`. No name leads out of it, and no two meet there.

    Names that are told apart only by their case, or by what a file's name cannot hold, are too.
    """
    return root / _plain(assignment) / f"{_plain(learner)}.json"


def _plain(name: str) -> str:
    data = name.encode("utf-8", "backslashreplace")
    shown = PLAIN.sub("_", name)[:LONGEST_NAME].strip("_")
    return f"{shown or 'x'}-{hashlib.sha256(data).hexdigest()[:10]}"


def write_result(root: Path, result: Result) -> Path:
    """Write a result whole, in the place of an earlier one. No link is followed below `root`."""
    path = place_of(root, result.assignment, result.learner)
    write_below(root, path, result.to_json() + "\n")
    return path


def read_result(root: Path, assignment: str, learner: str) -> Result | None:
    """The result of this learner. None where there is none, or a file that holds something else."""
    return _read(place_of(root, assignment, learner))


def read_results(root: Path) -> Iterator[Result]:
    """Every result below `root`, by assignment and learner; what is no result is passed over."""
    read = (_read(path) for path in sorted(root.glob("*/*.json")))
    yield from sorted(
        (result for result in read if result is not None),
        key=lambda result: (result.assignment, result.learner),
    )


def _read(path: Path) -> Result | None:
    try:
        result = Result.from_json(read_regular(path, MOST_BYTES, follow=False).decode("utf-8"))
    except (OSError, ValueError):
        return None
    here = place_of(path.parent.parent, result.assignment, result.learner)
    return result if here == path else None  # a copy by another name would count twice
