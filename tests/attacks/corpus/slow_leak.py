"""Takes 8 MiB more every few milliseconds, up to 3 GiB.

Kind: Taking too much
Relies on: memory that is looked at only at the end
Breaks naive: hang
"""

import time


def leak(*args, **kwargs):
    hoard = []
    while True:
        try:
            if len(hoard) < 384:
                hoard.append(bytearray(b"x") * (8 * 2**20))
        except MemoryError:
            pass
        time.sleep(0.003)


_in_every_call(leak)
