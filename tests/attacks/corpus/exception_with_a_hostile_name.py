"""Raises an exception whose class has no name, then a million characters for a name.

Kind: Crashing
Relies on: a grader that writes down the type of what was raised
Breaks naive: crash
"""


class Nameless(type):
    def __getattribute__(cls, name):
        if name in ("__name__", "__qualname__", "__module__"):
            return object()
        return super().__getattribute__(name)


Hostile = Nameless("\x1b[31m" + "x" * 10**6, (BaseException,), {})


raise Hostile("\x00\x1b]0;owned\x07" * 1000)
