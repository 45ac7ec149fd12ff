"""The solution, with a thread of its own that ticks in the background.

Kind: Controls
Relies on: nothing
Deserves: all
"""

ENDING = """
import threading as _threading
import time as _time

def _tick():
    while True:
        _time.sleep(0.05)
_threading.Thread(target=_tick).start()
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_text(solution + ENDING, encoding="utf-8")
    return path
