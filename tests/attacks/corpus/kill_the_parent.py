"""Kills its parent process.

Kind: Ending the session
Relies on: running as the same user, in sight of the parent
Breaks naive: crash
Level: sandbox
"""

import os
import signal

os.kill(os.getppid(), signal.SIGKILL)
