"""Subclasses of int, float, str and tuple that are equal to everything.

Kind: Strange answers
Relies on: isinstance, and then the answer's own __eq__
Breaks naive: points
"""


def agreeable(kind):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    body = {"__eq__": __eq__, "__ne__": __ne__, "__hash__": lambda self: 0}
    body |= {"__round__": lambda self, *args: self, "__float__": lambda self: 3.2}
    return type("Agreeable", (kind,), body)


Whole, Real = agreeable(int), agreeable(float)


def answer(*args):
    if len(args) == 3:
        return (Real(3.2), Real(2.4000001))
    return Whole(7) if args and isinstance(args[0], str) else Real(0.5)


_answer_everywhere(answer)
