"""Ends itself with SIGTERM in every call.

Kind: Ending the session
Relies on: a grader in the same process
Breaks naive: crash
"""

import os
import signal


def leave(*args, **kwargs):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


_in_every_call(leave)
