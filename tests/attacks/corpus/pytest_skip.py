"""Skips every check: pytest.skip in each call.

Kind: Ending the session
Relies on: a skipped check that counts as one that did not fail
Breaks naive: points
"""


def leave(*args, **kwargs):
    import pytest

    pytest.skip("not today")


_in_every_call(leave)
