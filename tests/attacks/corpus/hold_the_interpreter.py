"""Holds the interpreter's lock inside C: no Python handler, thread or alarm gets a turn.

Kind: Never answering
Relies on: a time limit kept by a thread or a signal handler of the same process
Breaks naive: hang
"""

import ctypes

_in_every_call(lambda *args, **kwargs: ctypes.PyDLL(None).sleep(600))
