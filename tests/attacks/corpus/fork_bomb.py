"""A fork bomb, which stops by itself at 300 processes.

Kind: Never answering
Relies on: killing one process after another
Breaks naive: leftovers
"""

import os
import time


def explode(*args, **kwargs):
    for _ in range(8):  # 2 ** 8 = 256 processes
        os.fork()
    time.sleep(45)
    os._exit(0)


_in_every_call(explode)
