"""Asks for 100 GB and takes what it can get, up to 3 GiB.

Kind: Taking too much
Relies on: memory without a limit
Breaks naive: hang
"""

import time


def take(*args, **kwargs):
    hoard = []
    for size in (100 * 2**30, *[64 * 2**20] * 48):
        try:
            hoard.append(bytearray(size) if size > 2**33 else bytearray(b"x") * size)
        except MemoryError:
            continue
    time.sleep(30)


_in_every_call(take)
