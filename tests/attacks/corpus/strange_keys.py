"""Dicts with keys that are no texts, that raise when compared, and that are all the same.

Kind: Strange answers
Relies on: an answer that is walked through
Breaks naive: crash
"""

import os


class Key(str):
    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise BaseException("do not compare me")


class Mapping(dict):
    def items(self):
        yield from [("a", 1)] * 10

    def __eq__(self, other):
        os._exit(1)

    def __getattr__(self, name):
        os._exit(1)

    __iter__ = __float__ = __sub__ = __rsub__ = __abs__ = lambda self, *args: os._exit(1)
    __hash__ = None


def answer(*args):
    return Mapping({Key("a"): 1, 2: 3, (4,): 5, None: 6})


_answer_everywhere(answer)
