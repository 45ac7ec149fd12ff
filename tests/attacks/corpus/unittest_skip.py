"""Raises unittest.SkipTest in each call, and at the end of the file.

Kind: Ending the session
Relies on: a runner that honours SkipTest from the code under test
Breaks naive: points
"""


def leave(*args, **kwargs):
    import unittest

    raise unittest.SkipTest("not today")


_in_every_call(leave)
