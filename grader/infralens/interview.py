"""Interview practice: questions, model answers, and the points that an answer should touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from infralens.documents import UnfitDocumentError, judge_of, read_yaml
from infralens.labs import BadLabError, Lab

SCHEMA = Path(__file__).resolve().parent / "interview.schema.json"
FILE = "interview.yaml"
MOST_BYTES = 1 << 20
POINTS = {"state": "state", "axis": "axis or shape", "trade-off": "trade-off"}


@dataclass(frozen=True)
class Practice:
    """One question. `about` is a lab's id or a page; `points` are (what kind, what to say)."""

    about: str
    asks: str
    answer: str
    points: tuple[tuple[str, str], ...]


def practice(labs: Iterable[Lab]) -> tuple[Practice, ...]:
    """Every question of the folders that these labs lie in. A folder may have none.

    BadLabError for a file that is not what its schema says.
    """
    found: list[Practice] = []
    for place in dict.fromkeys(lab.place for lab in labs):
        path = place.suites / FILE
        if not path.is_file():
            continue
        try:
            data = read_yaml(path, judge_of(SCHEMA), most_bytes=MOST_BYTES)
        except UnfitDocumentError as error:
            raise BadLabError(f"{path} cannot be read: {error}.") from None
        for entry in data["questions"]:
            points = tuple((name, entry[key].strip()) for key, name in POINTS.items())
            text = {key: " ".join(entry[key].split()) for key in ("asks", "answer")}
            found.append(Practice(entry["about"], text["asks"], text["answer"], points))
    return tuple(found)


def about_page(page: str, served: Iterable[str], every: Iterable[Practice]) -> tuple[Practice, ...]:
    """The questions about a page of the handbook, then those of the labs that it serves."""
    order = {name: number for number, name in enumerate((page, *served))}
    found = (one for one in every if one.about in order)
    return tuple(sorted(found, key=lambda one: order[one.about]))
