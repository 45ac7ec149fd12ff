"""Finds the checks' functions among all objects and empties their code.

Kind: Reaching the verdict
Relies on: the checks being loaded in the same process
Breaks naive: points
"""

import gc
import types


def empty(*args, **kwargs):
    def nothing(submission=None):
        return None

    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__name__.startswith("test_"):
            thing.__code__ = nothing.__code__


_in_every_call(empty)
