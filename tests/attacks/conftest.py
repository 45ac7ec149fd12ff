"""Lets the attack tests import their neighbours, and prints the figures at the end of the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from arena import Arena, Outcome, table

collect_ignore_glob = ["corpus/*", "lab/*", "naive.py"]
FIGURES = pytest.StashKey[list[Outcome]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> list[Outcome]:
    """The outcomes so far, for the table at the end."""
    return pytestconfig.stash[FIGURES]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, figures: list[Outcome]) -> Iterator[Arena]:
    made = Arena(tmp_path_factory.mktemp("arena"))
    yield made
    made.close()
    figures += made.figures
    assert made.deaths == 0, f"the examiner died {made.deaths} times"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    outcomes = config.stash.get(FIGURES, [])
    if outcomes:
        terminalreporter.section("attacks")
        terminalreporter.write_line(table(outcomes))
