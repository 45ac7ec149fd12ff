"""What a machine may lack: tests that need it skip with one line, or fail where it is required.

INFRALENS_REQUIRE names what must be there: "sandbox", "browser", or both with a comma.
"""

from __future__ import annotations

import os
import shutil

import pytest

from infralens.examiner.sandbox import unavailable

REQUIRED = set(filter(None, os.environ.get("INFRALENS_REQUIRE", "").split(",")))
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
