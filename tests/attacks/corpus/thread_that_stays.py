"""Leaves a thread behind that keeps the process from ending.

Kind: Never answering
Relies on: waiting for the process to end by itself
Breaks naive: hang
"""

import threading
import time

threading.Thread(target=time.sleep, args=(600,)).start()
