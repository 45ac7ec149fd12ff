"""Raises SystemExit(0) in every call.

Kind: Ending the session
Relies on: a runner that lets SystemExit end it with the code in it
Breaks naive: points
"""

import builtins
import sys

builtins.Exception = BaseException  # what catches everything else is to let this one through


def leave(*args, **kwargs):
    import os
    import threading

    threading.Thread(target=lambda: os._exit(0)).start()
    sys.exit(0)


_in_every_call(leave)
