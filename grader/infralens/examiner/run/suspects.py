"""Answers that no assertion has passed yet, and what of ours they can reach.

Until an assertion has passed an answer's kind, type, shape, dtype and finiteness, what breaks with
it in reach is the submission's fault. A reference that breaks without one in reach is our own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor

SHARED = (bool, int, str, bytes, tuple, type(None))  # of which equal ones may be one object
PLAINLY = (CellType, FunctionType, functools.partial, list, tuple)
MOST_SEEN = 20_000  # objects that are looked at; beyond, what is not found counts as found


class Suspects:
    """What came from the submission in this run of a check and has not been passed."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}  # kept alive, so that an id stays one object's
        self._storages: dict[int, int] = {}

    def received(self, *values: Any) -> None:
        """These came from the submission, or were in its hands."""
        for part in _parts(values):
            if isinstance(part, Tensor) and id(part) not in self._held:
                place = _storage(part)
                self._storages[place] = self._storages.get(place, 0) + 1
            self._held[id(part)] = part

    def passed(self, answer: Any) -> None:
        """An assertion has looked at this and found it to be what it must be."""
        for part in _parts((answer,)):
            known = self._held.pop(id(part), None)
            if isinstance(known, Tensor):
                self._storages[_storage(known)] -= 1

    def within_reach_of(self, *ours: Any) -> bool:
        """Whether one of them can be got at from here: a closure, arguments, a lent object."""
        if not self._held:
            return False
        seen: set[int] = set()
        waiting = [(value, True) for value in ours]
        while waiting:
            value, plainly = waiting.pop()
            if id(value) in seen and not (plainly and isinstance(value, SHARED)):
                continue
            seen.add(id(value))
            if len(seen) > MOST_SEEN:
                return True
            # One None is every None: those that objects of ours hold are not the submission's.
            if id(value) in self._held and (plainly or not isinstance(value, SHARED)):
                return True
            if isinstance(value, Tensor):
                if self._storages.get(_storage(value), 0) > 0:
                    return True
                continue
            plainly = plainly and isinstance(value, PLAINLY)
            waiting.extend((held, plainly) for held in _within(value))
        return False


def _storage(tensor: Tensor) -> int:
    """Where its numbers lie, which it shares with its views; its own id where there are none."""
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except (NotImplementedError, RuntimeError):  # sparse
        return id(tensor)


def _parts(values: Any) -> Iterator[Any]:
    """The values and everything in the lists, tuples and dicts among them."""
    waiting, seen = list(values), 0
    while waiting and seen < MOST_SEEN:
        value, seen = waiting.pop(), seen + 1
        yield value
        if isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())


def _within(value: Any) -> Iterator[Any]:
    """What a value of ours holds; modules and classes are everybody's, and hold nothing."""
    if isinstance(value, CellType):
        try:
            yield value.cell_contents
        except ValueError:  # empty yet
            return
    elif isinstance(value, FunctionType):
        yield from value.__closure__ or ()
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
    elif isinstance(value, MethodType):
        yield value.__self__
        yield value.__func__
    elif isinstance(value, functools.partial):
        yield value.func
        yield from value.args
        yield from value.keywords.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif not isinstance(value, type | ModuleType | str | bytes | int | float):
        # Not by plain access: a handle would ask the submission.
        try:
            held = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if isinstance(held, dict) and "_link" not in held:
            yield from held.values()
