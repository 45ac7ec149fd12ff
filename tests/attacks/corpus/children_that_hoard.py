"""Eight children that take 350 MiB each: together more than the limit, one by one less.

Kind: Taking too much
Relies on: a memory limit for each process and none for all
Breaks naive: leftovers
"""

import os
import time


def hoard(*args, **kwargs):
    for _ in range(8):
        if os.fork() == 0:
            kept = bytearray(b"x") * (350 * 2**20)
            time.sleep(40)
            os._exit(0)
    time.sleep(40)


_in_every_call(hoard)
