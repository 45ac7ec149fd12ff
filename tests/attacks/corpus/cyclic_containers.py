"""Lists, dicts and tuples that contain themselves.

Kind: Strange answers
Relies on: a comparison, a repr or a writer that recurses
Breaks naive: crash
"""

import sys


def cyclic(*args):
    sys.setrecursionlimit(10**9)
    answer = []
    answer += [answer, {"again": answer}, (answer, answer)]
    return answer


class Curious(list):
    def __eq__(self, other):
        return self == [other, self]

    def __iter__(self):
        return iter([self])

    def __sub__(self, other):
        return self - [other]

    __abs__ = __rsub__ = lambda self, *args: self - [self]
    __hash__ = None


def answer(*args):
    sys.setrecursionlimit(10**9)
    return Curious([cyclic()])


_answer_everywhere(answer)
