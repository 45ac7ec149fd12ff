"""Overflows the C stack through the repr of a very deep list.

Kind: Crashing
Relies on: Python's recursion limit being out of reach
Breaks naive: crash
"""

import sys


def overflow(*args, **kwargs):
    sys.setrecursionlimit(10**9)
    deep = []
    for _ in range(3_000_000):
        deep = [deep]
    return repr(deep)


_in_every_call(overflow)
