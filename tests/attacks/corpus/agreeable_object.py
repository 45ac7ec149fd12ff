"""An object that agrees with everything: equal to all, true, never greater, any attribute.

Kind: Strange answers
Relies on: a comparison that asks the answer
Breaks naive: points
"""


class Agreeable:
    def __getattr__(self, name):
        return self

    def me(self, *args, **kwargs):
        return self

    __call__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __getitem__ = me
    __abs__ = __neg__ = __truediv__ = __rtruediv__ = me

    def yes(self, *args):
        return True

    __eq__ = __le__ = __lt__ = __bool__ = __contains__ = __instancecheck__ = yes

    def no(self, *args):
        return False

    __ne__ = __gt__ = __ge__ = no

    def __iter__(self):
        return iter((self, self))

    def __float__(self):
        return 0.0

    def __len__(self):
        return 2

    __hash__ = None


_answer_everywhere(lambda *args: Agreeable())
