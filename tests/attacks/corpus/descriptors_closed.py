"""Closes every descriptor.

Kind: Reaching the verdict
Relies on: a grader that needs its own
Breaks naive: crash
"""

import os

_in_every_call(lambda *args, **kwargs: os.closerange(0, 4096))
