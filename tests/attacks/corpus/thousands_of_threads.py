"""Three thousand threads that wait.

Kind: Taking too much
Relies on: threads without a limit
Breaks naive: hang
"""

import threading
import time


def start(*args, **kwargs):
    threading.stack_size(64 * 1024)
    for _ in range(3000):
        try:
            threading.Thread(target=time.sleep, args=(600,)).start()
        except (RuntimeError, MemoryError):
            break
    time.sleep(30)


_in_every_call(start)
