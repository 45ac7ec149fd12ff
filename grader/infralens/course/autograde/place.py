"""Where a pass of nbgrader's stands: in which course."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class NotExaminedError(RuntimeError):
    """A submission has no verdict, and no points; the text says why."""


def course_of(configured: Any) -> Path:
    """The course folder of a converter's exporter, or of one of its passes."""
    while configured is not None and getattr(configured, "coursedir", None) is None:
        configured = configured.parent
    if configured is None:
        raise NotExaminedError("this pass is no part of nbgrader autograde")
    return Path(configured.coursedir.root)
