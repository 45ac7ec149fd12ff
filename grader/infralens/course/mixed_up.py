"""Whether a notebook was made for another lab than the one it lies under."""

from __future__ import annotations

import json

from infralens.course.outputs import EXAMINED
from infralens.show.harmless import one_line


def lab_named_in(data: bytes) -> object:
    """What a notebook says its lab is; None where it says nothing, or is none."""
    if len(data) > EXAMINED:
        return None
    try:
        return json.loads(data.decode("utf-8-sig"))["metadata"]["infralens"]["lab"]
    except (ValueError, KeyError, TypeError, RecursionError, MemoryError):
        return None


def of_another_lab(lab: object, asked: str) -> str:
    """What to say where a notebook names a lab that was not asked for; "" where it does not.

    Who wrote its own answers into it is paid for them, so that this is no verdict.
    """
    if not isinstance(lab, str) or lab == asked:
        return ""
    return f"What was handed in is the notebook of {one_line(lab)}, not of {asked}."
