"""Keeps 1.8 GiB in files that lie in memory: none of it is resident in any process.

Kind: Taking too much
Relies on: counting only what is resident
Breaks naive: hang
"""

import os
import time


def keep(*args, **kwargs):
    kept = [os.memfd_create(f"kept-{number}") for number in range(30)]
    for file in kept:
        for _ in range(60):
            os.write(file, b"x" * 2**20)
    time.sleep(40)


_in_every_call(keep)
