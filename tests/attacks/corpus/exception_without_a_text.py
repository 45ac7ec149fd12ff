"""Raises exceptions whose str() and repr() raise, down to the last.

Kind: Crashing
Relies on: a grader that writes down what was raised
Breaks naive: crash
"""


class Silent(BaseException):
    def __str__(self):
        raise type(self)()

    __repr__ = __str__

    @property
    def __traceback__(self):
        raise type(self)()


def leave(*args, **kwargs):
    raise Silent()


_in_every_call(leave)
