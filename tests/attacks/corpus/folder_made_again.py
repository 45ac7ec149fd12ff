"""An orphan makes the temporary folder again and again after it was removed.

Kind: Taking too much
Relies on: cleaning up before everything is dead
Breaks naive: leftovers
"""

import os
import tempfile
import time

folder = tempfile.gettempdir()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        end = time.monotonic() + 40
        while time.monotonic() < end:
            try:
                os.makedirs(folder, exist_ok=True)
                open(f"{folder}/here again", "w").close()
            except OSError:
                pass
    os._exit(0)
