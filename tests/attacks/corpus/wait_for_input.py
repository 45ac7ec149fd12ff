"""Waits for a line from the terminal, and for one from the descriptor itself.

Kind: Never answering
Relies on: a stdin that is open
Breaks naive: hang
"""

import os
import select
import time


def wait(*args, **kwargs):
    while not select.select([0], [], [], 600)[0] or not os.read(0, 1):
        time.sleep(0.1)


_in_every_call(wait)
