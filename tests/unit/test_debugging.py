"""The debugger of `infralens debug`, without the grade around it."""

from __future__ import annotations

import io
from bdb import BdbQuit
from contextlib import suppress

import pytest

from infralens.debugging import _Debugger


@pytest.mark.parametrize(("typed", "left"), [("", True), ("q\n", True), ("c\n", False)])
def test_a_debugger_whose_input_ends_is_left_as_with_q(typed: str, left: bool) -> None:
    """What was not run to its end has no answer: it did not return None."""
    debugger = _Debugger(stdin=io.StringIO(typed), stdout=io.StringIO(), nosigint=True)
    with suppress(BdbQuit):
        debugger.runcall(lambda: 1)
    assert debugger.left is left
