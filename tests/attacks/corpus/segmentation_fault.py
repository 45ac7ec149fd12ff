"""Reads address 0.

Kind: Crashing
Relies on: a grader in the same process
Breaks naive: crash
"""

import ctypes

_in_every_call(lambda *args, **kwargs: ctypes.string_at(0))
