"""The share of the tests that one run takes: what is left out today is run on another day.

A share is drawn by a date, and named by it: `--share 2026-11-30` takes that day's again. Every
case of a kind comes up within as many days as the kind has parts. `--share all` leaves out none.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from infralens.labs import Lab, find_labs

T = TypeVar("T")
ALL = "all"
TESTS = Path(__file__).resolve().parent
LABS = {lab.id: lab for lab in find_labs()}
PROVEN = TESTS / "proven.json"
MISCONCEPTIONS, WRONG, ATTACKS, DIRECTIONS = 3, 2, 5, 2  # one part in so many is taken
PICTURES, REMEMBERED, FRONT_ENDS = 3, 3, 2
TOGETHER = 2  # labs that one examiner grades in turn
FIGURES, CHEAP_FIGURES = 10, ("spacings", "dissolving")
CROSSING = 3  # wrong answers of each lab
CROSSING_OF_ALL = 10  # the same in a run of everything
# These take the longest, so they begin first: two workers are to end together.
DEAREST = (
    "diffusers/lab-10",
    "diffsynth/lab-10",
    "diffusers/lab-08",
    "diffusers/lab-06",
    "diffusers/lab-09",
    "workshop",
    "autograde",
)


@dataclass(frozen=True)
class Share:
    """A day's share, or all."""

    day: datetime.date | None

    @classmethod
    def named(cls, text: str) -> Share:
        return cls(None if text == ALL else datetime.date.fromisoformat(text))

    @property
    def crossing(self) -> int:
        """How many wrong answers of a lab go to a process of their own."""
        return CROSSING_OF_ALL if self.day is None else CROSSING

    def part(self, of: int, names: Iterable[str]) -> frozenset[str]:
        """One part in `of` of these; so many days in a row take every one of them."""
        known = sorted(names)
        if self.day is None:
            return frozenset(known)
        number, turn = divmod(self.day.toordinal(), of)
        random.Random(number).shuffle(known)
        return frozenset(known[turn::of])


def contents(lab: Lab) -> str:
    """What a lab is made of, as one number: its suite, its solution and its variants."""
    assert lab.solution is not None
    variants = TESTS / "variants" / lab.track / lab.name.replace("-", "_")
    total = hashlib.sha256()
    for folder in (lab.suite, lab.solution.parent, variants):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                total.update(f"{path.relative_to(folder).as_posix()}\0".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def recorded() -> dict[str, str]:
    """The contents of each lab when `--share all` last passed; empty before it ever did."""
    return json.loads(PROVEN.read_text(encoding="ascii")) if PROVEN.is_file() else {}


def record(labs: Sequence[Lab]) -> None:
    """Write down that everything passed with the labs as they are."""
    found = {lab.id: contents(lab) for lab in labs}
    PROVEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="ascii")


def whole(share: Share, lab: Lab) -> bool:
    """Whether all of a lab is proven: in a run of everything, and when it was changed."""
    known = recorded().get(lab.id)
    return share.day is None or (known is not None and known != contents(lab))


def crossing(share: Share, lab: Lab, wrong: Sequence[str]) -> dict[str, str]:
    """The wrong answers of a lab that go to a process of their own, and the level of each.

    The examiner runs the others itself, in a run of everything too: they are edits of our own.
    """
    taken = sorted(wrong if whole(share, lab) else share.part(WRONG, wrong))
    drawn = random.Random((share.day or datetime.date.today()).toordinal())
    taken = drawn.sample(taken, min(share.crossing, len(taken)))
    return {name: ("process", "auto")[turn % 2] for turn, name in enumerate(taken)}


@dataclass(frozen=True)
class Case:
    """One test of a kind that is shared out."""

    kind: str
    name: str
    of: int
    lab: Lab | None = None
    always: bool = False


def case_of(item: pytest.Item) -> Case | None:
    """What a test counts as in the share; None for what every run takes."""
    name = getattr(item, "originalname", item.name)
    given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    lab = given.get("lab")
    if name == "test_a_right_answer_written_differently_gets_full_marks":
        right = len(list(given["path"].parent.glob("*.py")))
        return Case(f"right variants of {lab.id}", given["path"].stem, right, lab)
    if name == "test_a_wrong_answer_loses_its_todo":
        return Case(f"wrong edits of {lab.id}", given["wrong"].entry, WRONG, lab)
    if name == "test_answers_remembered_by_their_shapes_earn_nothing":
        return Case("labs with remembered answers", lab.id, REMEMBERED, lab)
    if name == "test_a_lab_s_picture_is_drawn_and_a_misconception_changes_it":
        return Case("pictures", given["name"], PICTURES, LABS[given["name"]])
    if name == "test_a_check_cell_shows_its_verdict":
        return Case("front ends", given["place"], FRONT_ENDS)
    if name == "test_every_solution_passes_in_one_examiner":
        return Case("directions", item.name, DIRECTIONS)
    if name == "test_a_figure_is_what_its_code_draws":
        return Case("figures", given["name"], FIGURES, always=given["name"] in CHEAP_FIGURES)
    if name == "test_the_grader_survives":
        attack = given["attack"]
        # A control that stands beside the attacks on the small lab does so on every day.
        always = attack.is_control and (lab.track == "attacks" or bool(attack.applies_to))
        return Case("attacks", f"{lab.id} {attack.path.stem}", ATTACKS, always=always)
    return None


