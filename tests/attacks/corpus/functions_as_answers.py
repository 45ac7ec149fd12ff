"""Returns functions, classes, modules and its own file as the answer.

Kind: Strange answers
Relies on: an answer that is called, or looked into, by the check
Breaks naive: crash
"""

import os
import sys


class Bomb:
    def __getattribute__(self, name):
        os._exit(3)

    __call__ = __iter__ = __eq__ = __float__ = __sub__ = __rsub__ = lambda self, *args: os._exit(3)
    __hash__ = None


def answer(*args):
    return (Bomb(), Bomb) if len(args) == 3 else Bomb()


_answer_everywhere(answer)
