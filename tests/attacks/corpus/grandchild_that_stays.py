"""Leaves a grandchild behind whose parent has gone: a daemon, of nobody's family.

Kind: Never answering
Relies on: looking for children by their parent
Breaks naive: leftovers
"""

import os
import time

child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 256)
        time.sleep(60)
    os._exit(0)
os.waitpid(child, 0)
