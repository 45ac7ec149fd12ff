"""Lets the attack tests import their neighbours, and sets attacks at the grader."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from arena import Arena, Attack, Outcome, SetAt

from infralens.labs import Lab

collect_ignore_glob = ["corpus/*", "lab/*", "naive.py"]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    made = Arena(tmp_path_factory.mktemp("arena"))
    yield made
    made.close()
    assert made.deaths == 0, f"the examiner died {made.deaths} times"


@pytest.fixture
def set_at(arena: Arena, record_property: Callable[[str, object], None]) -> SetAt:
    """Set an attack at the grader; its figure goes into the table at the end."""

    def run(attack: Attack, lab: Lab, isolation: str | None) -> Outcome:
        outcome = arena.run(attack, lab, isolation)
        record_property("attack", asdict(outcome.figure()))
        return outcome

    return run
