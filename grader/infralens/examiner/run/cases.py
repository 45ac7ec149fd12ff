"""One case of one check: a test function of a suite with one set of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CANARY = Path(__file__).with_name("canary.py")
GIVEN = ("candidate", "draw", "device")  # what a run has for a check; `request` is pytest's own
MARKS = ("todo", "parametrize")  # any other asks pytest for something


@dataclass(frozen=True, eq=False)
class Case:
    """What is run, what of it a run has to give, and what it is known by."""

    id: str  # "test_x.py::test_y[case]": the inputs are drawn by it
    name: str
    check: str
    title: str
    todo: str
    guards: str
    again: bool
    is_canary: bool
    function: Callable[..., Any]
    given: tuple[str, ...]
    params: dict[str, Any]


def case_of(item: pytest.Item) -> Case:
    """A collected item as a case."""
    mark = item.get_closest_marker("todo")
    told = mark.kwargs if mark else {}
    function = getattr(item, "obj", None)
    check = getattr(item, "originalname", item.name)
    params = dict(getattr(getattr(item, "callspec", None), "params", {}))
    names = getattr(getattr(item, "_fixtureinfo", None), "argnames", ())
    return Case(
        id=case_id(item),
        name=item.name,
        check=check,
        title=(inspect.getdoc(function) or check).strip().splitlines()[0],
        todo=str(mark.args[0]) if mark and mark.args else "",
        guards=str(told.get("guards", "")),
        again=bool(told.get("again", True)),
        is_canary=Path(item.path) == CANARY,
        function=function or _nothing,
        given=tuple(name for name in names if name not in params),
        params={name: value for name, value in params.items() if name in names},
    )


def case_id(item: pytest.Item) -> str:
    """Its file and its name."""
    return f"{Path(item.path).name}::{item.name}"


def runs_alone(item: pytest.Item) -> bool:
    """Whether it can be run without a pytest session.

    A function with parameters of its own and what a run gives, which nothing skips or surrounds.
    """
    if not isinstance(item, pytest.Function) or item.cls is not None:
        return False
    if any(mark.name not in MARKS for mark in item.iter_markers()):
        return False
    known = {*GIVEN, "request", *_parameters(item)}
    return set(item.fixturenames) <= known and all(
        len(item._fixtureinfo.name2fixturedefs.get(name, ())) == 1
        for name in GIVEN
        if name in item.fixturenames
    )


def _parameters(item: pytest.Item) -> Iterator[str]:
    """The names that its marks give values to; not those of fixtures that take the values."""
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        if mark.kwargs.get("indirect"):
            continue
        listed = names.split(",") if isinstance(names, str) else names
        yield from (name.strip() for name in listed)


def _nothing() -> None:
    """What an item is that has no function."""
