"""Forks: the parent exits with code 0, the child goes on answering in its place.

Kind: Ending the session
Relies on: limits that follow only the process that was started
Breaks naive: points
"""

import os
import time


def carry_on(*args, **kwargs):
    if os.fork():
        os._exit(0)
    os.setsid()
    hoard = [bytearray(b"x" * 2**20) for _ in range(200)]
    time.sleep(20)
    os._exit(0)


_in_every_call(carry_on)
