"""Where a pass of nbgrader's stands: in which course, under which exporter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infralens.course.autograde.exporter import TolerantExporter


class NotExaminedError(RuntimeError):
    """A submission has no verdict, and no points; the text says why."""


def course_of(configured: Any) -> Path:
    """The course folder of a converter's exporter, or of one of its passes."""
    while configured is not None and getattr(configured, "coursedir", None) is None:
        configured = configured.parent
    if configured is None:
        raise NotExaminedError("this pass is no part of nbgrader autograde")
    return Path(configured.coursedir.root)


def exporter_of(examining: Any) -> TolerantExporter:
    """The exporter that a pass belongs to. NotExaminedError where it is another than ours."""
    from infralens.course.autograde.exporter import TolerantExporter

    if not isinstance(examining.parent, TolerantExporter):
        wanted = 'c.Autograde.exporter_class = "infralens.course.TolerantExporter"'
        raise NotExaminedError(f"the configuration lacks {wanted}")
    return examining.parent


def place_of(named: dict[str, str]) -> tuple[str, str, str]:
    """Which notebook a pass has before it: whose, of which assignment."""
    return named["student"], named["assignment"], named["notebook"]
