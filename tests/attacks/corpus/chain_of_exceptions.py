"""Raises an exception whose cause has a cause, a hundred thousand times, and the last is the first.

Kind: Crashing
Relies on: a grader that follows causes by recursion
Breaks naive: crash
"""


def leave(*args, **kwargs):
    first = last = BaseException("first")
    for _ in range(100_000):
        following = BaseException("next")
        following.__cause__ = last
        following.__context__ = last
        last = following
    raise last


_in_every_call(leave)
