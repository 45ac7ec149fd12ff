"""Keeps 1.5 GiB that waits in sockets: it lies in the kernel, and in no process.

Kind: Taking too much
Relies on: counting only what processes hold themselves
Breaks naive: hang
"""

import os
import socket
import time


def keep(*args, **kwargs):
    kept = [end for _ in range(100) for end in socket.socketpair()]
    for end in kept:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**24)
        end.setblocking(False)
        try:
            while True:
                os.write(end.fileno(), bytes(2**16))
        except BlockingIOError:
            pass
    time.sleep(40)


_in_every_call(keep)
