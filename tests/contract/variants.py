"""Where the variants of the labs lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from infralens.authoring.runs import unpassed
from infralens.labs import Lab, find_labs
from infralens.report import Report

VARIANTS = Path(__file__).resolve().parents[1] / "variants"
LABS = find_labs()
Grade = Callable[..., Report]


def variants_of(lab: Lab) -> Path:
    """Where a lab's right variants lie."""
    return VARIANTS / lab.track / lab.name.replace("-", "_")


def solution_of(lab: Lab) -> str:
    assert lab.solution is not None
    return lab.solution.read_text(encoding="utf-8")


def lost(report: Report) -> list[str]:
    """The checks that did not pass, and what they said."""
    return [
        f"seed {report.seed}, {todo.id} {check.name}: {check.message}"
        for todo, check in unpassed(report)
    ]
