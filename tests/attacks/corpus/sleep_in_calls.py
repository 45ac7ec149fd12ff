"""Sleeps in every call: no CPU time is used, so a limit on CPU time sees nothing.

Kind: Never answering
Relies on: RLIMIT_CPU as the only limit
Breaks naive: hang
"""

import time

_in_every_call(lambda *args, **kwargs: time.sleep(600))
