"""Two recordings of a lab, value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from infralens.drift.recording import Recording
from infralens.examiner.compare.describe import number
from infralens.examiner.compare.same import same_answer
from infralens.examiner.compare.tolerance import distance, float64

EQUAL, ROUNDING, DIFFERENT = "equal to the bit", "within rounding", "different"
RAISED, APPEARED, VANISHED = "raised", "appeared", "vanished"
KINDS = (EQUAL, ROUNDING, DIFFERENT, RAISED, APPEARED, VANISHED)
MOST = 60  # characters of a value
LED_BY = 12  # characters that two texts share, before what they do not


@dataclass(frozen=True)
class Change:
    """One value that changed; `comparison` counts those of a case from 1."""

    kind: str
    case: str
    comparison: int | None
    text: str

    @property
    def where(self) -> str:
        """The case without its file, and which comparison of it."""
        _, _, case = self.case.partition("::")
        return case if self.comparison is None else f"{case}, comparison {self.comparison}"


@dataclass(frozen=True)
class Drift:
    """What became of the values of one lab: how many of each kind, and those that changed."""

    counts: dict[str, int] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


def compared(old: Recording, new: Recording) -> Drift:
    """What changed. A check that fails in one release ends there: what follows is not compared."""
    counts: Counter[str] = Counter()
    changes: list[Change] = []
    for place in sorted(old.heard.keys() | new.heard.keys()):
        case, _, index = place
        if place in old.heard and place in new.heard:
            kind, text = judged(old.heard[place], new.heard[place])
        elif case in old.failed or case in new.failed:
            continue
        else:
            kind = VANISHED if place in old.heard else APPEARED
            text = brief((old if place in old.heard else new).heard[place])
        counts[kind] += 1
        if kind not in (EQUAL, ROUNDING):
            changes.append(Change(kind, case, index or None, text))
    seen = {change.case for change in changes}
    for case in sorted((old.failed.keys() | new.failed.keys()) - seen):  # else it is told already
        before, after = (of.failed.get(case, "all is well") for of in (old, new))
        said = f"{before} → {after}" if before != after else f"in both, so not compared: {before}"
        counts[RAISED] += 1
        changes.append(Change(RAISED, case, None, said))
    return Drift({kind: counts[kind] for kind in KINDS}, tuple(changes))


def judged(old: Any, new: Any) -> tuple[str, str]:
    """Of which kind two values are, and in a line what is different, where something is."""
    parts = list(_unlike(old, new, ""))
    if not parts:
        return EQUAL, ""
    if same_answer(old, new, 0.0):
        return ROUNDING, ""
    worst = next((part for part in parts if not same_answer(part[1], part[2], 0.0)), parts[0])
    return DIFFERENT, _told(*worst)


def _unlike(old: Any, new: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """The parts of two values that are not the same to the bit."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            yield from _unlike(old[key], new[key], f"{where}[{key!r}]")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _unlike(one, other, f"{where}[{place}]")
    elif not _same_bits(old, new):
        yield where, old, new


def _same_bits(old: Any, new: Any) -> bool:
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        alike = old.shape == new.shape and old.dtype == new.dtype
        return alike and torch.equal(_bits(old), _bits(new))
    return type(old) is type(new) and (old == new or repr(old) == repr(new))  # NaN is NaN


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _told(where: str, old: Any, new: Any) -> str:
    place = f"{where}: " if where else ""
    if brief(old) != brief(new) or not isinstance(old, Tensor) or old.is_complex():
        return f"{place}{_pair(old, new)}"
    before, after = float64(old), float64(new)
    finite = before.isfinite()
    if not torch.equal(finite, after.isfinite()) or not finite.any():
        return f"{place}other numbers are not finite"
    gap, largest = distance(before[finite], after[finite]), float(before[finite].abs().max())
    return f"{place}off by up to {number(gap)}, of values up to {number(largest)}"


def _pair(old: Any, new: Any) -> str:
    """Two values in a few words; two long texts from shortly before they part."""
    if isinstance(old, str) and isinstance(new, str):
        pairs = enumerate(zip(old, new, strict=False))
        shared = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
        if shared > MOST // 2:
            old, new = (f"…{text[shared - LED_BY :]}" for text in (old, new))
    return f"{brief(old)} → {brief(new)}"


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= MOST else f"{text[:MOST]}…"
