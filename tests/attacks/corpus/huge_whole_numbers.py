"""Whole numbers of ten million digits, which take minutes to write down.

Kind: Strange answers
Relies on: an answer that is written into a message
Breaks naive: hang
"""

import sys


class Slow(int):
    def __eq__(self, other):
        return str(10**5_000_000) == other

    __round__ = __float__ = __sub__ = __rsub__ = __abs__ = lambda self, *args: str(10**5_000_000)
    __hash__ = None


def answer(*args):
    sys.set_int_max_str_digits(0)
    return Slow(10**1_000_000)


_answer_everywhere(answer)
