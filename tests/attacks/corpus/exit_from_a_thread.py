"""A thread ends the process with exit code 0 while a call waits.

Kind: Ending the session
Relies on: the main thread being asleep
Breaks naive: points
"""

import os
import threading
import time

threading.Timer(0.3, os._exit, (0,)).start()
time.sleep(60)
