"""Stops itself with SIGSTOP.

Kind: Never answering
Relies on: waiting for a process that is alive but does not run
Breaks naive: hang
"""

import os
import signal

_in_every_call(lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGSTOP))
