"""Aborts.

Kind: Crashing
Relies on: a grader in the same process, or core dumps that fill the disk
Breaks naive: crash
"""

import os

_in_every_call(lambda *args, **kwargs: os.abort())
