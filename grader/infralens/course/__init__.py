"""A course: a whole class graded, and what of it is handed out and shown.

The names here are those that stand in nbgrader's configuration of a course, loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "release_passes": ("AuditRelease", "ClearAnswers", "ForTheExaminer", "ForTheLearner"),
    "autograde": ("Examine", "RestoreCells", "TolerantExporter"),
    "collecting": ("CollectByName",),
    "exchanging": ("CollectPlainFiles",),
    "exporting": ("ExportCsv",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
