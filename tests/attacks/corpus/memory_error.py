"""Raises MemoryError in every call, with every bit of memory that it may have taken.

Kind: Crashing
Relies on: a grader in the same process that needs memory to say so
Breaks naive: crash
"""

import resource


def starve(*args, **kwargs):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096, pages * 4096))
    hoard = []
    size = 2**24
    while size > 64:
        try:
            while True:
                hoard.append(bytearray(size))
        except MemoryError:
            size //= 2
    globals()["kept"] = hoard
    raise MemoryError


_in_every_call(starve)
