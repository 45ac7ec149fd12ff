"""A process that never keeps its number: it forks, dies, and goes on in the child, for 25 seconds.

Kind: Never answering
Relies on: a kill that comes later than the look
Breaks naive: leftovers
"""

import os
import time

end = time.monotonic() + 25
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
    os._exit(0)
