"""`infralens.json` of a course: which lab each assignment is, its seed, its points."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, get_args

from infralens.documents import judge_of
from infralens.regular import read_regular, write_below

NAME = "infralens.json"
SCHEMA = Path(__file__).with_name("record.schema.json")
MOST_BYTES = 2**20
Tells = Literal["everything", "name", "points"]
TELLS_NAME = "INFRALENS_TELLS"  # the variable that says so in a notebook
TELLS: tuple[Tells, ...] = get_args(Tells)


class RecordError(ValueError):
    """An `infralens.json` that cannot be read or does not say what it must; the text says why."""


@dataclass(frozen=True)
class Assignment:
    """What a release decided for a class.

    `seed` draws the inputs of every grade, so that a regrade repeats it. `tells` says how much a
    check tells of a wrong answer. `points` are by todo, `explain` those of the explanation.
    """

    lab: str
    seed: int
    tells: Tells
    points: dict[str, int]
    explain: int = 0


@dataclass(frozen=True)
class Record:
    """The whole file: the kit's version and the assignments by name."""

    kit: str
    assignments: dict[str, Assignment] = field(default_factory=dict)


def read_record(course: Path) -> Record | None:
    """The record of a course; None where none was written yet."""
    try:
        data = json.loads(read_regular(course / NAME, MOST_BYTES))
        judge_of(SCHEMA)(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordError(f"{course / NAME} cannot be read: {reason}.") from None
    known = {name: Assignment(**entry) for name, entry in data["assignments"].items()}
    return Record(data["kit"], known)


def write_record(course: Path, record: Record) -> None:
    """Write the file, whole."""
    text = json.dumps({"schema": 1, **asdict(record)}, indent=2, ensure_ascii=False)
    write_below(course, course / NAME, text + "\n")
