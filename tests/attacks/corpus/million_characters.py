"""Texts of a million characters, returned, raised and printed.

Kind: Strange answers
Relies on: a report that holds whatever it is given
Breaks naive: points
"""


class Long(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def answer(*args):
    text = "\x1b[31m" + "x" * 10**6
    print(text)
    if len(args) == 3:
        raise ValueError(text)
    return Long(text[: 10**6])


_answer_everywhere(answer)
