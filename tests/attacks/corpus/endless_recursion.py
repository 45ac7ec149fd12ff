"""Recursion without an end and with the recursion limit taken away.

Kind: Never answering
Relies on: Python's own recursion limit
Breaks naive: crash
"""

import sys


def deeper(*args, **kwargs):
    sys.setrecursionlimit(10**9)
    return eval("deeper(*args)", {"deeper": deeper, "args": args})


_in_every_call(deeper)
