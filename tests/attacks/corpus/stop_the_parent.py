"""Stops its parent process with SIGSTOP, so that it waits for ever.

Kind: Ending the session
Relies on: running as the same user, in sight of the parent
Breaks naive: hang
Level: sandbox
"""

import os
import signal
import time

os.kill(os.getppid(), signal.SIGSTOP)
time.sleep(60)
