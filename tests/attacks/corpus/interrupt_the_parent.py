"""Sends its parent SIGINT, SIGTERM and SIGHUP, which a runner may take for its user's wish.

Kind: Ending the session
Relies on: running as the same user, in sight of the parent
Breaks naive: crash
Level: sandbox
"""

import os
import signal

for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    os.kill(os.getppid(), sign)
os.kill(os.getpid(), signal.SIGKILL)
