"""Ends the pytest session with return code 0.

Kind: Ending the session
Relies on: pytest.exit being believed whoever calls it
Breaks naive: points
"""


def leave(*args, **kwargs):
    import pytest

    pytest.exit("all is well", returncode=0)


_in_every_call(leave)
