"""What doctor finds out where no candidate starts in a sandbox."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import pytest

from infralens.examiner.isolation import probes


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX descriptors")
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit('no way to the packages')", "no way to the packages"),
        (f"print({json.dumps(['ImportError: torch', *[True] * 4])!r})", "ImportError: torch"),
    ],
    ids=["it ends", "it cannot import"],
)
def test_a_candidate_that_does_not_start_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    """As where only its owner can read the checkout: doctor says so, not the learner's grade."""

    def instead(*_: object, **__: object) -> Sequence[str]:
        return (sys.executable, "-S", "-c", program)

    monkeypatch.setattr(probes, "sandboxed", instead)
    first, *_ = probes.probe_the_sandbox()
    assert (first.name, first.held, first.reason) == ("a candidate starts", False, reason)
