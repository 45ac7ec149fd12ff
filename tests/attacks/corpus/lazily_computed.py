"""An object that computes itself when it is looked at, from what the looking tells it.

Kind: Strange answers
Relies on: the reference being there when the answer is looked at
Breaks naive: points
"""


class Lazy:
    def __init__(self, value=None):
        self.value = value

    def __sub__(self, other):
        return Lazy(other - other)

    __rsub__ = __sub__

    def __eq__(self, other):
        return other == other

    def __getattr__(self, name):
        return getattr(self.value, name) if self.value is not None else self

    def __call__(self, *args):
        return self

    def __getitem__(self, index):
        return self

    def __iter__(self):
        return iter((self, self))

    def __float__(self):
        return 3.2

    __hash__ = None


_answer_everywhere(lambda *args: Lazy())
