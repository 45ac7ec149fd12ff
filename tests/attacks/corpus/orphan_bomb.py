"""A fork bomb of orphans: each process leaves its parent at once. It stops at 300.

Kind: Never answering
Relies on: counting only the descendants of the process that was started
Breaks naive: leftovers
"""

import os
import time


def explode(*args, **kwargs):
    for _ in range(300):
        child = os.fork()
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(45)
            os._exit(0)
        os.waitpid(child, 0)
    time.sleep(45)


_in_every_call(explode)
