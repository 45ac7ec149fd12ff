"""The share of a day: what it takes, and that none is left out for ever."""

from __future__ import annotations

import datetime
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import share
from infralens.labs import find_labs

NAMES = [f"case {number}" for number in range(23)]


@pytest.mark.parametrize("of", [2, 3, 5])
def test_as_many_days_as_there_are_parts_take_everything_once(of: int) -> None:
    first = datetime.date.fromordinal(of * 147_000)
    days = [first + datetime.timedelta(days=number) for number in range(of)]
    parts = [share.Share(day).part(of, NAMES) for day in days]
    assert sorted(name for part in parts for name in part) == sorted(NAMES)
    assert share.Share(days[0]).part(of, reversed(NAMES)) == parts[0]
    assert share.Share(days[-1] + datetime.timedelta(days=1)).part(of, NAMES) != parts[0]


def test_everything_is_everything() -> None:
    assert share.Share.named("all").part(5, NAMES) == frozenset(NAMES)


def test_a_changed_lab_is_proven_whole_and_one_without_a_record_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "PROVEN", tmp_path / "proven.json")
    known = find_labs()[0]
    suite = tmp_path / "suite"
    shutil.copytree(known.suite, suite, ignore=shutil.ignore_patterns("__pycache__"))
    lab, day = replace(known, suite=suite), share.Share.named("2026-11-30")
    assert not share.whole(day, lab)
    share.record([lab])
    assert not share.whole(day, lab)
    assert share.whole(share.Share.named("all"), lab)
    (suite / "lab.yaml").open("a", encoding="utf-8").write("\n")
    assert share.whole(day, lab)


def test_a_few_wrong_answers_of_a_lab_cross_at_the_levels_in_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(share, "PROVEN", tmp_path / "proven.json")
    lab, days = find_labs()[0], [share.Share.named(f"2026-11-{day}") for day in range(10, 30)]
    drawn = [share.crossing(day, lab, NAMES) for day in days]
    for day, few in zip(days, drawn, strict=True):
        assert few.keys() <= day.part(share.WRONG, NAMES)
        assert list(few.values()) == ["process", "auto", "process"]
    assert len(set().union(*drawn)) > len(NAMES) / 2
    more = share.crossing(share.Share.named("all"), lab, NAMES)
    assert len(more) == share.CROSSING_OF_ALL
    assert more.keys() <= set(NAMES)


def attacked(name: str, level: str, *, control: bool = False, small: bool = True) -> Any:
    """A test that sets an attack at the grader, as the share sees it."""
    attack = SimpleNamespace(path=Path(f"{name}.py"), is_control=control, applies_to=())
    lab = find_labs()[0]
    return SimpleNamespace(
        originalname="test_the_grader_survives",
        name=f"test_the_grader_survives[{level} {name}]",
        path=Path(f"test_{level}_level.py"),
        callspec=SimpleNamespace(
            params={"attack": attack, "lab": replace(lab, id="attacks/lab-01") if small else lab}
        ),
    )


def test_what_is_made_once_for_many_tests_keeps_them_on_one_worker() -> None:
    mark = SimpleNamespace(args=("pictures",))
    marked = SimpleNamespace(get_closest_marker=lambda name: mark)
    plain = SimpleNamespace(get_closest_marker=lambda name: None, fixturenames=["workshop"])
    found: list[Any] = [marked, plain]
    assert [share.group_of(item) for item in found] == ["pictures", "workshop"]


def test_every_control_and_a_fifth_of_the_attacks_are_tried_at_one_level_a_day() -> None:
    levels = ("process", "sandbox")
    items = [attacked(f"attack_{n}", level) for n in range(10) for level in levels]
    items += [attacked(f"control_{n}", level, control=True) for n in range(4) for level in levels]
    real = [attacked("elsewhere", level, control=True, small=False) for level in levels]
    first = datetime.date.fromordinal(10 * 73_000)
    taken: Counter[str] = Counter()
    for number in range(10):
        day = share.Share(first + datetime.timedelta(days=number))
        kept, left = share.shared_out(items, day)
        assert len(kept) == 2 + 4
        assert len(kept) + len(left) == len(items)
        taken.update(item.name for item in kept)
    assert taken == Counter(
        {item.name: 5 if "control" in item.name else 1 for item in items},
    )
    assert share.shared_out(items, share.Share.named("all"))[0] == items
    days = [share.Share(first + datetime.timedelta(days=number)) for number in range(10)]
    assert sum(len(share.shared_out(real, day)[0]) for day in days) == 2


def test_the_runner_keeps_a_group_on_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist tells its scheduler by the names of tests: it did nothing with pytest 9.2."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("this run keeps no groups: --dist loadgroup does")
    for item in request.session.items:
        group = item.get_closest_marker("xdist_group")
        kept = group is None or item.nodeid.endswith(f"@{group.args[0]}")
        assert kept, f"{item.nodeid}: install what constraints.txt pins"
