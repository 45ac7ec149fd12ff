"""Takes one lock twice.

Kind: Never answering
Relies on: a call without a time limit
Breaks naive: hang
"""

import threading

lock = threading.Lock()


def wait(*args, **kwargs):
    lock.acquire()
    lock.acquire()


_in_every_call(wait)
