"""What a class came to: one row a submission, as CSV and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from infralens.course.cells import csv_text
from infralens.course.tally import Row
from infralens.regular import write_below

HEAD = (
    *("learner", "assignment", "lab", "points", "of", "state", "misconceptions", "todos"),
    *("seconds", "seed", "isolation", "notes", "file", "said"),
)


def write_summary(out: Path, rows: Sequence[Row], left: Sequence[tuple[str, str]]) -> None:
    """Write summary.csv and summary.json. `left` are files that are nobody's submission, and why.

    What a name holds besides letters is JSON's own escapes in the one, harmless text in the other.
    """
    table = csv_text(HEAD, (_columns(row) for row in rows))
    write_below(out, out / "summary.csv", table)
    data = {
        "schema": 1,
        "submissions": [asdict(row) for row in rows],
        "left_out": [{"file": file, "reason": reason} for file, reason in left],
    }
    write_below(out, out / "summary.json", json.dumps(data, indent=1) + "\n")


def _columns(row: Row) -> tuple[object, ...]:
    todos = " ".join(f"{mark.todo}:{mark.score}/{mark.points}" for mark in row.marks)
    return (
        *(row.learner, row.assignment, row.lab, row.score, row.max_score, row.state),
        *(" ".join(row.mistakes), todos, row.seconds, row.seed, row.isolation, row.notes),
        *(row.file, row.said),
    )
