"""Fixtures of the contract tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infralens.grading import Examiner, Wishes, examiner, grade
from infralens.labs import Lab
from infralens.report import Report

sys.path.insert(0, str(Path(__file__).parent))

from variants import Grade  # a module beside this one


@pytest.fixture(scope="session")
def warm() -> Iterator[Examiner]:
    with examiner(serve=True) as running:
        yield running


@pytest.fixture
def grade_text(warm: Examiner, tmp_path: Path) -> Grade:
    """Grade a text as a submission to a lab."""

    def grade_it(
        lab: Lab,
        text: str,
        *,
        seed: int | None = None,
        todos: tuple[str, ...] | None = None,
        wishes: Wishes = Wishes(naming="none"),  # noqa: B008  # frozen
    ) -> Report:
        path = tmp_path / lab.file
        path.write_text(text, encoding="utf-8")
        return grade(lab, path, seed=seed, todos=todos, device="cpu", wishes=wishes, using=warm)

    return grade_it
