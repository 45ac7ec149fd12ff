"""Sends SIGKILL to its whole process group.

Kind: Ending the session
Relies on: a grader that stands in the same process group
Breaks naive: crash
"""

import os
import signal

_in_every_call(lambda *args, **kwargs: os.killpg(0, signal.SIGKILL))
