"""Where the variants of the labs lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from infralens.authoring.runs import unpassed
from infralens.labs import Lab, find_labs
from infralens.report import Report

VARIANTS = Path(__file__).resolve().parents[1] / "variants"
LABS = find_labs()
Grade = Callable[..., Report]


def variants_of(lab: Lab) -> Path:
    """Where a lab's right and wrong variants lie."""
    return VARIANTS / lab.track / lab.name.replace("-", "_")


def wrong_of(lab: Lab) -> list[dict[str, Any]]:
    """A lab's wrong variants: {todo, name, replace, by}, each one edit of the solution."""
    path = variants_of(lab) / "wrong.yaml"
    return list(yaml.safe_load(path.read_text(encoding="utf-8"))) if path.is_file() else []


def lost(report: Report) -> list[str]:
    """The checks that did not pass, and what they said."""
    return [
        f"seed {report.seed}, {todo.id} {check.name}: {check.message}"
        for todo, check in unpassed(report)
    ]
