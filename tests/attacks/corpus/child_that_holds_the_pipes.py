"""Ends itself, while a grandchild keeps every pipe open: nobody reads an end of file.

Kind: Never answering
Relies on: waiting for the end of output
Breaks naive: points
"""

import os
import time


def hold(*args, **kwargs):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    os._exit(0)


_in_every_call(hold)
