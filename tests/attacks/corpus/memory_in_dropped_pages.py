"""Fills shared maps and drops their pages again: the memory stays, and is resident nowhere.

Kind: Taking too much
Relies on: counting only what is resident
Breaks naive: hang
"""

import mmap
import os
import time


def keep(*args, **kwargs):
    for _ in range(4):  # each in a child, whose address space is limited alone
        if os.fork() == 0:
            kept = [mmap.mmap(-1, 50 * 2**20) for _ in range(10)]
            for room in kept:
                for _ in range(50):
                    room.write(b"x" * 2**20)
                room.madvise(mmap.MADV_DONTNEED)
            time.sleep(40)
            os._exit(0)
    time.sleep(40)


_in_every_call(keep)
