"""What a machine may lack, and what a whole run prints at its end.

Tests that need what is not there skip with one line, or fail where it is required:
INFRALENS_REQUIRE names what must be there: "sandbox", "browser", or both with a comma.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from infralens.examiner.sandbox import unavailable

REQUIRED = set(filter(None, os.environ.get("INFRALENS_REQUIRE", "").split(",")))
MOST_CHARACTERS = 3000  # of a failure that is told at once; all of it stands at the end
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing(need: str) -> str | None:
    """Why what is needed is not here; None when it is."""
    if need == "sandbox":
        return unavailable()
    return None if any(map(shutil.which, BROWSERS)) else "Chromium is not installed"


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need in ("sandbox", "browser"):
        if item.get_closest_marker(need) is None:
            continue
        reason = missing(need)
        if reason is not None and need in REQUIRED:
            pytest.fail(f"{need} is required here: {reason}", pytrace=False)
        if reason is not None:
            pytest.skip(f"no {need}: {reason}")


class ToldAtOnce:
    """Tells what failed when it fails: a run of an hour may be broken off before its end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nFAILED {report.nodeid} ({report.when})")
            reporter.write_line(report.longreprtext[-MOST_CHARACTERS:])


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # one of pytest-xdist's workers sends its reports here
        config.pluginmanager.register(ToldAtOnce(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Minutes first, seconds last: two workers end together only if what is left is short."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The margins of the labs and the figures of the attacks, as far as they were run.

    Here and not in their folders: with pytest-xdist, what prints does not load those.
    """
    margins = [line for lines in carried(terminalreporter, "margins") for line in lines]
    if margins:
        terminalreporter.section("margins")
        terminalreporter.write_line("\n".join(margins))
    attacks = carried(terminalreporter, "attack")
    if attacks:
        sys.path.insert(0, str(Path(__file__).parent / "attacks"))
        from arena import Figure, table

        terminalreporter.section("attacks")
        terminalreporter.write_line(table([Figure(**attack) for attack in attacks]))


def carried(terminalreporter: pytest.TerminalReporter, name: str) -> list[Any]:
    """What the tests recorded under this name, with record_property."""
    return [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for recorded, value in report.user_properties
        if recorded == name
    ]
