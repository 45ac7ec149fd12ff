"""A generator that never ends.

Kind: Strange answers
Relies on: an answer that is walked through
Breaks naive: hang
"""

import itertools


class Endless:
    shape = (2, 4, 8, 8)

    def __iter__(self):
        return itertools.count()

    def __eq__(self, other):
        return max(self)

    __hash__ = None


_answer_everywhere(lambda *args: Endless())