def group_of(item: pytest.Item) -> str | None:
    """Tests of one group run on one worker: what is dear is made once for them.

    That is the examiner that is warm for a lab, that of the small labs which tests of the machinery
    make (in the fixture `workshop`), and what a module with a mark of its own makes for its tests.
    """
    marked = item.get_closest_marker("xdist_group")
    if marked is not None:
        return str(marked.args[0])
    if "workshop" in getattr(item, "fixturenames", ()):
        return "workshop"
    lab = getattr(getattr(item, "callspec", None), "params", {}).get("lab")
    if not isinstance(lab, Lab):
        return None
    if item.path.parent.name == "attacks":
        level = item.path.stem.removeprefix("test_").removesuffix("_level")
        return f"attacks on {'the small lab' if lab.track == 'attacks' else 'labs'}, {level}"
    return lab.id


def shared_out(
    items: Sequence[pytest.Item], share: Share
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that this share takes, and those that it leaves out."""
    cases = [(item, case_of(item)) for item in items]
    names: dict[tuple[str, int], set[str]] = {}
    labs: dict[str, bool] = {}
    levels = Counter(case.name for _, case in cases if case and case.kind == "attacks")
    for _, case in cases:
        if case is not None and not case.always:
            names.setdefault((case.kind, case.of), set()).add(case.name)
    parts = {key: share.part(key[1], known) for key, known in names.items()}

    def taken(item: pytest.Item, case: Case | None) -> bool:
        if case is None or share.day is None:
            return True
        if case.lab is not None:
            if case.lab.id not in labs:
                labs[case.lab.id] = whole(share, case.lab)
            if labs[case.lab.id]:
                return True
        if case.kind == "attacks" and levels[case.name] > 1 and _level(item) != _day_level(case):
            return False
        return case.always or case.name in parts[case.kind, case.of]

    def _day_level(case: Case) -> str:
        """The one level at which it is tried this time, of two: the other one next time."""
        assert share.day is not None
        turn = share.day.toordinal() // (1 if case.always else case.of)
        odd = hashlib.sha256(case.name.encode()).digest()[0]
        return ("process", "sandbox")[(turn + odd) % 2]

    kept = [item for item, case in cases if taken(item, case)]
    left = set(map(id, items)) - set(map(id, kept))
    return kept, [item for item in items if id(item) in left]


def _level(item: pytest.Item) -> str:
    return item.path.stem.removeprefix("test_").removesuffix("_level")


def in_order(items: list[pytest.Item], group: Callable[[pytest.Item], str | None]) -> None:
    """The dearest labs first, then what takes minutes, other groups, and seconds last."""

    def rank(item: pytest.Item) -> tuple[int, str]:
        name = group(item)
        if name in DEAREST:
            return DEAREST.index(name), ""
        if name is not None:
            return len(DEAREST) + 1, name
        minutes = item.get_closest_marker("minutes") is not None
        return len(DEAREST) + (0 if minutes else 2), ""

    items.sort(key=rank)


def said_of(left: Counter[str], share: Share, labs: Sequence[Lab]) -> str:
    """What was left out, in a line."""
    if share.day is None:
        return "share all: nothing was left out."
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(left.items()))
    changed = [lab.id for lab in labs if whole(share, lab)]
    more = f" Changed, so proven whole: {', '.join(changed)}." if changed else ""
    never = sum(lab.id not in recorded() for lab in labs)
    unknown = f" No whole proof is recorded of {never} labs." if never else ""
    some = "two in three misconceptions of a lab"
    return f"share {share.day}: left out {kinds}, {some}.{more}{unknown}"


def kind_left(item: pytest.Item) -> str:
    """The plain name of a kind, for counting what was left out."""
    case = case_of(item)
    return case.kind.partition(" of ")[0] if case else "others"


def today() -> str:
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()
