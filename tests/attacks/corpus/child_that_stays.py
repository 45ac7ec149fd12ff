"""Leaves a child process behind, in a session of its own.

Kind: Never answering
Relies on: only the started process, or its group, being killed
Breaks naive: leftovers
"""

import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(60)
    os._exit(0)
